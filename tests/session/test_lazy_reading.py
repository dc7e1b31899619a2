"""What a long session holds in memory and reads from its file, and what it does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.session import (
    EntryReader,
    JsonlSession,
    SessionStorageError,
    build_context,
    interrupted,
    transcript,
)
from pi_rpc.session._scanning import scan
from pi_rpc.session.context import newest_messages
from pi_rpc.session.entries import CompactionEntry
from tests.session.builders import FIXTURE, ids, message_entry, place, texts, user_entry
from tests.session.test_store import HEADER, line

pytestmark = pytest.mark.anyio


def long_file(tmp_path: Path, count: int = 3000) -> Path:
    path = tmp_path / "long.jsonl"
    lines = [line(f"{n:08x}", f"{n - 1:08x}" if n else None, f"text {n}") for n in range(count)]
    path.write_bytes(
        HEADER + b"".join(each.replace(b": ", b":").replace(b", ", b",") for each in lines)
    )
    return path


def counted_reads(session: JsonlSession, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    assert session._file is not None
    real = session._file.read_at

    def read_at(offset: int, length: int) -> bytes:
        sizes.append(length)
        return real(offset, length)

    session._tree.read_from(read_at)
    return sizes


async def test_looking_at_the_end_of_a_session_reads_only_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.open(long_file(tmp_path))
    sizes = counted_reads(session, monkeypatch)
    assert len(session.branch()) == len(transcript(session.branch())) == 3000
    assert sizes == []
    assert interrupted(session.branch())
    assert build_context(session.branch()).thinking_level == "off"
    stored, message = next(newest_messages(session.branch()))
    assert (stored.id, message.content) == ("00000bb7", "text 2999")  # type: ignore[union-attr]
    assert len(sizes) == 1
    page = transcript(session.branch())[10:12]
    assert [item.entry_id for item in page] == ["0000000a", "0000000b"]
    assert len(sizes) == 1
    assert [item.message.content for item in page] == ["text 10", "text 11"]  # type: ignore[union-attr]
    assert len(sizes) == 3
    await session.aclose()


async def test_a_context_reads_nothing_from_before_its_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.open(long_file(tmp_path))
    kept = ids(session)[-2]
    summary = {"summary": "s", "first_kept_entry_id": kept, "tokens_before": 1}
    await session.append(CompactionEntry(**place(session), **summary))
    await session.append(user_entry(session))
    await session.aclose()
    session = await JsonlSession.open(session.path)
    sizes = counted_reads(session, monkeypatch)
    assert len(build_context(session.branch()).messages) == 4
    assert len(sizes) <= 4
    # Again: nothing, for what is in use stays.
    sizes.clear()
    assert len(build_context(session.branch()).messages) == 4
    assert sizes == []
    await session.aclose()


async def test_what_is_out_of_use_does_not_stay_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [line(f"{n:08x}", f"{n - 1:08x}" if n else None, "x" * 100_000) for n in range(200)]
    path.write_bytes(HEADER + b"".join(lines))
    session = await JsonlSession.open(path)
    assert len(texts(session)) == 200
    tree = session._tree
    assert len(tree._held) == 200
    compaction = CompactionEntry(
        **place(session), summary="s", first_kept_entry_id="000000c0", tokens_before=1
    )
    await session.append(compaction)
    assert len(tree._held) == 9
    assert len(texts(session)) == 200
    assert len(tree._held) == 9
    assert 0 < len(tree._recent) < 50
    await session.set_leaf_id("00000005")
    assert len(texts(session)) == 6
    assert len(tree._held) == 7  # and the entry that moved the leaf
    await session.aclose()


async def test_a_closed_session_reads_its_file_while_it_is_there(tmp_path: Path) -> None:
    session = await JsonlSession.open(long_file(tmp_path, 10))
    await session.aclose()
    assert texts(session)[3] == "text 3"
    again = await JsonlSession.open(session.path)
    await again.aclose()
    session.path.unlink()
    with pytest.raises(SessionStorageError):
        texts(again)
    assert len(ids(again)) == 10


async def test_an_entry_that_is_not_where_it_was_is_not_taken_for_it(tmp_path: Path) -> None:
    session = await JsonlSession.open(long_file(tmp_path, 10))
    content = session.path.read_bytes()
    session.path.write_bytes(HEADER + b" " * (len(content) - len(HEADER)))
    with pytest.raises(SessionStorageError, match="changed"):
        texts(session)
    assert await session.refresh() == "unchanged"
    await session.aclose()


async def test_a_line_damaged_in_the_middle_keeps_its_place(tmp_path: Path) -> None:
    path = long_file(tmp_path, 5)
    path.write_bytes(path.read_bytes().replace(b'"text 2"', b'"text" 2'))
    session = await JsonlSession.open(path, read_only=True)
    assert len(ids(session)) == 5
    assert texts(session) == ["text 0", "text 1", "text 3", "text 4"]
    drawn = [item.message for item in transcript(session.branch())]
    assert len(drawn) == 5
    await session.aclose()


@pytest.mark.parametrize("cut", [1, 2, 3, 20, 60])
async def test_a_line_that_was_cut_off_is_no_entry_wherever_it_stands(
    tmp_path: Path, cut: int
) -> None:
    path = long_file(tmp_path, 5)
    lines = path.read_bytes().splitlines()
    lines[2] = lines[2][:-cut]
    path.write_bytes(b"\n".join(lines) + b"\n")
    session = await JsonlSession.open(path, read_only=True)
    assert [stored.id for stored in session.entries()] == [
        "00000000",
        "00000002",
        "00000003",
        "00000004",
    ]
    assert "1 lines" in session.notes[-1]
    await session.aclose()


REPLY = {
    "role": "assistant",
    "content": [{"type": "toolCall", "id": "1", "name": "t", "arguments": {"usage": {"cost": {}}}}],
    "api": "a",
    "provider": "p",
    "model": "m",
    "usage": {
        "input": 1,
        "output": 2,
        "cacheRead": 3,
        "cacheWrite": 4,
        "totalTokens": 10,
        "cost": {"input": 0.5, "output": 0.25, "cacheRead": 0, "cacheWrite": 0, "total": 0.75},
    },
    "stopReason": "stop",
    "timestamp": 1,
}


def reply(**changes: Any) -> bytes:
    message = {**REPLY, **changes}
    entry = {"type": "message", "id": "r", "parentId": None, "timestamp": "t", "message": message}
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("changes", "total"),
    [
        ({}, 10),
        ({"errorMessage": 'with "quotes" and }}'}, 10),
        ({"usage": None}, 0),
        ({"usage": {"input": 5}}, 0),
        ({"usage": {**REPLY["usage"], "totalTokens": None}}, 0),  # type: ignore[dict-item]
        ({"usage": {**REPLY["usage"], "totalTokens": 7.0, "more": [1]}}, 7),  # type: ignore[dict-item]
        ({"usage": {**REPLY["usage"], "cost": None}}, 10),  # type: ignore[dict-item]
        ({"usage": {**REPLY["usage"], "reasoning": 3}, "durationMs": 1.5}, 10),  # type: ignore[dict-item]
        ({"diagnostics": {"usage": {"totalTokens": 99, "cost": {}}}}, 10),
    ],
    ids=range(9),
)
async def test_totals_are_those_of_the_decoded_replies(
    tmp_path: Path, changes: dict[str, Any], total: int
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEADER + reply(**changes) + line("u", "r"))
    session = await JsonlSession.open(path, read_only=True)
    decoded = session.entries()[0].entry.message.usage  # type: ignore[union-attr]
    used = session.usage_totals()
    assert used.total_tokens == decoded.total_tokens == total
    assert used.cost.total == decoded.cost.total
    await session.aclose()


async def test_a_quick_look_says_what_a_careful_one_does() -> None:
    reader = EntryReader()
    seen = 0
    for text in [*FIXTURE.read_bytes().splitlines()[1:], reply()[:-1], line("a", "b")[:-1]]:
        found, stop = scan(text + b"\n", 0, len(text) + 1, 100)
        if stop == 0:
            assert found.ids == []
            continue
        stored = reader.line(text)
        assert stored is not None
        parent = found.parents[0]
        assert found.ids == [stored.id.encode()]
        assert (parent.decode() if parent else None) == stored.parent_id
        assert found.roles == [str(stored.role).encode()]
        assert (found.offsets, found.lengths) == ([100], [len(text)])
        seen += 1
    assert seen >= 8


async def test_what_was_appended_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    written = []
    for number in range(5):
        stored = await session.append(user_entry(session, f"{number} é"))
        written.append(stored.raw)
    with session.path.open("ab") as file:
        file.write(b"torn")
    await session.refresh()
    stored = await session.append(message_entry(session, user_entry(session).message))
    written.append(stored.raw)
    assert [each.raw for each in session.entries()] == written
    await session.aclose()
    assert [each.raw for each in session.entries()] == written
