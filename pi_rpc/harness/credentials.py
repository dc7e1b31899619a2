"""Credentials: the key a provider is asked with, and where it comes from.

Owns the order of sources (an explicit key, ``auth.json``, the environment, ``models.json``) and
what is written in them. Keys appear in no ``repr``, log or error. It logs nobody in and refreshes
nothing: a login in ``auth.json`` is used while it is valid."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pi_rpc.harness._key_values import CommandValues, UnresolvedValueError, needs, resolved
from pi_rpc.harness._written import WatchedFile, read_object
from pi_rpc.harness.models_json import CustomModels, CustomProvider, custom_models_file
from pi_rpc.harness.paths import agent_dir
from pi_rpc.llm.messages import now_ms
from pi_rpc.llm.models import Model

__all__ = ["ENVIRONMENT_KEYS", "CredentialError", "Credentials", "key_variables"]

ENVIRONMENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "amazon-bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "github-copilot": ("COPILOT_GITHUB_TOKEN",),
    "google": ("GEMINI_API_KEY",),
    "google-vertex": ("GOOGLE_CLOUD_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "kimi-coding": ("KIMI_API_KEY",),
    "moonshotai": ("MOONSHOT_API_KEY",),
    "moonshotai-cn": ("MOONSHOT_API_KEY",),
    "opencode-go": ("OPENCODE_API_KEY",),
    "vercel-ai-gateway": ("AI_GATEWAY_API_KEY",),
    **{
        provider: (f"{provider.upper().replace('-', '_')}_API_KEY",)
        for provider in (
            "ant-ling", "baseten", "cerebras", "deepseek", "fireworks", "groq", "meta", "minimax",
            "minimax-cn", "mistral", "nvidia", "openai", "opencode", "openrouter", "radius",
            "qwen-token-plan", "qwen-token-plan-cn", "qwen-token-plan-individual",
            "qwen-token-plan-individual-cn", "together", "typesafe", "xai", "xiaomi",
            "xiaomi-token-plan-ams", "xiaomi-token-plan-cn", "xiaomi-token-plan-sgp", "zai",
            "zai-coding-cn",
        )
    },
}  # fmt: skip
"""The variables that hold a provider's key, best first."""

_SIGNING_VARIABLES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "amazon-bedrock": (
        ("AWS_PROFILE",),
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
        ("AWS_WEB_IDENTITY_TOKEN_FILE",),
    ),
}
"""Variables that let a provider's requests be signed, without a key to send: any of these groups.

What they name is read where the request is signed, and may fail only there."""

_BEARER_VARIABLES = {"ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"}


class CredentialError(Exception):
    """There is a credential, but it cannot be used. The message says why, and never its value."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def key_variables() -> frozenset[str]:
    """Every environment variable that may hold a key; commands of a model must not see them."""
    names = {name for each in ENVIRONMENT_KEYS.values() for name in each}
    return frozenset(
        names
        | {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
        | {"AWS_CONTAINER_AUTHORIZATION_TOKEN"}
        | {"AWS_BEARER_TOKEN_BEDROCK", "CLOUDFLARE_API_KEY"}
    )


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
        self._stored = WatchedFile(folder / "auth.json", _read_stored)
        self._commands = commands or CommandValues(self._environ)

    def __repr__(self) -> str:
        return f"<Credentials of {self._stored.path.parent}>"

    def problems(self) -> list[str]:
        """A line about each thing that is wrong with ``auth.json``."""
        return list(self._stored.current()[1])

    def has(self, provider: str) -> bool:
        """Whether ``provider`` can be asked, as far as can be told without running a command."""
        if self._explicit.get(provider):
            return True
        entry = self._entry(provider)
        if entry is not None and not _expired(entry):
            return self._usable(provider, entry)
        if self._variable(provider) or self._signs(provider):
            return True
        custom = self._provider(provider)
        if custom is None:
            return False
        return custom.keyless or (custom.api_key is not None and self._complete(custom.api_key))

    async def api_key(self, provider: str) -> str | None:
        """The key to ask ``provider`` with; None if there is none, or none is needed.

        None is needed, too, where the variables of the environment let requests be signed.

        Raises ``CredentialError`` when one is stored or configured but cannot be used, for instance
        because its command fails.
        """
        if key := self._explicit.get(provider):
            return key
        entry = self._entry(provider)
        if entry is not None and not _expired(entry):
            return await self._stored_key(provider, entry)
        if name := self._variable(provider):
            return self._environ[name]
        custom = self._provider(provider)
        if custom is not None and custom.api_key is not None:
            return await self._resolve(
                f"the apiKey of {provider} in {self._custom.path}", custom.api_key, self._environ
            )
        if entry is not None and not (custom is not None and custom.keyless):
            raise CredentialError(
                f"the login for {provider} in {self._stored.path} has expired; log in again with "
                f"pi, or set {self.hint(provider)}"
            )
        return None

    async def headers(self, model: Model) -> dict[str, str]:
        """Request headers that ``models.json`` or the kind of key asks for, with their values.

        Raises ``CredentialError`` as ``api_key`` does.
        """
        headers: dict[str, str] = {}
        custom = self._provider(model.provider)
        bearer = self._is_bearer(model.provider)
        if custom is not None:
            written = {**custom.headers, **custom.model_headers.get(model.id, {})}
            for name, value in written.items():
                what = f"the header {name} of {model.provider} in {self._custom.path}"
                headers[name] = await self._resolve(what, value, self._environ)
            bearer = bearer or custom.auth_header
        if bearer and (key := await self.api_key(model.provider)):
            headers["Authorization"] = f"Bearer {key}"
        return headers

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
        return key_variables().union(*(needs(text) for text in written))

    def hint(self, provider: str) -> str:
        """How a person gives us the key of ``provider``, for the end of a sentence."""
        names = ENVIRONMENT_KEYS.get(provider)
        stored = f"an entry {provider} in {self._stored.path}"
        if names:
            own = next((name for name in names if name.endswith("_API_KEY")), names[0])
            for group in _SIGNING_VARIABLES.get(provider, ())[:2]:
                own += f", or {' and '.join(group)}"
            return f"{own}, or {stored}"
        return f"{stored}, or an apiKey for it in {self._custom.path}"

    def _provider(self, provider: str) -> CustomProvider | None:
        return self._custom.current().providers.get(provider)

    def _entry(self, provider: str) -> dict[str, Any] | None:
        return self._stored.current()[0].get(provider)

    def _variable(self, provider: str, environ: Mapping[str, str] | None = None) -> str | None:
        """The name of the variable that holds the key of ``provider``, if one does."""
        environ = self._environ if environ is None else environ
        names = ENVIRONMENT_KEYS.get(provider, ())
        return next((name for name in names if environ.get(name)), None)

    def _signs(self, provider: str) -> bool:
        """The environment lets requests to ``provider`` be signed."""
        groups = _SIGNING_VARIABLES.get(provider, ())
        return any(all(self._environ.get(name) for name in group) for group in groups)

    def _is_bearer(self, provider: str) -> bool:
        if self._explicit.get(provider):
            return False
        entry = self._entry(provider)
        if entry is not None and not _expired(entry):
            return bool(entry["type"] == "oauth")
        return self._variable(provider) in _BEARER_VARIABLES

    def _surroundings(self, entry: Mapping[str, Any]) -> Mapping[str, str]:
        own = entry.get("env")
        return {**self._environ, **own} if isinstance(own, dict) else self._environ

    def _complete(self, written: str) -> bool:
        return all(self._environ.get(name) for name in needs(written))

    async def _stored_key(self, provider: str, entry: Mapping[str, Any]) -> str:
        if entry["type"] == "oauth":
            return str(entry["access"])
        what = f"the key of {provider} in {self._stored.path}"
        environ = self._surroundings(entry)
        if "key" in entry:
            return await self._resolve(what, entry["key"], environ)
        if name := self._variable(provider, environ):
            return environ[name]
        raise CredentialError(f"{what} cannot be used: its env names no key of {provider}")

    def _usable(self, provider: str, entry: Mapping[str, Any]) -> bool:
        if entry["type"] == "oauth":
            return True
        environ = self._surroundings(entry)
        if "key" in entry:
            return all(environ.get(name) for name in needs(entry["key"]))
        return self._variable(provider, environ) is not None

    async def _resolve(self, what: str, written: str, environ: Mapping[str, str]) -> str:
        try:
            return await resolved(written, environ, self._commands)
        except UnresolvedValueError as error:
            raise CredentialError(f"{what} cannot be used: {error}") from None


_Stored = tuple[dict[str, dict[str, Any]], list[str]]


def _read_stored(path: Path) -> _Stored:
    """The entries of ``auth.json`` that have the right shape, and what is wrong with the others."""
    raw, problems = read_object(path)
    if raw is None:
        return {}, problems
    if os.name == "posix" and path.stat().st_mode & 0o077:
        problems.append(f"{path}: others on this machine may read your keys; run: chmod 600 {path}")
    entries: dict[str, dict[str, Any]] = {}
    for provider, entry in raw.items():
        if reason := _misshapen(entry):
            problems.append(f"{path}: {provider}: {reason}; ignored")
        else:
            entries[provider] = entry
    return entries, problems


def _misshapen(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return "should be an object"
    own = entry.get("env")
    if own is not None and not (
        isinstance(own, dict) and all(isinstance(value, str) for value in own.values())
    ):
        return "env should be an object of texts"
    if entry.get("type") == "api_key":
        key = entry.get("key")
        shaped = (isinstance(key, str) and key) or ("key" not in entry and own)
        return None if shaped else "an api_key entry needs a text as its key"
    if entry.get("type") == "oauth":
        access, expires = entry.get("access"), entry.get("expires")
        login = isinstance(access, str) and access and isinstance(expires, int | float)
        return None if login else "an oauth entry needs access (text) and expires (milliseconds)"
    return "type should be api_key or oauth"


def _expired(entry: Mapping[str, Any]) -> bool:
    return bool(entry["type"] == "oauth" and entry["expires"] <= now_ms())
