"""The person behind the client, as a session asks them for permission.

Owns the step from the ``PermissionAsker`` port to ``permission/request``, or to LSP's
``window/showMessageRequest`` where the client knows nothing else, and back; and which answers are
none. Sending and waiting is ``pi_rpc.server.questions``'.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET, UnsetType

from pi_rpc.agent.permission import (
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    ReviewedEdit,
)
from pi_rpc.agent.review import ProposedEdit
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.permission_messages import message_options, message_text
from pi_rpc.protocol import permissions as p
from pi_rpc.protocol.base import file_path
from pi_rpc.server.questions import Questions, milliseconds

__all__ = ["ClientPermissions"]

_MOST_TEXT = 8 * 1024 * 1024
"""Characters of edits in a question; no person reads more, and no frame may grow without bound."""
_WARNING = 2


class ClientPermissions:
    """The ``PermissionAsker`` of one session of a client."""

    def __init__(
        self, hosted: HostedSession, questions: Questions, *, shows_messages: bool
    ) -> None:
        """``shows_messages``: the client has LSP's capability ``window.showMessage``."""
        self._hosted = hosted
        self._questions = questions
        self._shows_messages = shows_messages
        self._asked: dict[str, str] = {}
        """The question about each call that waits, by the call's id."""

    def can_ask(self) -> bool:
        """The client answers one of the two, as far as is known."""
        return self._questions.can_ask(p.PERMISSION_REQUEST) or (
            self._shows_messages and self._questions.can_ask(p.SHOW_MESSAGE_REQUEST)
        )

    async def request(
        self, request: PermissionRequest, *, timeout_s: float | None = None
    ) -> PermissionAnswer | None:
        """Ask in the way that the client knows."""
        request_id = self._questions.new_id()
        self._asked[request.tool_call_id] = request_id
        try:
            if self._questions.can_ask(p.PERMISSION_REQUEST):
                return await self._requested(request, request_id, timeout_s)
            if self._shows_messages:
                return await self._shown(request, request_id, timeout_s)
            return None
        finally:
            if self._asked.get(request.tool_call_id) == request_id:
                del self._asked[request.tool_call_id]

    def settle(self, tool_call_id: str) -> None:
        """The client is told that the question is moot."""
        if (request_id := self._asked.get(tool_call_id)) is not None:
            self._questions.settle(request_id)

    # --- permission/request ----------------------------------------------------------------------

    async def _requested(
        self, request: PermissionRequest, request_id: str, timeout_s: float | None
    ) -> PermissionAnswer | None:
        params = p.PermissionRequestParams(
            request_id=request_id,
            session_id=self._hosted.id,
            timeout_ms=milliseconds(timeout_s),
            tool_call_id=request.tool_call_id,
            tool_name=request.tool_name,
            kind=request.kind,
            title=request.title,
            args=request.args,
            locations=list(request.locations),
            options=[_choice(each) for each in request.options],
            edits=_edits(request.edits) or UNSET,
            reason=_reason(request) or UNSET,
        )
        answer = await self._questions.ask(p.PERMISSION_REQUEST, params, self._hosted)
        if answer is None or answer.cancelled or answer.option_id is UNSET:
            return None
        if all(answer.option_id != each.id for each in request.options):
            why = f"{answer.option_id[:100]!r} is none of the options"
            self._complain(p.PERMISSION_REQUEST.method, why)
            return None
        edits = []
        for each in answer.edits or ():
            path = _path_of(each.uri, request)
            if path is None:
                why = f"{each.uri[:200]!r} was not asked about"
                self._complain(p.PERMISSION_REQUEST.method, why)
                return None
            edits.append(ReviewedEdit(path=path, new_text=each.new_text))
        return PermissionAnswer(
            option_id=answer.option_id, feedback=answer.feedback or "", edits=tuple(edits)
        )

    # --- window/showMessageRequest ---------------------------------------------------------------

    async def _shown(
        self, request: PermissionRequest, request_id: str, timeout_s: float | None
    ) -> PermissionAnswer | None:
        titles = message_options(request)
        params = p.ShowMessageRequestParams(
            request_id=request_id,
            session_id=self._hosted.id,
            timeout_ms=milliseconds(timeout_s),
            type=_WARNING,
            message=message_text(request),
            actions=[p.MessageAction(title=title) for title in titles],
        )
        answer = await self._questions.ask(p.SHOW_MESSAGE_REQUEST, params, self._hosted)
        if answer is None or answer.title is UNSET:
            return None
        if answer.title not in titles:
            why = f"{answer.title[:100]!r} is none of the actions"
            self._complain(p.SHOW_MESSAGE_REQUEST.method, why)
            return None
        return PermissionAnswer(option_id=titles[answer.title])

    def _complain(self, method: str, why: str) -> None:
        self._questions.misunderstood(method, why, self._hosted)


def _choice(option: PermissionOption) -> p.PermissionChoice:
    return p.PermissionChoice(
        id=option.id, name=option.name, kind=option.kind, rule=option.rule or UNSET
    )


def _edits(edits: Sequence[ProposedEdit]) -> list[p.PermissionEdit]:
    """As much of ``edits`` as can be shown: old texts go first, then all of it."""
    new = sum(len(each.new_text) for each in edits)
    if new > _MOST_TEXT:
        return []
    whole = new + sum(len(each.old_text or "") for each in edits) <= _MOST_TEXT
    return [_edit(each, whole=whole) for each in edits]


def _reason(request: PermissionRequest) -> str:
    """Why it is asked; and that what would be written is not shown, where it is not."""
    if not request.edits or _edits(request.edits):
        return request.reason
    return f"{request.reason} What would be written is too large to be shown.".strip()


def _edit(edit: ProposedEdit, *, whole: bool) -> p.PermissionEdit:
    return p.PermissionEdit(
        uri=edit.path.as_uri(),
        old_text=UNSET if edit.old_text is None or not whole else edit.old_text,
        new_text=edit.new_text,
        version=_or_unset(edit.version),
        is_new=edit.is_new or UNSET,
    )


def _or_unset(value: int | None) -> int | UnsetType:
    return UNSET if value is None else value


def _path_of(uri: str, request: PermissionRequest) -> Path | None:
    """The file of ``request`` that ``uri`` means."""
    named = file_path(uri)
    for edit in request.edits:
        if uri == edit.path.as_uri() or named == str(edit.path):
            return edit.path
    return None
