"""A branch as a sequence of things to read: who said what, called what, got what.

Owns what of a session an export shows, and in which words; texts are free of control characters.
Does not own markup.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from pi_rpc.agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
)
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pi_rpc.session.context import transcript
from pi_rpc.session.entries import iso_of_ms
from pi_rpc.session.storage import SessionStorage

__all__ = ["Heading", "Item", "Picture", "heading_of", "items_of", "plain"]

Kind: TypeAlias = Literal["text", "thinking", "call", "output", "error", "note", "image"]

_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)
"""And what turns the direction of a text around: Arabic and Hebrew read right without it."""
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")


class Picture(Struct, frozen=True):
    """An image, whose data is base64."""

    mime_type: str
    data: str


class Item(Struct, frozen=True):
    """A piece of the conversation."""

    who: Literal["user", "assistant", "tool", "session"]
    kind: Kind
    text: str
    title: str = ""
    """Of what can be folded: the tool, the command, the kind of summary."""
    time: str = ""
    picture: Picture | None = None


class Heading(Struct, frozen=True):
    """What stands above it all."""

    title: str
    facts: list[tuple[str, str]]


def plain(text: str) -> str:
    """Without what no page may hold, and with line ends of one kind."""
    return _CONTROLS.sub("�", text.replace("\r\n", "\n").replace("\r", "\n"))


def heading_of(session: SessionStorage) -> Heading:
    """Name, place and time of a session, and what it used."""
    usage = session.usage_totals()
    facts = [
        ("Session", session.session_id),
        ("Directory", session.cwd),
        ("Begun", session.header.timestamp),
        ("Messages", str(session.message_count)),
        ("Tokens", f"{usage.input:,} in, {usage.output:,} out"),
    ]
    if usage.cost.total:
        facts.append(("Cost", f"${usage.cost.total:.4f}"))
    title = plain(session.name or "Session")
    return Heading(title, [(name, plain(value)) for name, value in facts])


def items_of(session: SessionStorage) -> Iterator[Item]:
    """The active branch from its root to its leaf; read as it is asked for."""
    for drawn in transcript(session.branch()):
        yield from _items(drawn.message)


def _items(message: Any) -> Iterator[Item]:
    time = iso_of_ms(getattr(message, "timestamp", 0) or 0)
    match message:
        case UserMessage():
            yield from _blocks("user", message.content, time)
        case AssistantMessage():
            yield from _blocks("assistant", message.content, time)
            if message.stop_reason in ("error", "aborted"):
                text = message.error_message or ""
                yield Item("assistant", "error", plain(text or message.stop_reason), time=time)
        case ToolResultMessage():
            kind: Kind = "error" if message.is_error else "output"
            for item in _blocks("tool", message.content, time, kind):
                yield _titled(item, plain(message.tool_name))
        case BashExecutionMessage():
            title = plain(f"$ {message.command}")
            yield Item("user", "output", plain(message.output), title, time)
        case CompactionSummaryMessage():
            yield Item("session", "note", plain(message.summary), "Compaction", time)
        case BranchSummaryMessage():
            yield Item("session", "note", plain(message.summary), "Branch summary", time)
        case CustomMessage() if message.display:
            yield from _blocks("session", message.content, time)


def _blocks(
    who: Literal["user", "assistant", "tool", "session"],
    content: Any,
    time: str,
    kind: Kind = "text",
) -> Iterator[Item]:
    for block in [TextBlock(text=content)] if isinstance(content, str) else content:
        match block:
            case TextBlock() if block.text.strip():
                yield Item(who, kind, plain(block.text), time=time)
            case ThinkingBlock() if block.thinking.strip():
                yield Item(who, "thinking", plain(block.thinking), "Thinking", time)
            case ToolCall():
                yield Item(who, "call", _arguments(block), plain(block.name), time)
            case ImageBlock():
                yield Item(who, "image", _size(block), time=time, picture=_picture(block))


def _titled(item: Item, title: str) -> Item:
    return Item(item.who, item.kind, item.text, title, item.time, item.picture)


def _arguments(call: ToolCall) -> str:
    try:
        text = msgspec.json.format(msgspec.json.encode(call.arguments)).decode()
    except (TypeError, ValueError):
        text = str(call.arguments)
    return plain(text)


def _size(image: ImageBlock) -> str:
    return f"{plain(image.mime_type)}, {max(1, len(image.data) * 3 // 4096)} KiB"


def _picture(image: ImageBlock) -> Picture | None:
    """None for what a page must not show: scalable ones hold scripts, others are no base64."""
    if image.mime_type not in _PICTURES or not _BASE64.fullmatch(image.data):
        return None
    return Picture(image.mime_type, "".join(image.data.split()))
