"""What a command line says to a model: words, files and standard input.

Owns reading ``@FILE`` arguments and standard input, and the text made of them. What is read is
quoted and never taken for a command of ours (``/name``). Does not own how images are fitted
(``pi_rpc.tools``).
"""

import base64
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from pi_rpc._os.files import read_regular
from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.markup import escaped
from pi_rpc.headless.exit_codes import UsageError
from pi_rpc.llm.messages import ImageBlock

__all__ = ["Prompt", "read_prompt"]

_MAX_TEXT = 10 * 1024 * 1024
"""Bytes; no model reads as much."""
_PIECE = 1 << 16
_PATIENCE_S = 3.0
_WAITING = (
    "pi-rpc run: reading standard input until it ends; give it </dev/null where there is none\n"
)
_SENT_AS_THEY_ARE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGE = 3_500_000
"""Bytes of an image that providers take without its being fitted."""


class Prompt(Struct, frozen=True):
    """What is said, taken apart."""

    words: str
    """What the person wrote on the command line; may be a command."""
    before: str = ""
    """What was read: standard input, then the files."""
    images: tuple[ImageBlock, ...] = ()

    def said(self, words: str) -> PromptInput:
        """All of it, with ``words`` in place of its own, which may have been a template."""
        return PromptInput("\n\n".join(filter(None, (self.before, words))), images=self.images)


async def read_prompt(arguments: Sequence[str]) -> Prompt:
    """Read what ``arguments`` name; raises ``UsageError``. Relative files are of this process's
    working directory."""
    names = [each[1:] for each in arguments if each.startswith("@") and len(each) > 1]
    words = [each for each in arguments if each != "-" and not (each.startswith("@") and each[1:])]
    texts = [(await _standard_input(asked="-" in arguments)).strip("\n")]
    images: list[ImageBlock] = []
    for name in names:
        text, image = await _file(Path(os.path.abspath(name)))  # noqa: ASYNC240, PTH100 - no disk
        texts.append(text)
        images += image
    prompt = Prompt(" ".join(words), "\n\n".join(filter(None, texts)), tuple(images))
    if not (prompt.words.strip() or prompt.before.strip() or images):
        raise UsageError("there is no prompt: what was given or read is empty")
    return prompt


# --- standard input ------------------------------------------------------------------------------


async def _standard_input(*, asked: bool) -> str:
    """Its text; of a terminal only where it was ``asked`` for."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (AttributeError, OSError, ValueError):
        return ""  # It is closed.
    if os.isatty(descriptor) and not asked:
        return ""
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor):
        data = await _arriving(descriptor)
    else:
        data = await run_blocking(_at_hand, descriptor)
    if len(data) > _MAX_TEXT:
        raise UsageError(f"standard input has more than {_MAX_TEXT // 2**20} MiB")
    return _text_of(data, "standard input")


async def _arriving(descriptor: int) -> bytes:
    """What others write, waited for in a way that can be cancelled."""
    data = bytearray()

    async def say_that_it_waits() -> None:
        await anyio.sleep(_PATIENCE_S)
        sys.stderr.write(_WAITING)
        sys.stderr.flush()

    async with anyio.create_task_group() as waiting:
        waiting.start_soon(say_that_it_waits)
        while len(data) <= _MAX_TEXT:
            await anyio.wait_readable(descriptor)
            if not (piece := os.read(descriptor, _PIECE)):
                break
            data += piece
        waiting.cancel_scope.cancel()
    return bytes(data)


def _at_hand(descriptor: int) -> bytes:
    data = bytearray()
    while len(data) <= _MAX_TEXT and (piece := os.read(descriptor, _PIECE)):
        data += piece
    return bytes(data)


# --- files ---------------------------------------------------------------------------------------


async def _file(path: Path) -> tuple[str, list[ImageBlock]]:
    """The text that stands for a file, and the image in it; nothing where it is empty."""
    from pi_rpc.tools._images import MAX_IMAGE_FILE
    from pi_rpc.tools._sniff import image_type

    try:
        data, left_out = await run_blocking(read_regular, path, MAX_IMAGE_FILE)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"@{path} cannot be read: {reason}") from None
    if (kind := image_type(data[:16])) is not None and not left_out:
        return f"<file {_named(path)}></file>", [await _image(data, kind, path)]
    if len(data) + left_out > _MAX_TEXT:
        raise UsageError(f"@{path} is larger than {_MAX_TEXT // 2**20} MiB")
    # What is quoted cannot end the quotation.
    text = _text_of(data, f"@{path}").replace("</file", "<\\/file")
    return (f"<file {_named(path)}>\n{text.strip()}\n</file>" if text.strip() else ""), []


def _named(path: Path) -> str:
    return f'name="{escaped(str(path))}"'


def _text_of(data: bytes, what: str) -> str:
    from pi_rpc.tools._sniff import binary_reason

    if (reason := binary_reason(data)) is not None:
        raise UsageError(f"{what} {reason}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{what} is no text in UTF-8") from None


async def _image(data: bytes, kind: str, path: Path) -> ImageBlock:
    """The image as providers take it: as it is, where it is small, else fitted."""
    if kind in _SENT_AS_THEY_ARE and len(data) <= _MAX_IMAGE:
        return ImageBlock(data=base64.b64encode(data).decode(), mime_type=kind)
    from pi_rpc.llm.abort import AbortController
    from pi_rpc.tools._images import image_result

    signal = AbortController().signal
    result = await image_result(data, kind, f"@{path}", signal, seen_by_model=True)
    for block in result.content:
        if isinstance(block, ImageBlock):
            return block
    raise UsageError(str(getattr(result.content[0], "text", f"@{path} cannot be shown")))
