"""Credentials: the key a provider is asked with, and where it comes from.

Owns the order of sources: an explicit key, ``auth.json``, the environment, ``models.json``; the
first that says something about a provider decides, also where what it says cannot be used. Keys
appear in no ``repr``, log or error. It logs nobody in and refreshes nothing: a login in
``auth.json`` is used while it is valid. Reading and writing of that file is
``pi_rpc.harness._auth_file``'s, what written values stand for ``pi_rpc.harness._key_values``'s."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pi_rpc.harness._auth_file import AuthFile, expired
from pi_rpc.harness._key_values import (
    CommandValues,
    UnresolvedValueError,
    literally,
    needs,
    resolved,
    unset_variable,
)
from pi_rpc.harness._key_variables import (
    BEARER_VARIABLES,
    ENVIRONMENT_KEYS,
    SIGNING_VARIABLES,
    key_variables,
)
from pi_rpc.harness._written import WatchedFile
from pi_rpc.harness.models_json import CustomModels, CustomProvider, custom_models_file
from pi_rpc.harness.paths import agent_dir
from pi_rpc.llm.models import Model

__all__ = [
    "ENVIRONMENT_KEYS",
    "MAX_KEY",
    "CredentialError",
    "CredentialKind",
    "CredentialStatus",
    "Credentials",
    "KeyForm",
    "key_variables",
]

MAX_KEY = 64 * 1024
"""Characters of the longest key that is stored."""

CredentialKind: TypeAlias = Literal["api_key", "oauth", "signature", "not_needed", "none"]
KeyForm: TypeAlias = Literal["text", "variable", "command"]


class CredentialError(Exception):
    """There is a credential, but it cannot be used. The message says why, and never its value."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CredentialStatus(Struct, frozen=True, kw_only=True):
    """What is known of a provider's credential without using it. Holds no key."""

    provider: str
    source: str
    """``auth.json``, ``models.json``, ``runtime`` (an explicit key), ``none``, or the name of an
    environment variable."""
    kind: CredentialKind
    form: KeyForm | None = None
    """How a key is written in a file."""
    problem: str | None = None
    """Why it cannot be used, as far as can be told without running a command."""
    hint: str | None = None
    """What to do, where there is none or it cannot be used."""
    expires: int | None = None
    """When a login ends, in milliseconds since 1970."""

    @property
    def usable(self) -> bool:
        """The provider can be asked, as far as can be told without running a command."""
        return self.kind != "none" and self.problem is None


class _Found(Struct, frozen=True, kw_only=True):
    """The source that decides about a provider."""

    source: str
    kind: CredentialKind
    value: str | None = None
    written: str | None = None
    """In place of ``value``: what stands for it."""
    what: str = ""
    """Its name in errors."""
    problem: str | None = None
    advice: str | None = None
    is_bearer: bool = False
    expires: int | None = None

    def __repr__(self) -> str:
        """Without the key."""
        return f"_Found(source={self.source!r}, kind={self.kind!r}, problem={self.problem!r})"


_NOTHING = _Found(source="none", kind="none")


class Credentials:
    """Finds the key of a provider."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        explicit: Mapping[str, str] | None = None,
        custom: WatchedFile[CustomModels] | None = None,
        commands: CommandValues | None = None,
    ) -> None:
        """``folder`` is the agent directory; ``explicit`` are keys by provider that win over all.

        Nothing is read before it is needed. ``custom`` shares a ``models.json`` already watched.
        """
        self._environ: Mapping[str, str] = os.environ if environ is None else environ
        folder = agent_dir(self._environ) if folder is None else folder
        self._explicit = dict(explicit or {})
        self._custom = custom or custom_models_file(folder)
        self._file = AuthFile(folder)
        self._commands = commands or CommandValues(self._environ)
        self.known: set[str] = set()
        """Values that must not be told: all that were resolved or stored so far, and what ``learn``
        found. It only grows."""

    def __repr__(self) -> str:
        return f"<Credentials of {self._file.path.parent}>"

    @property
    def path(self) -> Path:
        """Where keys are stored: ``auth.json``; it need not exist."""
        return self._file.path

    def problems(self) -> list[str]:
        """A line about each thing that is wrong with ``auth.json``."""
        return self._file.problems()

    def stored(self) -> tuple[str, ...]:
        """The providers that ``auth.json`` has a key or a login of."""
        return tuple(self._file.entries())

    # --- asking ----------------------------------------------------------------------------------

    def has(self, provider: str) -> bool:
        """Whether ``provider`` can be asked, as far as can be told without running a command."""
        found = self._found(provider)
        return found.kind != "none" and found.problem is None

    def status(self, provider: str) -> CredentialStatus:
        """Where the key of ``provider`` comes from, whether it can be used, and what to do."""
        found = self._found(provider)
        hint = found.advice
        if found.kind == "none":
            hint = f"run `pi-rpc auth set {provider}`, or set {self._variables_of(provider)}"
        return CredentialStatus(
            provider=provider,
            source=found.source,
            kind=found.kind,
            form=_form(found.written) if found.written else None,
            problem=found.problem,
            hint=hint,
            expires=found.expires,
        )

    async def api_key(self, provider: str) -> str | None:
        """The key to ask ``provider`` with; None if there is none, or none is needed.

        None is needed, too, where the variables of the environment let requests be signed.

        Raises ``CredentialError`` when one is stored or configured but cannot be used, for instance
        because its command fails.
        """
        found = self._found(provider)
        if found.problem is not None:
            raise CredentialError(f"{found.problem}; {found.advice}")
        if found.written is not None:
            environ = {**self._environ, **await self.environment(provider)}
            return await self._resolve(found.what, found.written, environ)
        if found.value:
            self.known.add(found.value)
        return found.value

    async def headers(self, model: Model) -> dict[str, str]:
        """Request headers that ``models.json`` or the kind of key asks for, with their values.

        Raises ``CredentialError`` as ``api_key`` does.
        """
        headers: dict[str, str] = {}
        custom = self._provider(model.provider)
        environ = {**self._environ, **await self.environment(model.provider)}
        bearer = self._found(model.provider).is_bearer
        if custom is not None:
            written = {**custom.headers, **custom.model_headers.get(model.id, {})}
            for name, value in written.items():
                what = f"the header {name} of {model.provider} in {self._custom.path}"
                headers[name] = await self._resolve(what, value, environ)
            bearer = bearer or custom.auth_header
        if bearer and (key := await self.api_key(model.provider)):
            headers["Authorization"] = f"Bearer {key}"
        return headers

    async def environment(self, provider: str) -> dict[str, str]:
        """The variables of the provider alone: ``env`` of its entry in ``auth.json``.

        Raises ``CredentialError`` as ``api_key`` does.
        """
        environment = {}
        for name, written in self._own(provider).items():
            try:
                value = await resolved(written, self._environ, self._commands)
            except UnresolvedValueError as error:
                what = f"{name} of {provider} in {self._file.path}"
                raise CredentialError(f"{what} cannot be used: {error}") from None
            environment[name] = value
            if value and name in key_variables():
                self.known.add(value)
        return environment

    def _own(self, provider: str) -> Mapping[str, str]:
        """The variables of the provider alone, as they are written."""
        own = self._file.entries().get(provider, {}).get("env")
        return own if isinstance(own, dict) else {}

    def variables(self) -> frozenset[str]:
        """Every environment variable that may hold a key, those that ``models.json`` names too."""
        written = [
            text
            for provider in self._custom.current().providers.values()
            for text in (
                provider.api_key or "",
                *provider.headers.values(),
                *(value for each in provider.model_headers.values() for value in each.values()),
            )
        ]
        for provider, entry in self._file.entries().items():
            written += [str(entry.get("key", "")), *self._own(provider).values()]
        return key_variables().union(*(needs(text) for text in written))

    def learn(self) -> None:
        """Add to ``known`` what the environment and the files hold in plain text. Blocking."""
        values = [self._environ.get(name, "").strip() for name in self.variables()]
        for entry in self._file.entries().values():
            values += [str(entry[name]) for name in ("access", "refresh") if name in entry]
        hidden = key_variables()
        written: list[str] = []
        for provider, entry in self._file.entries().items():
            own = self._own(provider)
            written += [str(entry.get("key", "")), *(own[name] for name in own if name in hidden)]
        written += [each.api_key or "" for each in self._custom.current().providers.values()]
        values += [each for each in written if each and _form(each) == "text"]
        self.known.update(filter(None, values))

    def hint(self, provider: str) -> str:
        """How a person gives us the key of ``provider``, for the end of a sentence."""
        if ENVIRONMENT_KEYS.get(provider):
            stored = f"an entry {provider} in {self._file.path}"
            return f"{self._variables_of(provider)}, or {stored}"
        return self._variables_of(provider)

    # --- storing ---------------------------------------------------------------------------------

    def store(self, provider: str, key: str, form: KeyForm = "text") -> None:
        """Store a key in ``auth.json``: itself, a variable's name, or a command that prints it.

        Counts at once. Raises ``ValueError`` for what can be none of these (the message does not
        quote it), ``RewriteError`` where the file holds no JSON object or is locked, and
        ``OSError``. Blocking.
        """
        key = key.strip()
        if not key:
            raise ValueError("it is empty")
        if len(key) > MAX_KEY:
            raise ValueError("it is far longer than a key; was something else pasted?")
        if form == "text":
            if not key.isascii() or not key.isprintable():
                raise ValueError("it has characters that no key has; was something else pasted?")
            written = literally(key)
            self.known.add(key)
        elif form == "variable":
            written = f"${key}"
            if needs(written) != [key]:
                raise ValueError("it is not the name of an environment variable")
        else:
            if "\0" in key:
                raise ValueError("it is no command")
            self._commands.forget(key)
            written = f"!{key}"
        self._file.store_key(provider, written)

    def remove(self, provider: str) -> bool:
        """Forget what ``auth.json`` has of ``provider``; False if that is nothing.

        Raises ``RewriteError`` and ``OSError`` as ``store`` does. Blocking.
        """
        return self._file.remove(provider)

    # --- which source decides --------------------------------------------------------------------

    def _found(self, provider: str) -> _Found:
        if key := self._explicit.get(provider):
            return _Found(source="runtime", kind="api_key", value=key)
        custom = self._provider(provider)
        keyless = custom is not None and custom.keyless
        entry = self._file.entries().get(provider)
        if entry is not None and not (expired(entry) and keyless):
            login = entry["type"] == "oauth"
            return self._login(provider, entry) if login else self._stored_key(provider, entry)
        if name := self._variable(provider):
            bearer = name in BEARER_VARIABLES
            value = self._environ[name].strip()
            return _Found(source=name, kind="api_key", value=value, is_bearer=bearer)
        if name := _signing_variable(provider, self._environ):
            return _Found(source=name, kind="signature")
        if custom is not None and custom.api_key is not None:
            what = f"the apiKey of {provider} in {self._custom.path}"
            return self._key(provider, "models.json", what, custom.api_key)
        return _Found(source="none", kind="not_needed") if keyless else _NOTHING

    def _login(self, provider: str, entry: Mapping[str, Any]) -> _Found:
        problem = advice = None
        if expired(entry):
            problem = f"the login for {provider} in {self._file.path} has expired"
            advice = f"run `pi auth login {provider}`, or `pi-rpc auth set {provider}`"
            if name := self._variable(provider):
                # Not by itself: it is another account, and may cost money that a login does not.
                advice += f"; `pi-rpc auth remove {provider}` makes {name} count"
        return _Found(
            source="auth.json",
            kind="oauth",
            value=str(entry["access"]),
            problem=problem,
            advice=advice,
            is_bearer=True,
            expires=int(entry["expires"]),
        )

    def _stored_key(self, provider: str, entry: Mapping[str, Any]) -> _Found:
        what = f"the key of {provider} in {self._file.path}"
        own = self._own(provider)
        environ = {**self._environ, **own}
        if "key" in entry:
            return self._key(provider, "auth.json", what, entry["key"])
        if name := self._variable(provider, environ):
            bearer = name in BEARER_VARIABLES
            written = own.get(name) or literally(environ[name])
            return replace(self._key(provider, "auth.json", what, written), is_bearer=bearer)
        if _signing_variable(provider, environ):
            return replace(self._key(provider, "auth.json", what, ""), kind="signature")
        return _Found(
            source="auth.json",
            kind="api_key",
            problem=f"{what} cannot be used: its env names no key of {provider}",
            advice=f"run `pi-rpc auth set {provider}`",
        )

    def _key(self, provider: str, source: str, what: str, written: str) -> _Found:
        problem = advice = None
        own = self._own(provider)
        missing = unset_variable(written, {**self._environ, **own})
        for each in own.values():
            missing = missing or unset_variable(each, self._environ)
        if missing is not None:
            problem = f"{what} cannot be used: the environment variable {missing} is not set"
            advice = f"set {missing}, or run `pi-rpc auth set {provider}`"
        return _Found(
            source=source,
            kind="api_key",
            written=written or None,
            what=what,
            problem=problem,
            advice=advice,
        )

    def _provider(self, provider: str) -> CustomProvider | None:
        return self._custom.current().providers.get(provider)

    def _variable(self, provider: str, environ: Mapping[str, str] | None = None) -> str | None:
        """The name of the variable that holds the key of ``provider``, if one does."""
        environ = self._environ if environ is None else environ
        names = ENVIRONMENT_KEYS.get(provider, ())
        return next((name for name in names if environ.get(name, "").strip()), None)

    def _variables_of(self, provider: str) -> str:
        """What a person may set, other than by our command."""
        names = ENVIRONMENT_KEYS.get(provider)
        if not names:
            return (
                f"an entry {provider} in {self._file.path}, or an apiKey for it in "
                f"{self._custom.path}"
            )
        own = next((name for name in names if name.endswith("_API_KEY")), names[0])
        for group in SIGNING_VARIABLES.get(provider, ())[:2]:
            own += f", or {' and '.join(group)}"
        return own

    async def _resolve(self, what: str, written: str, environ: Mapping[str, str]) -> str:
        try:
            value = (await resolved(written, environ, self._commands)).strip()
        except UnresolvedValueError as error:
            raise CredentialError(f"{what} cannot be used: {error}") from None
        self.known.add(value)
        return value


def _signing_variable(provider: str, environ: Mapping[str, str]) -> str | None:
    """The first of the variables that let requests to ``provider`` be signed, if they are set."""
    groups = SIGNING_VARIABLES.get(provider, ())
    return next((group[0] for group in groups if all(environ.get(name) for name in group)), None)


def _form(written: str) -> KeyForm:
    if written.startswith("!"):
        return "command"
    return "variable" if needs(written) else "text"
