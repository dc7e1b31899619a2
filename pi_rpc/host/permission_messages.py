"""Asking for permission in a message: what it says, and the answers it offers.

Owns the words of such a question, for front doors whose clients show a text and buttons and no
more. Pure. Does not own how it is sent, nor what an answer means.
"""

from collections.abc import Sequence

from pi_rpc.agent.messages import encode_json
from pi_rpc.agent.permission import PermissionOption, PermissionRequest
from pi_rpc.agent.review import ProposedEdit
from pi_rpc.tools._paths import display_text

__all__ = ["message_options", "message_text"]

_MOST_ASKED = 500
"""Characters of what is asked about, beyond which a message only offers to decide once."""
_MOST_SHOWN = 2000
_MOST_LINES = 20
"""Of each side of an edit in a message."""
_LONGEST_LINE = 300


def message_options(request: PermissionRequest) -> dict[str, str]:
    """What stands on each button, and the id of the option it is; in order.

    A button is known by what stands on it: of two alike the first counts.
    """
    is_short = len(_about(request)) <= _MOST_ASKED
    titles: dict[str, str] = {}
    for each in request.options:
        if is_short or each.kind in {"allow_once", "reject_once"}:
            titles.setdefault(_title(each), each.id)
    return titles


def message_text(request: PermissionRequest) -> str:
    """The question."""
    lines = [f"May {display_text(request.tool_name)} do this?", _cut(_about(request), _MOST_SHOWN)]
    lines += map(_change, request.edits)
    if request.reason:
        lines.append(display_text(request.reason))
    return "\n".join(lines)


def _about(request: PermissionRequest) -> str:
    """What would be done, whole."""
    command = request.args.get("command")
    if request.kind == "execute" and isinstance(command, str):
        return f"$ {display_text(command)}"
    if request.kind in {"read", "edit"}:
        return display_text(request.title)
    return display_text(f"{request.tool_name} {encode_json(request.args).decode()}")


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
