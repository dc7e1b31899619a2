"""Questions to the client: sent, awaited, taken back.

Owns that no answer is the same everywhere: whoever asks gets None when the client does not know
the method, refuses, answers something else than was asked for, is too late or goes away. Does not
own ids and cancellation of JSON-RPC (``pi_rpc.jsonrpc``).
"""

import logging
from typing import Any, TypeVar

import msgspec

from pi_rpc.jsonrpc.errors import METHOD_NOT_FOUND
from pi_rpc.jsonrpc.peer import Peer, PeerClosedError, RpcError
from pi_rpc.protocol.decode import decode_params

__all__ = ["Asking"]

_log = logging.getLogger("pi_rpc.acp")

R = TypeVar("R")


class Asking:
    """All questions to one client."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._unknown: set[str] = set()
        """Methods that the client has answered that it does not know."""

    def can_ask(self, method: str) -> bool:
        """The client has not said that it does not know ``method``."""
        return method not in self._unknown

    async def ask(
        self, method: str, params: Any, result: type[R], *, timeout_s: float | None = None
    ) -> R | None:
        """The client's answer, or None. When the caller is cancelled the client is told that the
        question is moot."""
        if not self.can_ask(method):
            return None
        try:
            raw = await self._peer.request(method, params, timeout_s=timeout_s)
            return decode_params(result, raw)
        except TimeoutError:
            _log.warning("the client did not answer %s in time", method)
        except PeerClosedError:
            pass  # Nobody is there to be told either.
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                self._unknown.add(method)
            _log.info("the client refused %s: %s", method, error.message)
        except msgspec.MsgspecError as error:
            _log.warning("the client's answer to %s counts as none: %s", method, error)
        return None
