"""The person behind the client, as a session asks them for permission.

Owns the step from the ``PermissionAsker`` port to ``session/request_permission`` and back, and
which of the options are offered: one of each kind, because clients keep one of a kind.
"""

from collections.abc import Iterator, Sequence

import anyio

from pi_rpc.acp import questions as q
from pi_rpc.acp import shapes as s
from pi_rpc.acp.stream import SessionStream
from pi_rpc.acp.tool_calls import kind_of, locations_of
from pi_rpc.agent.permission import PermissionAnswer, PermissionOption, PermissionRequest
from pi_rpc.agent.review import ProposedEdit
from pi_rpc.host.hosted import HostedSession
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.tools._paths import display_text

__all__ = ["ClientPermissions"]

_METHOD = "session/request_permission"
_MOST_TEXT = 8 * 1024 * 1024
"""Characters of edits in a question; no person reads more, and no frame may grow without bound."""


class ClientPermissions:
    """The ``PermissionAsker`` of one session of a client."""

    def __init__(self, hosted: HostedSession, asking: Asking, stream: SessionStream) -> None:
        self._hosted = hosted
        self._asking = asking
        self._stream = stream
        self._waiting: dict[str, anyio.CancelScope] = {}

    def can_ask(self) -> bool:
        """Every client answers these, as far as is known."""
        return self._asking.can_ask(_METHOD)

    async def request(
        self, request: PermissionRequest, *, timeout_s: float | None = None
    ) -> PermissionAnswer | None:
        """Ask; the call is on the client's screen before."""
        self._stream.flush()
        params = q.PermissionParams(
            session_id=self._hosted.id,
            tool_call=s.ToolCallFields(
                tool_call_id=request.tool_call_id,
                title=request.title,
                kind=kind_of(request.tool_name, request.kind),
                status="pending",
                content=list(_content(request)),
                locations=locations_of(request.locations),
                raw_input=dict(request.args),
            ),
            options=_options(request.options),
        )
        scope = self._waiting[request.tool_call_id] = anyio.CancelScope()
        answer: q.PermissionResult | None = None
        try:
            with scope:
                answer = await self._asking.ask(
                    _METHOD, params, q.PermissionResult, timeout_s=timeout_s
                )
        finally:
            if self._waiting.get(request.tool_call_id) is scope:
                del self._waiting[request.tool_call_id]
        if answer is None or answer.outcome.outcome != "selected":
            return None
        return PermissionAnswer(option_id=answer.outcome.option_id)

    def settle(self, tool_call_id: str) -> None:
        """The client is told that the question is moot."""
        if (scope := self._waiting.get(tool_call_id)) is not None:
            scope.cancel()


def _options(offered: Sequence[PermissionOption]) -> list[q.PermissionOption]:
    """One of each kind of the protocol; what holds for a session stands in for what holds for
    good where that is not offered."""
    chosen: dict[str, PermissionOption] = {}
    for each in offered:
        chosen.setdefault(each.kind, each)
    if "allow_session" in chosen:
        chosen.setdefault("allow_always", chosen["allow_session"])
    return [
        q.PermissionOption(option_id=chosen[kind].id, name=_name(chosen[kind]), kind=kind)
        for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
        if kind in chosen
    ]


def _name(option: PermissionOption) -> str:
    return display_text(f"{option.name}: {option.rule}" if option.rule else option.name)


def _content(request: PermissionRequest) -> Iterator[s.ToolContent]:
    edits = request.edits
    if sum(map(_size, edits)) <= _MOST_TEXT:
        yield from map(_diff, edits)
        reason = request.reason
    else:
        reason = f"{request.reason} What would be written is too large to be shown.".strip()
    if reason:
        yield s.Content(content=s.TextBlock(text=display_text(reason)))


def _size(edit: ProposedEdit) -> int:
    return len(edit.new_text) + len(edit.old_text or "")


def _diff(edit: ProposedEdit) -> s.Diff:
    old = edit.old_text
    path = str(edit.path)
    if old is None:
        return s.Diff(path=path, new_text=edit.new_text)
    return s.Diff(path=path, new_text=edit.new_text, old_text=old)
