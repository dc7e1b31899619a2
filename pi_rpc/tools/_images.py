"""Images for models: from the bytes of a file to what a tool returns.

Owns the texts about images and when an image is only described. What is done to an image is
``_image_work``'s, in a process of its own: decoding takes long, and the file is anybody's.
"""

import base64

import anyio
from anyio.lowlevel import RunVar

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import ImageBlock, TextBlock
from pi_rpc.tools._apart import ApartError, run_apart
from pi_rpc.tools._image_work import MAX_BASE64
from pi_rpc.tools._truncate import format_size

__all__ = ["MAX_IMAGE_FILE", "image_result"]

MAX_IMAGE_FILE = 64 * 1024 * 1024
"""Bytes of an image file that is looked at."""

_AT_ONCE = 2
"""Images worked on at once: each may take gigabytes for a moment."""
_TIME_LIMIT_S = 30.0
_WITHOUT_PILLOW = (
    "It is not shown: that takes Pillow, which is not installed. Tell the person to run"
    " `pip install 'pi-rpc[images]'` in the environment of pi-rpc."
)

_turns: RunVar[anyio.CapacityLimiter] = RunVar("pi_rpc_images")


async def image_result(
    content: bytes, mime_type: str, shown: str, signal: AbortSignal, *, seen_by_model: bool
) -> ToolResult:
    """A note about an image, and the image as models take it where that can be had.

    ``seen_by_model``: the current model takes images. The block is there also when it does not,
    for a model that the session may change to; requests replace it until then.
    """
    note = f"Image {shown} ({mime_type}, {format_size(len(content))})."
    if not await run_blocking(_has_pillow):
        return ToolResult.of_text(f"{note} {_WITHOUT_PILLOW}")
    outcome: tuple[dict[str, object], bytes] | None = None
    with signal.cancel_scope():
        try:
            async with _limiter():
                outcome = await run_apart(
                    "pi_rpc.tools._image_work:fit",
                    {"maxBase64": MAX_BASE64},
                    content,
                    time_limit_s=_TIME_LIMIT_S,
                )
        except ApartError as error:
            return ToolResult.of_text(f"{note} It is not shown: working on it failed, {error}.")
    if outcome is None:
        raise ToolFailure("Aborted.")
    head, data = outcome
    if (problem := head.get("problem")) is not None:
        return ToolResult.of_text(f"{note} It is not shown: it {problem}.")
    note = f"Image {shown} ({_original(head, mime_type, len(content))}).{_changes(head, len(data))}"
    if not seen_by_model:
        note += " The current model cannot be shown images."
    encoded = await run_blocking(base64.b64encode, data)
    block = ImageBlock(data=encoded.decode(), mime_type=str(head["mimeType"]))
    return ToolResult(content=[TextBlock(text=note), block])


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _turns.get()
    except LookupError:
        _turns.set(limiter := anyio.CapacityLimiter(_AT_ONCE))
        return limiter


def _original(head: dict[str, object], mime_type: str, size: int) -> str:
    return f"{mime_type}, {head['originalWidth']}x{head['originalHeight']}, {format_size(size)}"


def _changes(head: dict[str, object], size: int) -> str:
    """What of the image is shown, when it is not the file as it is."""
    if not head["changed"]:
        return ""
    said = f" Shown as {head['mimeType']}, {head['width']}x{head['height']}, {format_size(size)}."
    if head["animated"]:
        said += " It is animated; this is its first frame."
    width, original = head["width"], head["originalWidth"]
    if isinstance(width, int) and isinstance(original, int) and width != original:
        said += f" Multiply coordinates by {original / width:.2f} for those in the original."
    return said


def _has_pillow() -> bool:
    from importlib.util import find_spec

    return find_spec("PIL") is not None
