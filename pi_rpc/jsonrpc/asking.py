"""Requests to the other end: sent, awaited, taken back.

Owns that no answer is the same everywhere: whoever asks gets None when the other end does not know
the method, refuses, answers something else than was asked for, is too late or goes away. Does not
own ids and cancellation (``pi_rpc.jsonrpc.peer``), nor how a result is read: that is given.
"""

import logging
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw

from pi_rpc.jsonrpc.errors import METHOD_NOT_FOUND, REQUEST_CANCELLED
from pi_rpc.jsonrpc.peer import Peer, PeerClosedError, RpcError

__all__ = ["Asking"]

_log = logging.getLogger("pi_rpc.jsonrpc")

R = TypeVar("R")


class Decode(Protocol):
    """Reads a result; raises ``msgspec.MsgspecError``."""

    def __call__(self, type_: type[R], raw: Raw | bytes | None, /) -> R: ...


class Asking:
    """All requests to one other end."""

    def __init__(self, peer: Peer, decode: Decode) -> None:
        self._peer = peer
        self._decode = decode
        self._unknown: set[str] = set()
        """Methods of which it was answered that they are not known."""

    def can_ask(self, method: str) -> bool:
        """The other end has not said that it does not know ``method``."""
        return method not in self._unknown

    async def ask(
        self, method: str, params: Any, result: type[R], *, timeout_s: float | None = None
    ) -> R | None:
        """The answer, or None. When the caller is cancelled the other end is told that the question
        is moot."""
        raw = await self._answer(method, params, timeout_s)
        if raw is None:
            return None
        try:
            return self._decode(result, raw)
        except msgspec.MsgspecError as error:
            _log.warning("the client's answer to %s counts as none: %s", method, error)
            return None

    async def granted(self, method: str, params: Any, *, timeout_s: float | None = None) -> bool:
        """Whether there was an answer and no error, whatever it says."""
        return await self._answer(method, params, timeout_s) is not None

    async def _answer(self, method: str, params: Any, timeout_s: float | None) -> Raw | None:
        if not self.can_ask(method):
            return None
        try:
            return await self._peer.request(method, params, timeout_s=timeout_s)
        except TimeoutError:
            _log.warning("the client did not answer %s in time", method)
        except PeerClosedError:
            pass  # Nobody is there to be told either.
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                self._unknown.add(method)
            if error.code != REQUEST_CANCELLED:
                _log.info("the client refused %s: %s", method, error.message)
        return None
