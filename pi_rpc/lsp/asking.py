"""Requests to the editor: sent, awaited, taken back.

Owns that no answer is the same everywhere: whoever asks gets None when the editor does not know the
method, refuses, answers something else than was asked for, is too late or goes away.
"""

import logging
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from pi_rpc.jsonrpc.errors import METHOD_NOT_FOUND, REQUEST_CANCELLED
from pi_rpc.jsonrpc.peer import Peer, PeerClosedError, RpcError
from pi_rpc.protocol.decode import decode_params

__all__ = ["Asking"]

_log = logging.getLogger("pi_rpc.lsp")

R = TypeVar("R")


class Asking:
    """All requests to one editor."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._unknown: set[str] = set()
        """Methods that the editor has answered that it does not know."""

    def can_ask(self, method: str) -> bool:
        """The editor has not said that it does not know ``method``."""
        return method not in self._unknown

    async def ask(
        self, method: str, params: Any, result: type[R], *, timeout_s: float | None = None
    ) -> R | None:
        """The editor's answer, or None. When the caller is cancelled the editor is told that the
        question is moot."""
        raw = await self._answer(method, params, timeout_s)
        if raw is None or bytes(raw) == b"null":
            return None
        try:
            return decode_params(result, raw)
        except msgspec.MsgspecError as error:
            _log.warning("the editor's answer to %s counts as none: %s", method, error)
            return None

    async def granted(self, method: str, params: Any, *, timeout_s: float | None = None) -> bool:
        """Whether the editor answered without an error; for requests whose result is null."""
        return await self._answer(method, params, timeout_s) is not None

    async def _answer(self, method: str, params: Any, timeout_s: float | None) -> Raw | None:
        if not self.can_ask(method):
            return None
        try:
            return await self._peer.request(method, params, timeout_s=timeout_s)
        except TimeoutError:
            _log.warning("the editor did not answer %s in time", method)
        except PeerClosedError:
            pass  # Nobody is there to be told either.
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                self._unknown.add(method)
            if error.code != REQUEST_CANCELLED:
                _log.warning("the editor refused %s: %s", method, error.message)
        return None
