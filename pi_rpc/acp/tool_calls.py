"""Tool calls as this protocol shows them: kinds, places, content.

Owns what of a call's arguments and result is drawn, for calls that run and for those of stored
sessions alike. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from pi_rpc.acp import shapes as s
from pi_rpc.agent import tool as t
from pi_rpc.llm.messages import ImageBlock, TextBlock, UserContent
from pi_rpc.protocol.base import file_path

__all__ = ["fenced", "kind_of", "locations_of", "plan_of", "planned", "result_content"]

_SIDES = {"-": (0,), "+": (1,), " ": (0, 1)}
"""By the mark of a line in a unified diff: it is of the old text, the new one, or both."""
_KINDS: dict[str, s.ToolKind] = {"grep": "search", "find": "search", "ls": "search"}


def kind_of(name: str, kind: t.ToolKind) -> s.ToolKind:
    """What a tool does, in the protocol's finer words."""
    return _KINDS.get(name, kind)


def locations_of(locations: Sequence[t.Location], line: int | None = None) -> list[s.ToolLocation]:
    """The files a call is about; ``line``: where it has changed something, counted from 1."""
    found = []
    for each in locations:
        path = file_path(each.uri)
        if path is not None:
            start = each.range.start.line + 1 if each.range is not UNSET else line
            found.append(s.ToolLocation(path=path, line=UNSET if start is None else start))
    return found


def planned(name: str, args: Mapping[str, Any], path: str | None) -> list[s.ToolContent]:
    """What a call would write, as far as its arguments say that; ``path`` is the file's."""
    if path is None:
        return []
    if name == "write" and isinstance(content := args.get("content"), str):
        return [s.Diff(path=path, new_text=content)]
    if name != "edit" or not isinstance(edits := args.get("edits"), list):
        return []
    return [
        s.Diff(path=path, old_text=each["oldText"], new_text=each["newText"])
        for each in edits
        if isinstance(each, dict)
        and isinstance(each.get("oldText"), str)
        and isinstance(each.get("newText"), str)
    ]


def result_content(
    content: Sequence[UserContent],
    details: Any,
    kind: t.ToolKind,
    path: str | None,
    *,
    is_error: bool,
) -> list[s.ToolContent]:
    """What a call has come to: for an edit what has changed, else what the model reads."""
    patch = details.get("patch") if isinstance(details, dict) else None
    if kind == "edit" and path is not None and isinstance(patch, str) and patch and not is_error:
        return list(_diffs(patch, path))
    shown: list[s.ToolContent] = []
    for block in content:
        if isinstance(block, TextBlock) and block.text:
            text = block.text if kind in {"edit", "other"} else fenced(block.text)
            shown.append(s.Content(content=s.TextBlock(text=text)))
        elif isinstance(block, ImageBlock):
            image = s.ImageBlock(data=block.data, mime_type=block.mime_type)
            shown.append(s.Content(content=image))
    return shown


def fenced(text: str) -> str:
    """``text`` as Markdown shows it unchanged."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text.removesuffix(chr(10))}\n{fence}"


def plan_of(details: Any) -> s.Plan | None:
    """The plan that a tool's result holds as ``plan``; None where it is none."""
    if not isinstance(details, dict) or not isinstance(details.get("plan"), list):
        return None
    try:
        return s.Plan(entries=msgspec.convert(details["plan"], list[s.PlanEntry]))
    except msgspec.ValidationError:
        return None


def _diffs(patch: str, path: str) -> list[s.Diff]:
    """A unified diff, hunk by hunk."""
    found: list[s.Diff] = []
    old: list[str] = []
    new: list[str] = []

    def close() -> None:
        if old or new:
            found.append(s.Diff(path=path, old_text="".join(old), new_text="".join(new)))
        old.clear()
        new.clear()

    is_head = True
    sides: tuple[list[str], ...] = ()
    for line in patch.split("\n"):
        mark, text = line[:1], line[1:] + "\n"
        if line.startswith("@@"):
            close()
            is_head, sides = False, ()
        elif is_head:
            continue
        elif mark == "\\":
            # The line before has no line break.
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        elif mark in _SIDES:
            sides = tuple((old, new)[each] for each in _SIDES[mark])
            for side in sides:
                side.append(text)
    close()
    return found
