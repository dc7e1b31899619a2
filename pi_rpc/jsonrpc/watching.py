"""Watching a peer: what passes between it and the other end.

Owns the interface. What is made of it (counters, a log) is the application's.
"""

from pi_rpc.jsonrpc._envelope import Id, Notification
from pi_rpc.jsonrpc._inbound import Request
from pi_rpc.jsonrpc.errors import RpcError

__all__ = ["Id", "Notification", "Watcher"]


class Watcher:
    """Is told of each message but those of ``Peer.send_frames``; does nothing.

    Called in the event loop; must neither block nor raise. A ``payload`` is a whole message as it
    is sent.
    """

    def request_came(self, request: Request) -> None:
        """The other end asks for something; ``answered`` follows."""

    def answered(
        self, request: Request, seconds: float, error: RpcError | None, payload: bytes
    ) -> None:
        """It was answered, ``seconds`` after it came."""

    def refused(self, id: Id | None, error: RpcError) -> None:
        """Something came that did not become a request."""

    def notification_came(self, notification: Notification) -> None:
        """The other end tells something."""

    def asked(self, id: Id, method: str, payload: bytes) -> None:
        """We ask for something; ``answer_came`` follows."""

    def answer_came(
        self, id: Id, method: str, seconds: float, error: RpcError | None, result: bytes
    ) -> None:
        """It has its answer; with neither ``error`` nor ``result`` nobody waits for one."""

    def told(self, method: str, payload: bytes) -> None:
        """We tell something."""
