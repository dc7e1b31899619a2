"""Files of versions 1 and 2 are brought to version 3 when they are opened for writing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.session import JsonlSession, SessionStorageError, _rewriting, build_context
from pi_rpc.session.entries import CompactionEntry
from tests.deadlines import DEADLINE_S
from tests.session.builders import ids, texts, user_entry
from tests.session.test_store import HEADER, line

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
OLD: list[dict[str, Any]] = [
    {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/w"},
    {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "a"}},
    {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "b"}},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2, "tokensBefore": 5},
    {
        "type": "message",
        "timestamp": "t",
        "message": {"role": "hookMessage", "customType": "h", "content": "c"},
    },
]


def old_file(tmp_path: Path, name: str = "s.jsonl") -> tuple[Path, bytes]:
    content = b"".join(json.dumps(entry).encode() + b"\n" for entry in OLD)
    path = tmp_path / name
    path.write_bytes(content)
    path.chmod(0o640)
    return path, content


def versions(path: Path) -> list[int]:
    return [json.loads(text).get("version") for text in path.read_bytes().splitlines()[:1]]


async def test_a_file_of_version_1_is_rewritten_and_goes_on(tmp_path: Path) -> None:
    path, content = old_file(tmp_path)
    session = await JsonlSession.open(path)
    assert not session.read_only
    branch = session.branch()
    assert len(branch) == 4
    compaction = branch[2].entry
    assert isinstance(compaction, CompactionEntry)
    assert compaction.first_kept_entry_id == branch[1].id
    assert branch[3].role == "custom"
    backup = tmp_path / "s.jsonl.bak"
    assert backup.read_bytes() == content
    assert str(backup) in session.notes[0]
    assert path.stat().st_mode & 0o777 == 0o640
    added = await session.append(user_entry(session, "new"))
    expected = ids(session)
    await session.aclose()
    lines = [json.loads(text) for text in path.read_bytes().splitlines()]
    assert lines[0] == {**OLD[0], "version": 3}
    assert [entry["id"] for entry in lines[1:]] == expected
    again = await JsonlSession.open(path)
    assert (ids(again), again.notes) == (expected, [])
    assert added.parent_id == expected[-2]
    await again.aclose()
    assert sorted(os.listdir(tmp_path)) == ["s.jsonl", "s.jsonl.bak"]


async def test_a_file_of_version_2_keeps_its_ids_and_its_lines(tmp_path: Path) -> None:
    same = line("a", None)
    content = HEADER.replace(b'"version":3', b'"version":2') + same + b"garbage\n\n"
    content += line("b", "a").replace(b'"user"', b'"hookMessage"')[:-1]
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    session = await JsonlSession.open(path)
    assert ids(session) == ["a", "b"]
    assert [stored.role for stored in session.branch()] == ["user", "custom"]
    await session.aclose()
    assert path.read_bytes().startswith(HEADER + same + b"garbage\n\n")
    assert path.read_bytes().endswith(b"}\n")


async def test_looking_at_an_old_file_upgrades_only_what_is_in_memory(tmp_path: Path) -> None:
    path, content = old_file(tmp_path)
    session = await JsonlSession.open(path, read_only=True)
    assert session.read_only
    assert texts(session) == ["a", "b", "c"]
    looked_at = ids(session)
    await session.aclose()
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["s.jsonl"]
    writer = await JsonlSession.open(path)
    assert ids(writer) == looked_at
    await writer.aclose()


async def test_an_older_backup_is_not_overwritten(tmp_path: Path) -> None:
    path, content = old_file(tmp_path)
    (tmp_path / "s.jsonl.bak").write_text("mine")
    (tmp_path / "s.jsonl.bak.1").write_text("mine too")
    session = await JsonlSession.open(path)
    await session.aclose()
    assert (tmp_path / "s.jsonl.bak").read_text() == "mine"
    assert (tmp_path / "s.jsonl.bak.1").read_text() == "mine too"
    assert (tmp_path / "s.jsonl.bak.2").read_bytes() == content


async def test_a_backup_is_copied_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = old_file(tmp_path)

    def refused(*names: Path) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refused)
    session = await JsonlSession.open(path)
    assert not session.read_only
    await session.aclose()
    assert (tmp_path / "s.jsonl.bak").read_bytes() == content
    assert versions(path) == [3]
    assert sorted(os.listdir(tmp_path)) == ["s.jsonl", "s.jsonl.bak"]


async def test_a_link_to_an_old_file_stays_a_link(tmp_path: Path) -> None:
    path, content = old_file(tmp_path, "real.jsonl")
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    session = await JsonlSession.open(link)
    await session.append(user_entry(session))
    await session.aclose()
    assert link.is_symlink()
    assert versions(path) == [3]
    assert (tmp_path / "real.jsonl.bak").read_bytes() == content


async def test_an_old_file_that_cannot_be_rewritten_is_opened_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = old_file(tmp_path)

    def full_disk(fd: int, data: bytes) -> None:
        os.write(fd, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_rewriting, "write_all", full_disk)
    session = await JsonlSession.open(path)
    assert session.read_only
    assert "No space left" in session.notes[0]
    with pytest.raises(SessionStorageError):
        await session.append(user_entry(session))
    await session.aclose()
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["s.jsonl"]


async def test_an_old_file_that_grows_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = old_file(tmp_path)
    real = _rewriting.fsync_file

    def crossing(file: int | Path) -> None:
        with path.open("ab") as other:
            other.write(b"{}\n")
        real(file)

    monkeypatch.setattr(_rewriting, "fsync_file", crossing)
    session = await JsonlSession.open(path)
    assert session.read_only
    await session.aclose()
    assert path.read_bytes() == content + b"{}\n"


DYING = """
import os, sys, anyio
from pathlib import Path
from pi_rpc.session import JsonlSession, _rewriting
step = int(sys.argv[2])
def counted(real):
    def call(*args, **options):
        global step
        if step == 0:
            os._exit(9)
        step -= 1
        result = real(*args, **options)
        if step == 0:
            os._exit(9)
        return result
    return call
_rewriting.write_all = counted(_rewriting.write_all)
_rewriting.fsync_file = counted(_rewriting.fsync_file)
os.link = counted(os.link)
os.rename = os.replace = counted(os.replace)
Path.replace = counted(Path.replace)
async def main():
    session = await JsonlSession.open(Path(sys.argv[1]))
    assert not session.read_only, session.notes
anyio.run(main)
"""


@pytest.mark.parametrize("step", range(6))
async def test_a_death_at_any_step_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, step: int
) -> None:
    path, content = old_file(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(path), str(step)],
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 9 or (step == 5 and done.returncode == 0), done.stderr.decode()
    assert path.read_bytes() == content or versions(path) == [3]
    session = await JsonlSession.open(path)
    assert not session.read_only
    assert texts(session) == ["a", "b", "c"]
    assert build_context(session.branch()).thinking_level == "off"
    await session.aclose()
    left = set(os.listdir(tmp_path)) - {"s.jsonl.lock"}
    assert left == {"s.jsonl", "s.jsonl.bak"}
    assert (tmp_path / "s.jsonl.bak").read_bytes() == content
