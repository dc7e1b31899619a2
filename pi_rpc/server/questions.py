"""Questions to the client: sent, awaited, taken back.

Owns what happens between asking and having an answer: who may be asked what, time limits, telling
the client that a question is moot, and answers that are none. Does not own the shapes
(``pi_rpc.protocol.client_requests``) nor ids and cancellation of JSON-RPC (``pi_rpc.jsonrpc``).

No answer is the same everywhere: whoever asks gets None when the client cannot be asked, dismisses
the question, answers something else than was asked for, is too late or goes away.
"""

import logging
import math
from itertools import count
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec import UNSET, Raw, UnsetType

from pi_rpc.agent.events import Diagnostic
from pi_rpc.host.hosted import HostedSession
from pi_rpc.jsonrpc.errors import METHOD_NOT_FOUND, REQUEST_CANCELLED
from pi_rpc.jsonrpc.peer import Peer, PeerClosedError, RpcError
from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.client_requests import (
    LiveRequest,
    Question,
    QuestionParams,
    RequestResolvedParams,
    ResolvedReason,
)
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.handshake import ClientFeatures
from pi_rpc.server.events import EventStream

__all__ = ["OpenQuestion", "Questions", "milliseconds"]

_log = logging.getLogger("pi_rpc.server")

P = TypeVar("P", bound=QuestionParams)
R = TypeVar("R", bound=Wire)


def milliseconds(seconds: float | None) -> int | UnsetType:
    """A time limit as ``timeoutMs`` has it; None and infinity are none."""
    if seconds is None or math.isinf(seconds):
        return UNSET
    return max(1, math.ceil(seconds * 1000))


class OpenQuestion:
    """A question that waits for its answer."""

    def __init__(self, method: str, params: QuestionParams, *, is_for_person: bool = True) -> None:
        self.method = method
        self.is_for_person = is_for_person
        self.params = params
        self.scope = anyio.CancelScope()
        self.moot: ResolvedReason | None = None
        self.elsewhere: Any = None

    def resolve(self, reason: ResolvedReason, answer: Any = None) -> None:
        """It needs no answer of the client's any more; whoever asks gets ``answer``."""
        if self.moot is None:
            self.moot = reason
            self.elsewhere = answer
            self.scope.cancel()


class Questions:
    """All questions to one client."""

    def __init__(self, peer: Peer, features: ClientFeatures, events: EventStream) -> None:
        self._peer = peer
        self._features = features
        self._events = events
        self._unknown: set[str] = set()
        """Methods that the client has answered that it does not know."""
        self._open: dict[str, OpenQuestion] = {}
        self._numbers = count(1)

    def can_ask(self, question: Question[Any, Any]) -> bool:
        """The client has said that it answers these, and nothing else since."""
        return question.is_answered_by(self._features) and question.method not in self._unknown

    def new_id(self) -> str:
        """A ``requestId`` for the next question."""
        return f"q{next(self._numbers)}"

    def open_of(self, session_id: str) -> list[OpenQuestion]:
        """What a session waits for, in the order it was asked."""
        return [each for each in self._open.values() if each.params.session_id == session_id]

    def live(self, session_id: str) -> list[LiveRequest]:
        """The same, for ``session/state``: what the person is asked, not the editor."""
        return [
            LiveRequest(request_id=each.params.request_id, method=each.method, params=each.params)
            for each in self.open_of(session_id)
            if each.is_for_person
        ]

    async def ask(
        self, question: Question[P, R], params: P, hosted: HostedSession | None = None
    ) -> R | None:
        """The client's answer, or None. ``params`` have a new ``request_id``.

        Events of ``hosted`` that were before the question are sent before it. When the caller is
        cancelled the client is told that the question is moot.
        """
        if not self.can_ask(question):
            return None
        if hosted is not None:
            self._events.flush(hosted)
        asked = OpenQuestion(question.method, params, is_for_person=question.is_for_person)
        self._open[params.request_id] = asked
        try:
            with asked.scope:
                raw = await self._sent(asked, hosted)
                return None if raw is None else self._read(question, raw, hosted)
            return asked.elsewhere  # type: ignore[no-any-return]
        except anyio.get_cancelled_exc_class():
            asked.moot = asked.moot or "aborted"
            raise
        finally:
            del self._open[params.request_id]
            if asked.moot is not None:
                resolved = RequestResolvedParams(
                    request_id=params.request_id,
                    reason=asked.moot,
                    session_id=params.session_id,
                )
                self._peer.notify("request/resolved", resolved)

    def settle(self, request_id: str) -> None:
        """A question that may wait was answered elsewhere: whoever asked it gets None."""
        if (asked := self._open.get(request_id)) is not None:
            asked.resolve("answered")

    def forget(self, hosted: HostedSession) -> None:
        """``hosted`` is closed: what it asked is moot."""
        for asked in self.open_of(hosted.id):
            asked.resolve("aborted")

    def misunderstood(self, method: str, why: str, hosted: HostedSession | None = None) -> None:
        """The client's answer to ``method`` is none: say so where its author will see it."""
        text = f"the client's answer to {method} counts as cancelled: {why}"
        if hosted is None:
            _log.warning("%s", text)
        else:
            hosted.harness.report(Diagnostic(severity="warning", message=text, source="client"))

    async def _sent(self, asked: OpenQuestion, hosted: HostedSession | None) -> Raw | None:
        timeout_ms = asked.params.timeout_ms
        timeout_s = timeout_ms / 1000 if timeout_ms else None
        try:
            return await self._peer.request(asked.method, asked.params, timeout_s=timeout_s)
        except TimeoutError:
            asked.moot = "timed_out"
        except PeerClosedError:
            pass  # Nobody is there to be told either.
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                self._unknown.add(asked.method)
                self.misunderstood(asked.method, "it does not know the method", hosted)
            elif error.code != REQUEST_CANCELLED:
                self.misunderstood(asked.method, error.message, hosted)
        return None

    def _read(self, question: Question[P, R], raw: Raw, hosted: HostedSession | None) -> R | None:
        try:
            return decode_params(question.result, raw)
        except msgspec.MsgspecError as error:
            self.misunderstood(question.method, str(error), hosted)
            return None
