"""``auth.json`` of the agent directory: the keys and logins that are stored, in pi's format.

Owns reading the file and changing it: private to its owner, under pi's lock, in one step, with all
that we do not know left as it is. Does not own what a written value stands for
(``pi_rpc.harness._key_values``) nor which source of a key wins (``pi_rpc.harness.credentials``)."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pi_rpc.harness._written import WatchedFile, read_object
from pi_rpc.llm.messages import now_ms

__all__ = ["AuthFile", "expired"]

_Stored = tuple[dict[str, dict[str, Any]], list[str]]


class AuthFile:
    """The stored entries by provider. Read when first asked, and again once it has changed."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the agent directory."""
        self.path = folder / "auth.json"
        self._stored = WatchedFile(self.path, _read)

    def entries(self) -> Mapping[str, Mapping[str, Any]]:
        """The entries of the right shape: ``{type: "api_key", key?, env?}`` or
        ``{type: "oauth", access, refresh, expires}``."""
        return self._stored.current()[0]

    def problems(self) -> list[str]:
        """A line about each thing that is wrong with the file; no value is part of one."""
        return list(self._stored.current()[1])

    def store_key(self, provider: str, written: str) -> None:
        """Store a key, as ``_key_values`` reads it, in place of what was stored for ``provider``.

        Of a key that was stored before, what else its entry says (``env``) stays; a login is
        replaced. Raises ``RewriteError`` where the file holds no JSON object or is locked, and
        ``OSError``; nothing has changed then. Blocking.
        """
        from pi_rpc.harness._rewriting import rewrite_object

        def changed(entries: dict[str, Any]) -> dict[str, Any]:
            before = entries.get(provider)
            if not isinstance(before, dict) or before.get("type") != "api_key":
                before = {}
            return {**entries, provider: {**before, "type": "api_key", "key": written}}

        rewrite_object(self.path, changed, private=True)

    def remove(self, provider: str) -> bool:
        """Forget what is stored for ``provider``; False if nothing is. Raises as ``store_key``."""
        from pi_rpc.harness._rewriting import rewrite_object

        found = False

        def changed(entries: dict[str, Any]) -> dict[str, Any]:
            nonlocal found
            found = provider in entries
            return {name: entry for name, entry in entries.items() if name != provider}

        if self.path.exists():
            rewrite_object(self.path, changed, private=True)
        return found


def expired(entry: Mapping[str, Any]) -> bool:
    """A login whose time is over."""
    return bool(entry["type"] == "oauth" and entry["expires"] <= now_ms())


def _read(path: Path) -> _Stored:
    """The entries of the right shape, and what is wrong with the others."""
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
        timed = isinstance(expires, int | float) and math.isfinite(expires)
        login = isinstance(access, str) and access and timed
        return None if login else "an oauth entry needs access (text) and expires (milliseconds)"
    return "type should be api_key or oauth"
