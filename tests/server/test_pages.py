"""Pages of a transcript, and messages that are cut to a size."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.harness.errors import HarnessError
from pi_rpc.llm.messages import TextBlock, ToolResultMessage, UserMessage
from pi_rpc.protocol.encode import encode
from pi_rpc.server.pages import MessagePage, message_page
from tests.session.builders import assistant


@dataclass(frozen=True)
class Item:
    """As ``pi_rpc.session.context`` has them."""

    entry_id: str
    message: Any


ITEMS = [
    Item(f"e{number}", UserMessage(content=f"m{number}", timestamp=number)) for number in range(5)
]


def page(items: Any = tuple(ITEMS), **wanted: Any) -> MessagePage:
    return message_page(
        items, **{"limit": None, "before_entry_id": None, "max_bytes": None, **wanted}
    )


def test_without_a_wish_it_is_everything_in_the_order_it_was_said() -> None:
    it = page()
    assert it.entry_ids == ["e0", "e1", "e2", "e3", "e4"]
    said = [msgspec.json.decode(each)["content"] for each in it.messages]
    assert said == ["m0", "m1", "m2", "m3", "m4"]
    assert it.has_more is False


def test_pages_go_back_from_the_newest_and_each_is_in_order() -> None:
    first = page(limit=2)
    assert (first.entry_ids, first.has_more) == (["e3", "e4"], True)
    second = page(limit=2, before_entry_id=first.entry_ids[0])
    assert (second.entry_ids, second.has_more) == (["e1", "e2"], True)
    third = page(limit=2, before_entry_id=second.entry_ids[0])
    assert (third.entry_ids, third.has_more) == (["e0"], False)
    last = page(limit=2, before_entry_id="e0")
    assert (last.entry_ids, last.has_more) == ([], False)


def test_a_page_has_the_calls_of_its_messages_in_their_order() -> None:
    said = [Item(f"e{name}", assistant("x" * 5000, f"{name}1", f"{name}2")) for name in "abc"]
    it = page(said, limit=2, max_bytes=2000)
    assert [each.id for each in it.calls] == ["b1", "b2", "c1", "c2"]
    assert all(msgspec.json.decode(each)["truncated"] for each in it.messages)


def test_a_page_of_exactly_all_has_no_more() -> None:
    assert page(limit=5).has_more is False
    assert page(limit=4).has_more is True
    assert page([], limit=5).messages == []


def test_an_entry_that_is_no_message_of_the_branch_is_refused() -> None:
    with pytest.raises(HarnessError) as refused:
        page(before_entry_id="nobody")
    assert refused.value.kind == "entryNotFound"


def cut(message: Any, max_bytes: int) -> Any:
    (shown,) = page([Item("e", message)], max_bytes=max_bytes).messages
    encoded = bytes(shown) if isinstance(shown, msgspec.Raw) else encode(shown)
    return msgspec.json.decode(encoded), len(encoded)


def test_a_message_that_fits_is_as_it_was() -> None:
    message = UserMessage(content="x" * 500, timestamp=1)
    whole = msgspec.json.decode(encode(message))
    assert cut(message, 1000) == (whole, len(encode(message)))
    assert cut(message, len(encode(message)))[0] == whole


def test_a_message_that_does_not_fit_keeps_its_shape_and_says_that_it_was_cut() -> None:
    blocks = [TextBlock(text="a" * 5000), TextBlock(text="short"), TextBlock(text="b" * 5000)]
    message = ToolResultMessage(
        tool_call_id="call_1", tool_name="read", content=blocks, is_error=False, timestamp=1
    )
    shown, size = cut(message, 2000)
    assert size <= 2000
    assert shown["truncated"] is True
    assert (shown["role"], shown["toolCallId"], shown["isError"]) == ("toolResult", "call_1", False)
    long, short, other = [block["text"] for block in shown["content"]]
    assert short == "short"
    assert long.startswith("aaaa")
    assert other.startswith("bbbb")
    for text in (long, other):
        assert text.endswith("[cut; session/entry has all of it]")


@given(st.text(min_size=200, max_size=2000), st.integers(400, 3000))
def test_whatever_was_said_fits_and_stays_json(text: str, max_bytes: int) -> None:
    message = UserMessage(content=text, timestamp=1)
    shown, size = cut(message, max_bytes)
    if len(encode(message)) <= max_bytes:
        assert shown["content"] == text
        assert "truncated" not in shown
    else:
        assert shown["truncated"] is True
        kept = shown["content"].removesuffix("[cut; session/entry has all of it]")
        assert text.startswith(kept)
        assert size <= max(max_bytes, 600)


def test_a_message_of_many_small_parts_cannot_be_cut_and_is_not_said_to_be() -> None:
    blocks = [TextBlock(text="small") for _ in range(100)]
    shown, _ = cut(UserMessage(content=blocks, timestamp=1), 100)
    assert "truncated" not in shown
    assert len(shown["content"]) == 100
