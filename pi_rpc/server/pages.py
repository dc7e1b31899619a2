"""Pages of a transcript, and messages cut to a size. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from pi_rpc.harness.errors import HarnessError
from pi_rpc.llm.messages import AssistantMessage, ToolCall
from pi_rpc.protocol.encode import encode
from pi_rpc.session.context import TranscriptItem
from pi_rpc.session.stored import StoredEntry

__all__ = ["MessagePage", "message_page"]

_PAGE_BYTES = 32 * 1024 * 1024
"""A longer answer is cut into pages, whatever was asked for: frames have a limit."""
_MARK = "[cut; session/entry has all of it]"


class MessagePage(Struct, frozen=True):
    """Messages in the order they were said."""

    messages: list[Raw]
    entry_ids: list[str]
    has_more: bool
    """There are older ones."""
    calls: list[ToolCall]
    """Those in ``messages``, whole."""


def message_page(
    items: Sequence[TranscriptItem],
    *,
    limit: int | None,
    before_entry_id: str | None,
    max_bytes: int | None,
) -> MessagePage:
    """The newest page of ``items``, or the one before an entry; messages cut to ``max_bytes``."""
    end = len(items)
    if before_entry_id is not None:
        places = [place for place, item in enumerate(items) if item.entry_id == before_entry_id]
        if not places:
            raise HarnessError(
                "entryNotFound", f"no message of the active branch has the id {before_entry_id!r}"
            )
        end = places[0]
    start = max(0, end - limit) if limit is not None else 0
    most = min(max_bytes or _PAGE_BYTES, _PAGE_BYTES)
    calls: list[list[ToolCall]] = []

    def newest_first() -> Iterator[Raw]:
        for item in reversed(items[start:end]):
            message = item.message
            calls.append(_calls_of(message))
            yield _cut(message, most)

    messages = bounded(newest_first())[::-1]
    start = end - len(messages)
    return MessagePage(
        messages=messages,
        entry_ids=[item.entry_id for item in items[start:end]],
        has_more=start > 0,
        calls=[call for each in reversed(calls[: len(messages)]) for call in each],
    )


def _calls_of(message: Any) -> list[ToolCall]:
    if not isinstance(message, AssistantMessage):
        return []
    return [block for block in message.content if isinstance(block, ToolCall)]


def bounded(values: Iterable[Raw]) -> list[Raw]:
    """As many of ``values`` as one answer carries, at least the first."""
    page: list[Raw] = []
    size = 0
    for value in values:
        size += len(bytes(value))
        if page and size > _PAGE_BYTES:
            break
        page.append(value)
    return page


def whole_or_head(stored: StoredEntry) -> Raw:
    """An entry; of one that no answer can carry only what places it in the tree."""
    if len(stored.json) <= _PAGE_BYTES:
        return Raw(stored.json)
    head = {
        "type": stored.type,
        "id": stored.id,
        "parentId": stored.parent_id,
        "timestamp": stored.timestamp,
        "truncated": True,
    }
    return Raw(encode(head))


def _cut(message: Any, max_bytes: int) -> Raw:
    whole = encode(message)
    if len(whole) <= max_bytes:
        return Raw(whole)
    # Shorten every long string evenly until it fits; small fields survive, so it stays a message.
    plain = msgspec.json.decode(whole)
    allowance = max_bytes
    while allowance > 16:
        allowance //= 2
        shortened = {**_shorten(plain, allowance), "truncated": True}
        if len(shorter := encode(shortened)) <= max_bytes:
            return Raw(shorter)
    shortest = _shorten(plain, 0)
    return Raw(whole if shortest == plain else encode({**shortest, "truncated": True}))


def _shorten(value: Any, allowance: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= max(allowance, 64) else value[:allowance] + _MARK
    if isinstance(value, list):
        return [_shorten(each, allowance) for each in value]
    if isinstance(value, dict):
        return {key: _shorten(each, allowance) for key, each in value.items()}
    return value
