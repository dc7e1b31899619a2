"""LocalFiles: what is opened, how files are replaced, how errors read."""

import contextlib
import errno
import os
import socket
import stat
import sys
from pathlib import Path

import anyio
import pytest

import pi_rpc._os.files
from pi_rpc.agent.ports import PortError
from pi_rpc.tools._local_files import PIECE, LocalFiles
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio


@pytest.fixture
def files() -> LocalFiles:
    return LocalFiles()


async def _refused(call: object, code: str) -> str:
    with pytest.raises(PortError) as caught:
        await call  # type: ignore[misc]
    assert caught.value.code == code
    caught.value.message.encode()
    return caught.value.message


async def test_stat_tells_kinds_apart_and_follows_links(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    (tmp_path / "f").chmod(0o640)
    (tmp_path / "link").symlink_to("f")
    os.mkfifo(tmp_path / "fifo")
    found = await files.stat(tmp_path / "link")
    assert (found.kind, found.size, found.mode) == ("file", 3, 0o640)
    assert found.mtime_ns == (tmp_path / "f").stat().st_mtime_ns
    assert (await files.stat(tmp_path)).kind == "directory"
    assert (await files.stat(tmp_path / "fifo")).kind == "other"


async def test_a_missing_file_is_not_found_and_named(files: LocalFiles, tmp_path: Path) -> None:
    for call in (files.stat(tmp_path / "no"), files.read(tmp_path / "no")):
        assert f"{tmp_path}/no does not exist" in await _refused(call, "not_found")


async def test_real_path_resolves_links_as_far_as_the_path_exists(
    files: LocalFiles, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "link").symlink_to("d")
    assert await files.real_path(tmp_path / "link" / "new" / "f") == tmp_path / "d/new/f"


async def test_a_file_is_read_in_pieces_and_from_where_one_seeks(
    files: LocalFiles, tmp_path: Path
) -> None:
    data = os.urandom(PIECE + 100)
    (tmp_path / "f").write_bytes(data)
    async with files.open(tmp_path / "f") as file:
        assert await file.read(10) == data[:10]
        await file.seek(50)
        assert len(await file.read(10**9)) == PIECE
        assert await file.read(PIECE) == data[50 + PIECE :]
        assert await file.read(PIECE) == b""


async def test_the_descriptor_is_closed_and_not_inherited(
    files: LocalFiles, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    async with files.open(tmp_path / "f"):
        [mine] = _descriptors_of(tmp_path / "f")
        assert not os.get_inheritable(mine)
    assert _descriptors_of(tmp_path / "f") == []


def _descriptors_of(path: Path) -> list[int]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing's own
            if os.readlink(f"/proc/self/fd/{fd}") == str(path):
                found.append(int(fd))
    return found


async def test_what_is_no_regular_file_is_refused_without_being_read_or_waited_for(
    files: LocalFiles, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        for path, kind in (
            (tmp_path / "fifo", "a named pipe"),
            (tmp_path / "sock", "a socket"),
            (Path("/dev/zero"), "a device"),
        ):
            assert kind in await _refused(files.read(path), "not_regular")
            assert kind in await _refused(files.write(path, b"x"), "not_regular")
    assert "directory" in await _refused(files.read(tmp_path), "is_directory")
    assert "directory" in await _refused(files.write(tmp_path, b"x"), "is_directory")


async def test_a_file_that_becomes_a_pipe_between_look_and_open_is_refused(
    files: LocalFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    really_open = os.open

    def swap(name: Path, flags: int, *rest: int) -> int:
        assert flags & os.O_NONBLOCK  # else this would wait for a writer
        path.unlink()
        os.mkfifo(path)
        return really_open(name, flags, *rest)

    monkeypatch.setattr(os, "open", swap)
    await _refused(files.read(path), "not_regular")


async def test_reading_more_than_the_limit_is_refused_whatever_size_is_reported(
    files: LocalFiles, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100)
    assert await files.read(tmp_path / "f", limit=100) == b"x" * 100
    await _refused(files.read(tmp_path / "f", limit=99), "too_large")
    assert Path("/proc/self/status").stat().st_size == 0
    assert b"Name:" in await files.read(Path("/proc/self/status"))
    await _refused(files.read(Path("/proc/self/status"), limit=10), "too_large")


async def test_impossible_names_get_an_error_of_their_own(
    files: LocalFiles, tmp_path: Path
) -> None:
    assert "too long" in await _refused(files.stat(tmp_path / ("x" * 300)), "other")
    assert "too long" in await _refused(files.write(tmp_path / ("x/" * 3000), b""), "other")
    assert "\\x00" in await _refused(files.stat(tmp_path / "a\0b"), "other")
    assert "\\x00" in await _refused(files.write(tmp_path / "a\0b", b""), "other")
    assert "\\ud800" in await _refused(files.read(tmp_path / "\ud800"), "other")
    (tmp_path / "round").symlink_to("round")
    assert "circle" in await _refused(files.read(tmp_path / "round"), "other")
    (tmp_path / "f").write_bytes(b"")
    await _refused(files.read(tmp_path / "f" / "g"), "not_directory")
    await _refused(files.write(tmp_path / "f" / "g", b""), "not_directory")
    await _refused(files.write(tmp_path / "f" / "g" / "h", b""), "not_directory")


async def test_names_that_are_no_unicode_work_and_are_shown_escaped(
    files: LocalFiles, tmp_path: Path
) -> None:
    path = tmp_path / os.fsdecode(b"\xff.txt")
    assert "\\udcff.txt" in await _refused(files.read(path), "not_found")
    await files.write(path, b"abc")
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff.txt"]
    assert await files.read(path) == b"abc"


async def test_write_creates_parents_and_obeys_the_umask(files: LocalFiles, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        await files.write(tmp_path / "a" / "b" / "f", b"abc")
    finally:
        os.umask(before)
    assert (tmp_path / "a/b/f").read_bytes() == b"abc"
    assert stat.S_IMODE((tmp_path / "a/b/f").stat().st_mode) == 0o640


async def test_write_replaces_a_links_target_and_keeps_its_mode(
    files: LocalFiles, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "f").chmod(0o751)
    (tmp_path / "link").symlink_to("f")
    await files.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o751
    (tmp_path / "dangling").symlink_to("made/by/write")
    await files.write(tmp_path / "dangling", b"x")
    assert (tmp_path / "made/by/write").read_bytes() == b"x"


async def test_a_read_only_file_is_not_replaced(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "f").chmod(0o444)
    assert "read-only" in await _refused(files.write(tmp_path / "f", b"new"), "not_permitted")
    assert (tmp_path / "f").read_bytes() == b"old"


@pytest.mark.parametrize(
    "failure",
    [
        (errno.ENOSPC, "no_space", "no space is left"),
        (errno.EDQUOT, "no_space", "quota"),
        (errno.EROFS, "not_permitted", "read-only"),
        (errno.EIO, "other", os.strerror(errno.EIO)),
    ],
)
async def test_a_write_that_fails_half_way_keeps_the_old_content(
    files: LocalFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: tuple[int, str, str],
) -> None:
    number, code, says = failure
    (tmp_path / "f").write_bytes(b"old")
    really_write = os.write
    written: list[int] = []

    def write(fd: int, data: bytes) -> int:
        if written:
            raise OSError(number, os.strerror(number))
        written.append(really_write(fd, bytes(data)[:3]))
        return written[0]

    monkeypatch.setattr(pi_rpc._os.files.os, "write", write)
    try:
        message = await _refused(files.write(tmp_path / "f", b"new content"), code)
    finally:
        monkeypatch.undo()
    assert says in message
    assert written == [3]
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


async def test_a_cancelled_caller_waits_until_its_write_is_done(
    files: LocalFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, scope = anyio.Event(), anyio.CancelScope()
    really_write = os.write

    def write(fd: int, data: bytes) -> int:
        anyio.from_thread.run_sync(started.set)
        anyio.from_thread.run_sync(scope.cancel)
        return really_write(fd, data)

    async with anyio.create_task_group() as tasks:

        async def replace() -> None:
            with scope:
                monkeypatch.setattr(pi_rpc._os.files.os, "write", write)
                await files.write(tmp_path / "f", b"new")
            monkeypatch.undo()
            assert (tmp_path / "f").read_bytes() == b"new"

        tasks.start_soon(replace)
        with anyio.fail_after(DEADLINE_S):
            await started.wait()
    assert scope.cancel_called


async def test_a_write_beyond_the_systems_limit_keeps_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    script = """
import resource, signal, sys
from pathlib import Path
import anyio
from pi_rpc.agent.ports import PortError
from pi_rpc.tools._local_files import LocalFiles
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    anyio.run(LocalFiles().write, Path(sys.argv[1]), b"x" * 5000)
except PortError as error:
    print(error.code)
"""
    done = await anyio.run_process([sys.executable, "-c", script, str(tmp_path / "f")])
    assert done.stdout == b"too_large\n"
    assert (tmp_path / "f").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]
