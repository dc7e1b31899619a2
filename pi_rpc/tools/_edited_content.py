"""From the bytes of a file and edits to the new bytes and what is to be told of them.

Owns the choice of where that is computed: small files in a file thread, large ones in a process of
their own, since comparing forgivingly holds the interpreter for long. How passages are found is
``_edits``' and ``_fuzzy``'s.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from pi_rpc._os.threads import run_blocking
from pi_rpc.tools._diff import diff_of_splices
from pi_rpc.tools._edits import Edit, EditError, apply_edits

__all__ = ["APART", "EditedContent", "edit_apart", "edited_content"]

APART = 1024 * 1024
"""Bytes of file and edits from where on another process does the work."""

_TIME_LIMIT_S = 60.0


class EditedContent(Struct, frozen=True):
    """The outcome of edits."""

    content: bytes
    fuzzy: bool
    """Some edit matched only in the forgiving comparison."""
    details: dict[str, Any]
    """Of the tool's result."""


async def edited_content(content: bytes, edits: Sequence[Edit], shown: str) -> EditedContent:
    """Apply edits to the content of the file called ``shown``. Raises ``EditError``."""
    size = len(content) + sum(len(edit.old) + len(edit.new) for edit in edits)
    if size <= APART:
        return await run_blocking(_edited, content, edits, shown)
    from pi_rpc.tools._apart import ApartError, run_apart

    request = {"edits": [[edit.old, edit.new] for edit in edits], "shown": shown}
    try:
        head, new = await run_apart(
            "pi_rpc.tools._edited_content:edit_apart",
            request,
            content,
            time_limit_s=_TIME_LIMIT_S,
        )
    except ApartError as error:
        raise EditError(f"The edits of {shown} could not be worked out: {error}.") from error
    if (problem := head.get("problem")) is not None:
        raise EditError(problem)
    return EditedContent(new, head["fuzzy"], head["details"])


def edit_apart(request: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
    """What the other process does: ``{edits: [[old, new]], shown}`` to ``{fuzzy, details}`` and the
    new content, or to ``{problem}``."""
    edits = [Edit(old, new) for old, new in request["edits"]]
    try:
        edited = _edited(content, edits, request["shown"])
    except EditError as error:
        return {"problem": str(error)}, b""
    return {"fuzzy": edited.fuzzy, "details": edited.details}, edited.content


def _edited(content: bytes, edits: Sequence[Edit], shown: str) -> EditedContent:
    try:
        original = content.decode()
    except UnicodeDecodeError as error:
        raise EditError(
            f"{shown} is not UTF-8 text (byte {error.start} is not valid), so it cannot be edited "
            "without damage. Use a program that knows its encoding."
        ) from None
    edited = apply_edits(original, edits, shown)
    splices = [(splice.start, splice.end, splice.text) for splice in edited.splices]
    details = diff_of_splices(original, splices, shown).details()
    if edited.fuzzy:
        details["fuzzy"] = True
    return EditedContent(edited.text.encode(), edited.fuzzy, details)
