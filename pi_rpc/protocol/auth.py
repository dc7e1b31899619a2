"""Params and results about the keys of providers: what is known of them, storing and forgetting.

Owns the structs only; ``pi_rpc.protocol.methods`` says which method has which. No answer holds a
key."""

from typing import Literal

from msgspec import UNSET, UnsetType

from pi_rpc.llm.messages import Wire

__all__ = [
    "AuthRemoveParams",
    "AuthRemoveResult",
    "AuthSetParams",
    "AuthSetResult",
    "AuthStatusParams",
    "AuthStatusResult",
    "ProviderAuth",
]


class ProviderAuth(Wire, frozen=True, kw_only=True):
    """What is known of a provider's credential, without using it."""

    provider: str
    """The provider's id."""
    name: str
    """Its name for people."""
    source: str
    """Where the credential comes from: `auth.json`, `models.json`, `runtime` (given to this process
    alone), `none`, or the name of an environment variable."""
    kind: Literal["api_key", "oauth", "signature", "not_needed", "none"]
    """A key; a login that pi has stored; requests are signed with what the environment names; a
    server on this machine that was given no key; nothing."""
    usable: bool
    """The provider can be asked, as far as can be told without running a command or asking it."""
    form: Literal["text", "variable", "command"] | UnsetType = UNSET
    """How a key is written in its file: itself, with variables in it, or as a command."""
    expires: int | UnsetType = UNSET
    """When a login ends, in milliseconds since 1970."""
    problem: str | UnsetType = UNSET
    """Why the credential cannot be used."""
    hint: str | UnsetType = UNSET
    """What to do, when it is not usable."""


class AuthStatusParams(Wire, frozen=True, kw_only=True):
    """Whose credentials."""

    provider: str | UnsetType = UNSET
    """One provider; absent: every one that has a model or a stored entry."""


class AuthStatusResult(Wire, frozen=True, kw_only=True):
    """What is known of credentials."""

    providers: list[ProviderAuth]
    """Providers that have a model, in the order of `model/list`, then others."""


class AuthSetParams(Wire, frozen=True, kw_only=True):
    """What to store. Exactly one of the three."""

    provider: str
    """The provider's id."""
    api_key: str | UnsetType = UNSET
    """The key itself."""
    api_key_env: str | UnsetType = UNSET
    """The name of an environment variable of the daemon that holds it."""
    api_key_command: str | UnsetType = UNSET
    """A command of the shell that prints it. It is run when the key is first needed, once, for at
    most 10 seconds."""


class AuthSetResult(Wire, frozen=True, kw_only=True):
    """What holds now."""

    status: ProviderAuth
    """What is known of the credential."""


class AuthRemoveParams(Wire, frozen=True, kw_only=True):
    """What to forget."""

    provider: str
    """The provider's id."""


class AuthRemoveResult(Wire, frozen=True, kw_only=True):
    """What holds now."""

    removed: bool
    """Something was stored."""
    status: ProviderAuth
    """What is known of the credential; another source may have one."""
