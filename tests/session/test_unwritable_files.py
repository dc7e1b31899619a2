"""Disks that take nothing: full for real, and read-only."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.session import JsonlSession, SessionStorageError
from tests.deadlines import DEADLINE_S
from tests.session.builders import ids, user_entry
from tests.session.test_store import HEADER, line, written

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]

FULL = """
import os, resource, sys, anyio
from pathlib import Path
from pi_rpc.session import JsonlSession, SessionStorageError
from tests.session.builders import ids, user_entry

async def main(path):
    session = await JsonlSession.open(path)
    room = int(sys.argv[2])
    size = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
    before = path.read_bytes(), ids(session)
    for text in ("x", "y"):
        entries = [user_entry(session, text * size) for size in (2000, 3000)]
        try:
            await session.append_many(entries)
        except SessionStorageError as error:
            assert error.kind == "storage"
        else:
            raise SystemExit("it fitted")
        assert (path.read_bytes(), ids(session)) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await session.append(user_entry(session, "z" * 5000))
    print(*ids(session))
    await session.aclose()

anyio.run(main, Path(sys.argv[1]))
"""


@pytest.mark.parametrize("room", [0, 1, 4000])
async def test_an_entry_that_does_not_fit_on_the_disk_leaves_no_part_of_it(
    tmp_path: Path, room: int
) -> None:
    path = written(tmp_path, HEADER, line("a", None))
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(room)],
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    session = await JsonlSession.open(path)
    assert ids(session) == done.stdout.decode().split()
    assert session.notes == []
    await session.aclose()


def read_only_disk(patch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refusing(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, flags, *rest, **options)

    patch.setattr(os, "open", refusing)


async def test_a_session_on_a_read_only_disk_can_only_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = HEADER + line("a", None)
    path = written(tmp_path, content)
    new = await JsonlSession.create(tmp_path, "/w")
    with monkeypatch.context() as patch:
        read_only_disk(patch)
        with pytest.raises(SessionStorageError, match="Read-only"):
            await JsonlSession.open(path)
        reader = await JsonlSession.open(path, read_only=True)
        assert ids(reader) == ["a"]
        await reader.aclose()
        entry = user_entry(new)
        with pytest.raises(SessionStorageError, match="Read-only"):
            await new.append(entry)
        assert new.branch() == []
    assert os.listdir(tmp_path) == ["s.jsonl"]
    assert path.read_bytes() == content
    await new.append(entry)
    await new.aclose()


async def test_a_disk_that_becomes_read_only_refuses_entries_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, HEADER, line("a", None))
    session = await JsonlSession.open(path)
    content = path.read_bytes()

    def refused(fd: int, data: bytes) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refused)
        with pytest.raises(SessionStorageError, match="Read-only") as caught:
            await session.append(user_entry(session))
    assert caught.value.kind == "storage"
    assert (path.read_bytes(), ids(session)) == (content, ["a"])
    added = await session.append(user_entry(session))
    assert ids(session) == ["a", added.id]
    await session.aclose()
