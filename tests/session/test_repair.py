"""Lines with numbers that no double holds: read, migrated and forked, always as valid JSON."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.session import JsonlSession, JsonlSessionRepo
from pi_rpc.session._repair import clean_json, plain_object
from pi_rpc.session.entries import CompactionEntry, MessageEntry
from tests.session.builders import ids, texts, user_entry
from tests.session.test_store import HEADER, line

pytestmark = pytest.mark.anyio

LARGEST = sys.float_info.max


def _refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")


def strictly(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(each, parse_constant=_refuse) for each in content.splitlines()]


def odd_line(entry_id: str, parent: str | None, number: str = "1e400") -> bytes:
    """Such a number wherever there is one."""
    return (
        f'{{"type":"message","id":"{entry_id}","parentId":{json.dumps(parent)},'
        f'"timestamp":{number},"message":{{"role":"user","content":"{entry_id}",'
        f'"timestamp":{number}}},"more":[{number}]}}\n'
    ).encode()


@pytest.mark.parametrize(
    ("given", "written"),
    [(math.inf, LARGEST), (-math.inf, -LARGEST), (math.nan, None), (1.5, 1.5), (10**400, 10**400)],
    ids=str,
)
def test_every_number_is_written_as_json(given: float, written: Any) -> None:
    value = {"a": [given, {"b": given}], "text": "Infinity NaN \u00e9"}
    expected = {"a": [written, {"b": written}], "text": "Infinity NaN \u00e9"}
    assert strictly(clean_json(value)) == [expected]


def test_numbers_beyond_all_doubles_are_read_as_the_largest() -> None:
    for number in ("1e400", "9" * 5_000):
        fields = plain_object(f'{{"a":{number},"b":-{number},"c":"\\ud800"}}'.encode())
        assert fields == {"a": LARGEST, "b": -LARGEST, "c": "\ufffd"}


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "9" * 5_000], ids=len)
async def test_a_line_with_such_a_number_is_opened_and_stays_as_it_is(
    tmp_path: Path, number: str
) -> None:
    path = tmp_path / "s.jsonl"
    content = HEADER + line("a", None, "a") + odd_line("b", "a", number) + line("c", "b", "c")
    path.write_bytes(content)
    session = await JsonlSession.open(path)
    assert ids(session) == ["a", "b", "c"]
    assert texts(session) == ["a", "b", "c"]
    assert isinstance(session.branch()[1].entry, MessageEntry)
    assert session.notes == []
    added = await session.append(user_entry(session, "d"))
    await session.aclose()
    assert path.read_bytes() == content + added.raw + b"\n"


@pytest.mark.parametrize("number", ["1e400", "9" * 5_000], ids=len)
async def test_a_migrated_file_keeps_the_conversation_behind_such_a_number(
    tmp_path: Path, number: str
) -> None:
    path = tmp_path / "s.jsonl"
    header = {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/w"}
    said = [{"type": "message", "message": {"role": "user", "content": text}} for text in "abc"]
    lines = [json.dumps(each) for each in (header, *said)]
    lines[0] = f'{lines[0][:-1]}, "more": {number}}}'
    lines[2] = f'{lines[2][:-1]}, "timestamp": {number}}}'
    path.write_text("\n".join(lines) + "\n")
    session = await JsonlSession.open(path)
    assert texts(session) == ["a", "b", "c"]
    await session.aclose()
    first, *entries = strictly(path.read_bytes())
    assert (first["version"], first["more"]) == (3, LARGEST)
    assert [entry["parentId"] for entry in entries] == [None, *(e["id"] for e in entries[:-1])]
    assert entries[1]["timestamp"] == LARGEST
    again = await JsonlSession.open(path)
    assert texts(again) == ["a", "b", "c"]
    await again.aclose()


@pytest.mark.parametrize("number", ["1e400", "9" * 5_000], ids=len)
async def test_a_fork_keeps_the_conversation_behind_such_a_number(
    tmp_path: Path, number: str
) -> None:
    path = tmp_path / "s.jsonl"
    label = b'{"type":"label","id":"l","parentId":"a","timestamp":"t","targetId":"a","label":"x"}\n'
    path.write_bytes(
        HEADER
        + line("a", None, "a")
        + label
        + odd_line("b", "l", number)  # goes below another entry, so its line is written anew
        + odd_line("c", "b", number)
        + line("d", "c", "d")
    )
    repo = JsonlSessionRepo(tmp_path / "repo")
    source = await JsonlSession.open(path)
    fork = (await repo.fork(source, "d")).session
    assert texts(fork) == ["a", "b", "c", "d"]
    assert fork.path is not None
    await fork.aclose()
    await source.aclose()
    strictly(fork.path.read_bytes().replace(number.encode(), b"0"))
    again = await JsonlSession.open(fork.path)
    assert texts(again) == ["a", "b", "c", "d"]
    await again.aclose()


@pytest.mark.parametrize(
    ("number", "tokens"),
    [("1e400", 0), ("9" * 5_000, 0), ('"many"', 0), ("7.5", 7)],
    ids=["infinite", "many digits", "text", "fraction"],
)
async def test_a_compaction_counts_whatever_number_it_holds(
    tmp_path: Path, number: str, tokens: int
) -> None:
    path = tmp_path / "s.jsonl"
    compaction = (
        '{"type":"compaction","id":"c","parentId":"a","timestamp":"t","summary":"s",'
        f'"firstKeptEntryId":"a","tokensBefore":{number}}}\n'
    )
    path.write_bytes(HEADER + line("a", None) + compaction.encode())
    session = await JsonlSession.open(path, read_only=True)
    entry = session.branch()[-1].entry
    assert isinstance(entry, CompactionEntry)
    assert (entry.summary, entry.tokens_before) == ("s", tokens)
    await session.aclose()
