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
from pi_rpc.protocol import permissions as p
from pi_rpc.protocol.base import file_path
from pi_rpc.protocol.encode import encode
from pi_rpc.server.questions import Questions, milliseconds
from pi_rpc.tools._paths import display_text

__all__ = ["ClientPermissions"]

_MOST_ASKED = 500
"""Characters of what is asked about, beyond which a message only offers to decide once."""
_MOST_SHOWN = 2000
_MOST_LINES = 20
"""Of each side of an edit in a message."""
_LONGEST_LINE = 300
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
        about = _about(request)
        options = [
            each
            for each in request.options
            if len(about) <= _MOST_ASKED or each.kind in {"allow_once", "reject_once"}
        ]
        # A button is known by what stands on it.
        titles = {_title(each): each.id for each in reversed(options)}
        params = p.ShowMessageRequestParams(
            request_id=request_id,
            session_id=self._hosted.id,
            timeout_ms=milliseconds(timeout_s),
            type=_WARNING,
            message=_message(request, about),
            actions=[p.MessageAction(title=title) for title in reversed(titles)],
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


def _about(request: PermissionRequest) -> str:
    """What would be done, whole."""
    command = request.args.get("command")
    if request.kind == "execute" and isinstance(command, str):
        return f"$ {display_text(command)}"
    if request.kind in {"read", "edit"}:
        return display_text(request.title)
    return display_text(f"{request.tool_name} {encode(request.args).decode()}")


def _message(request: PermissionRequest, about: str) -> str:
    lines = [f"May {display_text(request.tool_name)} do this?", _cut(about, _MOST_SHOWN)]
    lines += map(_change, request.edits)
    if request.reason:
        lines.append(display_text(request.reason))
    return "\n".join(lines)


def _change(edit: ProposedEdit) -> str:
    """What would change in a file, as far as a message has room, and how much in all."""
    name = display_text(str(edit.path))
    old, new = (edit.old_text or "").splitlines(), edit.new_text.splitlines()
    if edit.old_text is None:
        head = f"{name}: {len(new)} lines{', a new file' if edit.is_new else ''}"
    else:
        head = f"{name}: {len(old)} lines become {len(new)}"
    same = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        same += 1
    end = 0
    for before, after in zip(reversed(old[same:]), reversed(new[same:]), strict=False):
        if before != after:
            break
        end += 1
    removed = _excerpt("-", old[same : len(old) - end])
    return "\n".join([head, *removed, *_excerpt("+", new[same : len(new) - end])])


def _excerpt(sign: str, lines: Sequence[str]) -> list[str]:
    """``lines``; of many the first and the last, and of a long one its beginning and its end."""
    left_out = len(lines) - _MOST_LINES
    if left_out > 0:
        half = _MOST_LINES // 2
        shown = [*_excerpt(sign, lines[:half]), f"[… {left_out} lines left out …]"]
        return shown + _excerpt(sign, lines[-half:])
    return [f"{sign} {_cut(display_text(line), _LONGEST_LINE)}" for line in lines]


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [… {len(text) - 2 * half} characters left out …] {text[-half:]}"


def _title(option: PermissionOption) -> str:
    if not option.rule:
        return display_text(option.name)
    return display_text(f"{option.name}: {option.rule}")
