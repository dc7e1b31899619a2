"""What a person sends: text, images and what their editor knows, made into a user message.

Owns the normalisation of a prompt and the text that a model reads of attachments. Attachments are
plain JSON objects here, checked by whoever took them from the wire.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.markup import escaped
from pi_rpc.llm.messages import ImageBlock, TextBlock, UserContent, UserMessage, now_ms, text_of

__all__ = ["ATTACHMENTS_TYPE", "PromptInput", "check_size", "own_text"]

ATTACHMENTS_TYPE = "pi-rpc.attachments"
"""``customType`` of the entry that keeps attachments as they were sent."""

_ATTACHMENT_CHARACTERS = 100_000
_MOST_CHARACTERS = 4 * 1024 * 1024
_MOST_IMAGE_BYTES = 32 * 1024 * 1024
"""More than any model reads. However it is escaped, the message still fits into one frame."""
_SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}


class PromptInput(Struct, frozen=True):
    """One message from a person."""

    content: str | Sequence[UserContent]
    images: Sequence[ImageBlock] = ()
    attachments: Sequence[Mapping[str, Any]] = ()
    client_message_id: str | None = None

    @property
    def text(self) -> str:
        """The text alone, as the person wrote it."""
        return self.content if isinstance(self.content, str) else text_of(list(self.content))

    @property
    def all_images(self) -> list[ImageBlock]:
        """Images of the content and those sent beside it."""
        inline = [] if isinstance(self.content, str) else self.content
        return [block for block in inline if isinstance(block, ImageBlock)] + list(self.images)

    def message(self) -> UserMessage:
        """The user message, attachments rendered as text behind the person's own."""
        rendered = [_render(attachment) for attachment in self.attachments]
        if isinstance(self.content, str) and not self.images:
            return UserMessage(
                content="\n\n".join([self.content, *rendered]).strip("\n"), timestamp=now_ms()
            )
        blocks: list[UserContent] = (
            [TextBlock(text=self.content)] if isinstance(self.content, str) else list(self.content)
        )
        blocks += [TextBlock(text=text) for text in rendered]
        return UserMessage(content=[*blocks, *self.images], timestamp=now_ms())


def check_size(prompt: PromptInput, *, text: str, images: str) -> None:
    """Raises ``invalidParams`` for more than fits into a frame; ``text`` and ``images`` are the
    fields that it came in."""
    if len(prompt.text) > _MOST_CHARACTERS:
        raise HarnessError(
            "invalidParams",
            f"{text}: expected at most {_MOST_CHARACTERS} characters, got {len(prompt.text)};"
            " write it to a file and name the file",
            path=text,
        )
    size = sum(len(image.data) for image in prompt.all_images)
    if size > _MOST_IMAGE_BYTES:
        raise HarnessError(
            "invalidParams",
            f"{images}: expected at most {_MOST_IMAGE_BYTES} bytes of base64, got {size}",
            path=images,
        )


def own_text(content: str | Sequence[UserContent], attachments: Sequence[Mapping[str, Any]]) -> str:
    """What the person wrote of a stored message that came with ``attachments``.

    Of a message that does not read as ``PromptInput.message`` makes it, all of its text.
    """
    text = content if isinstance(content, str) else text_of(list(content))
    try:
        rendered = [_render(attachment) for attachment in attachments]
    except (LookupError, TypeError, ValueError, AttributeError):
        return text  # Not written by us, so nothing of the text is known to be rendered.
    if isinstance(content, str):
        tail = "\n\n".join(rendered)
        return text.removesuffix(tail).rstrip("\n") if tail else text
    blocks = [block for block in content if isinstance(block, TextBlock)]
    first = len(blocks) - len(rendered)
    if rendered and [block.text for block in blocks[max(first, 0) :]] == rendered:
        return text_of(blocks[:first])
    return text


def _render(attachment: Mapping[str, Any]) -> str:
    kind = attachment.get("type")
    if kind == "file":
        return f'<attached-file path="{escaped(_place(attachment))}" />'
    if kind == "selection":
        return _element("selection", "path", _place(attachment), str(attachment.get("text", "")))
    if kind == "diagnostics":
        lines = [_diagnostic(each) for each in attachment.get("diagnostics") or []]
        return _element("diagnostics", "path", _place(attachment), "\n".join(lines))
    name = str(attachment.get("name") or "note")
    return _element("attached-text", "name", name, str(attachment.get("text", "")))


def _element(tag: str, key: str, value: str, body: str) -> str:
    if len(body) > _ATTACHMENT_CHARACTERS:
        cut = len(body) - _ATTACHMENT_CHARACTERS
        body = f"{body[:_ATTACHMENT_CHARACTERS]}\n[{cut} more characters were left out]"
    # What is quoted cannot end the quotation.
    body = body.replace(f"</{tag}", f"<\\/{tag}")
    return f'<{tag} {key}="{escaped(value)}">\n{body}\n</{tag}>'


def _place(attachment: Mapping[str, Any]) -> str:
    from urllib.parse import unquote, urlsplit

    uri = str(attachment.get("uri", ""))
    path = unquote(urlsplit(uri).path) if uri.startswith("file:") else uri
    span = attachment.get("range")
    if not isinstance(span, Mapping):
        return path
    first, last = span["start"]["line"] + 1, span["end"]["line"] + 1
    return f"{path}:{first}" if first == last else f"{path}:{first}-{last}"


def _diagnostic(diagnostic: Mapping[str, Any]) -> str:
    line = diagnostic.get("range", {}).get("start", {}).get("line", 0) + 1
    severity = _SEVERITIES.get(diagnostic.get("severity", 1), "error")
    source = f" ({diagnostic['source']})" if diagnostic.get("source") else ""
    return f"line {line}: {severity}: {diagnostic.get('message', '')}{source}"
