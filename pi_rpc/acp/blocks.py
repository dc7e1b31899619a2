"""What a person says, from the protocol's content blocks to a prompt.

Owns where in the text a mention stands and what is attached. Does not own how a model reads
attachments (``pi_rpc.harness.inputs``).
"""

import binascii
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from msgspec import UNSET, to_builtins

from pi_rpc.acp import shapes as s
from pi_rpc.agent.tool import Position, Range
from pi_rpc.harness.inputs import PromptInput, check_size
from pi_rpc.jsonrpc.errors import invalid_params
from pi_rpc.llm.messages import ImageBlock
from pi_rpc.protocol.attachments import (
    Attachment,
    FileAttachment,
    TextAttachment,
    check_attachments,
)
from pi_rpc.protocol.base import file_path
from pi_rpc.protocol.errors import ProtocolError

__all__ = ["prompt_of"]

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What models see; with any other image every later request of the session would be refused."""

_LINES = re.compile(r"L([0-9]{1,9})(?:[:-]L?([0-9]{1,9}))?")


def prompt_of(blocks: Sequence[s.ContentBlock], message_id: str) -> PromptInput:
    """A prompt; ``message_id`` names it. Raises ``invalidParams`` for what no model can be told."""
    text: list[str] = []
    images: list[ImageBlock] = []
    attachments: list[Attachment] = []
    for place, block in enumerate(blocks):
        where = f"prompt[{place}]"
        match block:
            case s.TextBlock():
                text.append(block.text)
            case s.ImageBlock():
                images.append(_image(block.data, block.mime_type, where))
            case s.ResourceLink():
                text.append(_mention(block.name, block.uri))
                attachments.append(_linked(block))
            case s.ResourceBlock():
                content = block.resource
                if content.text is not UNSET:
                    text.append(_mention("", content.uri))
                    attachments.append(TextAttachment(text=content.text, name=_named(content.uri)))
                elif content.mime_type in _PICTURES and content.blob is not UNSET:
                    images.append(_image(content.blob, content.mime_type, where))
                else:
                    text.append(_mention("", content.uri))
                    attachments.append(_linked(s.ResourceLink(uri=content.uri)))
            case s.AudioBlock():
                raise invalid_params(f"{where}: audio is not supported", path=where)
    try:
        check_attachments(attachments)
    except ProtocolError as error:
        said = error.message.replace("attachments", "prompt", 1)
        raise invalid_params(said, path="prompt") from None
    prompt = PromptInput(
        content="".join(text),
        images=images,
        attachments=[to_builtins(each) for each in attachments],
        client_message_id=message_id,
    )
    if not (prompt.text.strip() or images or attachments):
        raise invalid_params("prompt: expected something to say", path="prompt")
    check_size(prompt, text="prompt", images="prompt")
    return prompt


def _image(data: str, mime_type: str, where: str) -> ImageBlock:
    if mime_type not in _PICTURES:
        expected = ", ".join(sorted(_PICTURES))
        raise invalid_params(f"{where}: expected an image of one of {expected}", path=where)
    try:
        if binascii.a2b_base64(data, strict_mode=True):
            return ImageBlock(data=data, mime_type=mime_type)
    except (binascii.Error, ValueError):
        pass  # Said below.
    raise invalid_params(f"{where}: expected base64 data", path=where)


def _mention(name: str, uri: str) -> str:
    """How a link reads within a sentence."""
    return f"@{name or PurePath(_named(uri)).name or uri}"


def _named(uri: str) -> str:
    """A file by its path, anything else by its URI."""
    path = file_path(uri)
    fragment = uri.partition("#")[2]
    if path is None:
        return uri
    return f"{path}#{fragment}" if fragment else path


def _linked(link: s.ResourceLink) -> Attachment:
    if file_path(link.uri) is None:
        return TextAttachment(text=f"{link.name}: {link.uri}".removeprefix(": "), name="link")
    lines = _lines(link.uri.partition("#")[2])
    return FileAttachment(uri=link.uri.partition("#")[0], range=UNSET if lines is None else lines)


def _lines(fragment: str) -> Any:
    """The lines that ``L10`` or ``L10:20`` (also with a dash) names, as a range."""
    named = _LINES.fullmatch(fragment)
    if named is None:
        return None
    start = max(int(named[1]) - 1, 0)
    end = max(int(named[2] or named[1]) - 1, 0)
    return Range(
        start=Position(line=start, character=0), end=Position(line=max(start, end), character=0)
    )
