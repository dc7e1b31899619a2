"""The keys of providers, as front doors show and change them.

Owns which providers are listed, which may be given a key, and how a file that cannot be written is
told. Does not own where keys come from and how they are stored (``pi_rpc.harness.credentials``).
No key is ever part of what is returned or raised. Sessions look a key up for each request, so what
changes here counts at once.
"""

import difflib
from typing import Any

from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.credentials import ENVIRONMENT_KEYS, CredentialStatus, KeyForm
from pi_rpc.harness.errors import HarnessError
from pi_rpc.host.services import Services
from pi_rpc.llm.local_servers import LIMIT_S

__all__ = ["ProviderKey", "key_of", "keys", "remove_key", "store_key"]


class ProviderKey(Struct, frozen=True):
    """What is known of a provider's credential."""

    name: str
    """The provider's, for people."""
    status: CredentialStatus

    def described(self) -> dict[str, Any]:
        """The fields of the wire's ``ProviderAuth``; what is not known is not among them."""
        status = self.status
        optional = {
            "form": status.form,
            "expires": status.expires,
            "problem": status.problem,
            "hint": status.hint,
        }
        return {
            "provider": status.provider,
            "name": self.name,
            "source": status.source,
            "kind": status.kind,
            "usable": status.usable,
            **{name: value for name, value in optional.items() if value is not None},
        }


async def keys(services: Services) -> list[ProviderKey]:
    """Of every provider that has a model, in the order of the models, then of stored entries."""

    def looked_up() -> list[ProviderKey]:
        names = services.models.providers()
        others = {each: each for each in services.credentials.stored() if each not in names}
        return [_known(services, each, name) for each, name in (names | others).items()]

    await services.look_for_local_servers(limit_s=LIMIT_S)
    return await run_blocking(looked_up)


async def key_of(services: Services, provider: str) -> ProviderKey:
    """Of one provider. Raises ``invalidParams`` for one that nobody has heard of."""
    return await run_blocking(lambda: _known(services, provider, _checked(services, provider)))


async def store_key(
    services: Services, provider: str, key: str, form: KeyForm, *, field: str
) -> ProviderKey:
    """Store a key in ``auth.json``; what holds then.

    ``field`` is blamed for a key that is none. Raises ``invalidParams`` and ``storage``; nothing
    has changed then.
    """
    from pi_rpc.harness._rewriting import RewriteError

    def stored() -> ProviderKey:
        name = _checked(services, provider)
        if services.models.status(provider).kind == "not_needed" and provider in _OURS:
            raise HarnessError(
                "invalidParams", f"provider: {provider} needs no key", path="provider"
            )
        try:
            services.credentials.store(provider, key, form)
        except ValueError as error:
            raise HarnessError("invalidParams", f"{field}: {error}", path=field) from None
        except (RewriteError, OSError) as error:
            raise _unwritten(services, error) from None
        return _known(services, provider, name)

    return await run_blocking(stored)


async def remove_key(services: Services, provider: str) -> tuple[bool, ProviderKey]:
    """Forget what ``auth.json`` has; whether that was anything, and what holds then.

    Raises ``invalidParams`` and ``storage``.
    """
    from pi_rpc.harness._rewriting import RewriteError

    def removed() -> tuple[bool, ProviderKey]:
        name = _checked(services, provider)
        try:
            found = services.credentials.remove(provider)
        except (RewriteError, OSError) as error:
            raise _unwritten(services, error) from None
        return found, _known(services, provider, name)

    return await run_blocking(removed)


_OURS = frozenset({"local", "scripted"})
"""Providers that this process is itself."""


def _known(services: Services, provider: str, name: str) -> ProviderKey:
    return ProviderKey(name, services.models.status(provider))


def _checked(services: Services, provider: str) -> str:
    """The provider's name for people. What was named is not repeated: it might be a key."""
    names = services.models.providers()
    others = {*ENVIRONMENT_KEYS, *services.credentials.stored()}
    if provider in names or provider in others:
        return names.get(provider, provider)
    near = difflib.get_close_matches(provider, {*names, *others}, n=3)
    hint = f"near it are: {', '.join(near)}" if near else "auth/status names those there are"
    raise HarnessError(
        "invalidParams", f"provider: no provider of this id is known; {hint}", path="provider"
    )


def _unwritten(services: Services, error: Exception) -> HarnessError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    path = services.credentials.path
    return HarnessError("storage", f"{path} could not be written: {reason}")
