"""Having an edit looked at before it is written.

Owns the order of it: the new content is made, looked at, and made again from what the file has
become if that is no longer what it was made from; and what becomes of a text that was changed on
the way. Nothing is written here. Who looks is the ``Reviewer``'s, how a content is made the tools'.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.review import NobodyReviews, ProposedEdit
from pi_rpc.agent.tool import ToolFailure
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._bases import Base
from pi_rpc.tools._diff import diff_of_texts
from pi_rpc.tools._freshness import refuse_changed, refuse_changed_below
from pi_rpc.tools._steps import encoded, stop_if_aborted, until_aborted
from pi_rpc.tools._truncate import truncate_head

__all__ = ["MAX_SHOWN", "Made", "Reviewed", "reviewed"]

MAX_SHOWN = 8 * 1024 * 1024
"""Bytes of a content up to which a review is given what is replaced."""

_BOM = "\ufeff"


class Made(Protocol):
    """A content that a tool has made."""

    @property
    def content(self) -> bytes:
        """All of it, in UTF-8."""
        ...


_Made = TypeVar("_Made", bound=Made)


class Reviewed(Struct, Generic[_Made], frozen=True):
    """What is to be written."""

    base: Base
    """What the file holds."""
    made: _Made
    """What the tool has made of it."""
    content: bytes
    """What is to be written: that, or what the person has made of that."""
    details: dict[str, Any]
    """Of the tool's result, where the person has changed it; empty otherwise."""
    note: str
    """What the model must know then."""


async def reviewed(
    context: ToolContext,
    real_path: Path,
    shown: str,
    *,
    look: Callable[[], Awaitable[Base]],
    make: Callable[[Base], Awaitable[_Made]],
    signal: AbortSignal,
) -> Reviewed[_Made]:
    """The content to write, which the file is still the base of.

    Fails with ``ToolFailure`` where the file is not what the model believes, where the reviewer
    refuses, where it changed and nobody is there to look again, and at once on an abort.
    """
    base = await until_aborted(signal, look)
    stop_if_aborted(signal)
    await refuse_changed(context.seen, real_path, base, shown)
    known_disk = context.seen.disk_of(real_path)
    if known_disk is None and base.document is not None:
        known_disk = base.document.disk
    moved = False
    while True:
        made = await make(base)
        stop_if_aborted(signal)
        edit = await run_blocking(_proposal, real_path, base, made.content)
        text = await until_aborted(signal, lambda: context.reviewer.review(edit, moved=moved))  # noqa: B023 - awaited here
        stop_if_aborted(signal)
        now = await until_aborted(signal, look)
        stop_if_aborted(signal)
        refuse_changed_below(known_disk, now, shown)
        if now.is_same(base):
            break
        if isinstance(context.reviewer, NobodyReviews):
            raise ToolFailure(
                f"{shown} was changed by another program in the meantime, so it was left alone. "
                "Read it again and repeat what is still needed.",
                {"code": "changed"},
            )
        base, moved = now, True
    if text == edit.new_text:
        return Reviewed(now, made, made.content, {}, "")
    return await run_blocking(_changed, now, made, edit, text, shown)


def _proposal(real_path: Path, base: Base, content: bytes) -> ProposedEdit:
    return ProposedEdit(
        path=real_path,
        old_text=_text_of(base.data),
        new_text=content.decode().removeprefix(_BOM),
        is_new=base.stat is None,
        version=None if base.document is None else base.document.version,
    )


def _text_of(data: bytes | None) -> str | None:
    """The text, without a byte order mark; None for what is none or is too large to be shown."""
    if data is None or len(data) > MAX_SHOWN or b"\0" in data:
        return None
    try:
        return data.decode().removeprefix(_BOM)
    except UnicodeDecodeError:
        return None


def _changed(base: Base, made: _Made, edit: ProposedEdit, text: str, shown: str) -> Reviewed[_Made]:
    """The person has made something else of it. Blocks while it compares."""
    text = _with_ends_of(edit.new_text, text.removeprefix(_BOM))
    content = encoded(text, "The text that came back from the review")
    if made.content.startswith(_BOM.encode()):
        content = _BOM.encode() + content
    listing = truncate_head(diff_of_texts(edit.new_text, text, shown).listing)
    note = (
        f"The person looked at what you proposed and changed it before it was written. {shown} now "
        "differs from your proposal so (- is yours, + is what was written):\n"
        f"{listing.content}"
    )
    if listing.truncated:
        note += "\n[There is more. Read the file.]"
    details: dict[str, Any] = {"reviewed": True, "reviewDiff": listing.content}
    if edit.old_text is not None:
        details |= diff_of_texts(edit.old_text, text, shown).details()
    return Reviewed(base, made, content, details, note)


def _with_ends_of(proposed: str, text: str) -> str:
    """``text`` with the line ends of ``proposed``, where an editor has shown plain ones."""
    is_windows = "\r\n" in proposed and proposed.count("\n") == proposed.count("\r\n")
    return text.replace("\n", "\r\n") if is_windows and "\r" not in text else text
