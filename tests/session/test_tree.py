"""A session as a tree: its nodes, labels, ancestors, and moving the leaf."""

from pathlib import Path
from typing import Any

import pytest

from pi_rpc.llm.messages import ImageBlock, TextBlock, Usage, UsageCost, UserMessage
from pi_rpc.session import (
    EntryNotFoundError,
    JsonlSession,
    MemorySession,
    SessionStorage,
)
from pi_rpc.session.entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
)
from pi_rpc.session.tree import (
    common_ancestor,
    entries_between,
    preview_of,
    session_stats,
    tree_page,
    user_images_of,
    user_text_of,
)
from tests.session.builders import (
    FIXTURE,
    assistant,
    custom_entry,
    ids,
    leaf_entry,
    message_entry,
    model_entry,
    name_entry,
    place,
    tool_result,
    user_entry,
)
from tests.session.test_store import HEADER, line

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "file"])
async def session(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStorage:
    if request.param == "memory":
        return MemorySession("/w")
    return await JsonlSession.create(tmp_path, "/w")


async def add(session: SessionStorage, *texts: str) -> list[str]:
    return [(await session.append(user_entry(session, text))).id for text in texts]


async def label(session: SessionStorage, target: str, text: str | None) -> None:
    fields: dict[str, Any] = {} if text is None else {"label": text}
    await session.append(LabelEntry(**place(session), target_id=target, **fields))


async def test_moving_the_leaf_writes_an_entry_only_when_it_moves(session: SessionStorage) -> None:
    a, b = await add(session, "a", "b")
    assert await session.set_leaf_id(b) is None
    assert len(session.entries()) == 2
    moved = await session.set_leaf_id(a)
    assert moved is not None
    assert (moved.type, moved.parent_id, session.leaf_id) == ("leaf", a, a)
    (c,) = await add(session, "c")
    assert ids(session) == [a, c]
    await session.set_leaf_id(None)
    assert session.leaf_id is None
    assert await session.set_leaf_id(None) is None
    assert len(session.entries()) == 5
    with pytest.raises(EntryNotFoundError):
        await session.set_leaf_id("missing")
    assert len(session.entries()) == 5
    await session.aclose()


async def test_the_last_line_decides_where_a_session_goes_on(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    a, b = await add(session, "a", "b")
    for target in (a, b, None, a):
        await session.set_leaf_id(target)
        await session.aclose()
        session = await JsonlSession.open(session.path)
        assert session.leaf_id == target
    await session.aclose()


async def test_nodes_come_flat_with_parents_before_children(session: SessionStorage) -> None:
    a, b = await add(session, "first\n line", "second")
    await label(session, a, "start")
    await session.set_leaf_id(a)
    call = await session.append(message_entry(session, assistant("", "c1")))
    await session.append(message_entry(session, tool_result("c1", "x" * 500)))
    page = await tree_page(session)
    assert [node.entry_id for node in page.nodes] == [each.id for each in session.entries()]
    first = page.nodes[0]
    assert (first.parent_id, first.type, first.role) == (None, "message", "user")
    assert (first.preview, first.label) == ("first line", "start")
    assert first.timestamp == session.entries()[0].timestamp
    assert (page.nodes[1].parent_id, page.nodes[1].label) == (a, None)
    assert page.nodes[4].preview == "read"
    assert page.nodes[4].entry_id == call.id
    assert page.nodes[5].preview == f"read: {'x' * 113}…"
    assert len(page.nodes[5].preview) == 120
    assert (page.leaf_id, page.next_cursor) == (session.leaf_id, None)
    assert page.nodes[2].parent_id == b
    await session.aclose()


async def test_a_tree_comes_in_pages_that_stay_while_it_grows(session: SessionStorage) -> None:
    expected = await add(session, *"abcdefg")
    found, cursor = [], None
    while True:
        page = await tree_page(session, limit=3, cursor=cursor)
        assert len(page.nodes) <= 3
        found += [node.entry_id for node in page.nodes]
        cursor = page.next_cursor
        if cursor is None:
            break
        expected += await add(session, "later") if len(expected) < 9 else []
    assert found == expected
    for bad in ("x", "-1", "99", "9" * 5000, "²"):
        with pytest.raises(ValueError, match="no cursor"):
            await tree_page(session, cursor=bad)
    await session.aclose()


async def test_a_query_finds_text_in_previews_and_labels(session: SessionStorage) -> None:
    a, b, c = await add(session, "Apples", "pears", "more apples")
    await label(session, b, "APPLE tart")
    page = await tree_page(session, query="apple", limit=2)
    assert [node.entry_id for node in page.nodes] == [a, b]
    rest = await tree_page(session, query="apple", limit=2, cursor=page.next_cursor)
    assert [node.entry_id for node in rest.nodes] == [c, session.leaf_id]
    assert rest.next_cursor is None
    await session.aclose()


async def test_the_newest_label_of_an_entry_counts(session: SessionStorage) -> None:
    a, b = await add(session, "a", "b")
    await label(session, a, "one")
    await label(session, b, " two ")
    await label(session, a, "three")
    assert {key: value.text for key, value in session.labels.items()} == {a: "three", b: "two"}
    await label(session, a, None)
    await label(session, b, "  ")
    assert dict(session.labels) == {}
    await session.aclose()


async def test_a_damaged_tree_has_no_circles_and_no_missing_parents(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [line("a", "c"), line("b", "a"), line("c", "b"), line("d", "gone"), line("e", "e")]
    path.write_bytes(HEADER + b"".join(lines))
    session = await JsonlSession.open(path, read_only=True)
    page = await tree_page(session)
    assert [(node.entry_id, node.parent_id) for node in page.nodes] == [
        ("a", None),
        ("b", "a"),
        ("c", "b"),
        ("d", None),
        ("e", None),
    ]
    await session.aclose()


async def test_the_common_ancestor_is_the_deepest(session: SessionStorage) -> None:
    a, b, c = await add(session, "a", "b", "c")
    await session.set_leaf_id(b)
    d, e = await add(session, "d", "e")
    assert common_ancestor(session, c, e) == b
    assert common_ancestor(session, c, b) == b
    assert common_ancestor(session, e, e) == e
    assert common_ancestor(session, None, e) is None
    assert [each.id for each in entries_between(session, e, c)] == [d, e]
    assert [each.id for each in entries_between(session, c, a)] == [b, c]
    assert [each.id for each in entries_between(session, c, None)] == [a, b, c]
    assert list(entries_between(session, b, e)) == []
    assert list(entries_between(session, None, e)) == []
    await session.set_leaf_id(None)
    (other,) = await add(session, "other root")
    assert common_ancestor(session, other, e) is None
    assert [each.id for each in entries_between(session, other, e)] == [other]
    with pytest.raises(EntryNotFoundError):
        common_ancestor(session, "missing", e)
    await session.aclose()


async def test_only_what_a_user_said_can_be_said_again(session: SessionStorage) -> None:
    image = ImageBlock(data="aGk=", mime_type="image/png")
    content = [TextBlock(text="look"), image, TextBlock(text=" here")]
    said = message_entry(session, UserMessage(content=content, timestamp=1))  # type: ignore[arg-type]
    assert user_text_of(said) == "look here"
    assert user_images_of(said) == [image]
    note = CustomMessageEntry(**place(session), custom_type="n", content="note", display=True)
    assert (user_text_of(note), user_images_of(note)) == ("note", [])
    for entry in (message_entry(session, assistant("x")), model_entry(session)):
        assert user_text_of(entry) is None
        assert user_images_of(entry) == []


async def test_every_kind_of_entry_has_a_preview(session: SessionStorage) -> None:
    entries: list[tuple[Entry, str]] = [
        (model_entry(session), "acme/one"),
        (ThinkingLevelChangeEntry(**place(session), thinking_level="low"), "low"),
        (name_entry(session, "A name"), "A name"),
        (custom_entry(session, 1), "test"),
        (ActiveToolsChangeEntry(**place(session), active_tool_names=["a", "b"]), "a, b"),
        (BranchSummaryEntry(**place(session), from_id=None, summary="tried"), "tried"),
        (
            CompactionEntry(
                **place(session), summary="short", first_kept_entry_id="x", tokens_before=1
            ),
            "short",
        ),
        (message_entry(session, assistant("said", "c")), "said"),
        (leaf_entry(session, None), ""),
    ]
    for entry, expected in entries:
        assert preview_of(await session.append(entry)) == expected
    await session.aclose()


async def test_what_a_session_used_is_what_all_its_entries_used(session: SessionStorage) -> None:
    cost = UsageCost(input=1, output=2, cache_read=0, cache_write=0, total=3)
    usage = Usage(input=10, output=20, cache_read=1, cache_write=2, total_tokens=33, cost=cost)
    used = {"provider": "p", "model": "m", "usage": usage}
    await session.append(UsageEntry(**place(session), kind="test", **used))
    await session.append(
        BranchSummaryEntry(**place(session), from_id=None, summary="s", usage=usage)
    )
    await session.append(message_entry(session, assistant("free", "one", "two")))
    await session.append(message_entry(session, tool_result("one")))
    await session.set_leaf_id(None)
    await add(session, "x")
    stats = await session_stats(session)
    assert (stats.usage.input, stats.usage.total_tokens, stats.usage.cost.total) == (20, 66, 6)
    assert stats.usage == session.usage_totals()
    assert (stats.user_messages, stats.assistant_messages) == (1, 1)
    assert (stats.tool_calls, stats.tool_results, stats.total_messages) == (2, 1, 3)
    await session.aclose()


async def test_a_file_of_pi_is_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "pi.jsonl"
    path.write_bytes(FIXTURE.read_bytes())
    session = await JsonlSession.open(path, read_only=True)
    page = await tree_page(session)
    assert len(page.nodes) == 29
    assert {node.label for node in page.nodes} == {None, "start"}
    assert session.usage_totals().total_tokens > 0
    await session.aclose()
