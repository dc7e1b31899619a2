"""Reading what is a file, and replacing a file as one step."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pi_rpc._os import files
from pi_rpc._os.files import atomic_replace, fsync_file, private_temp_file, read_regular


@pytest.mark.parametrize(
    ("limit", "read"), [(2, (b"ab", 3)), (5, (b"abcde", 0)), (9, (b"abcde", 0))]
)
def test_a_file_is_read_up_to_the_limit(
    tmp_path: Path, limit: int, read: tuple[bytes, int]
) -> None:
    (tmp_path / "file").write_bytes(b"abcde")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", limit) == read


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(OSError, match="not a regular file") as caught:
        read_regular(path, 10)
    assert caught.value.errno == errno.EINVAL


def test_a_pipe_that_takes_the_place_of_a_file_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.touch()
    before = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(Path, "stat", lambda _: before)
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(path, 10)


def test_a_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        atomic_replace(tmp_path / "new", b"content")
    finally:
        os.umask(old)
    assert (tmp_path / "new").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o666, 0o2755])
def test_an_existing_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    atomic_replace(path, b"new", fsync=True)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 4321, 4322)
    atomic_replace(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (4321, 4322)


def test_ownership_that_cannot_be_kept_costs_the_set_id_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o6755)
    real = os.fstat

    def of_somebody_else(fd: int) -> os.stat_result:
        return os.stat_result([*real(fd)[:4], 4321, *real(fd)[5:10]])

    def refused(fd: int, uid: int, gid: int) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "fstat", of_somebody_else)
    monkeypatch.setattr(os, "fchown", refused)
    atomic_replace(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_symlink_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "target"
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("there/target")
    atomic_replace(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_dangling_symlink_gets_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("target")
    atomic_replace(link, b"new")
    assert (tmp_path / "target").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_failure_keeps_the_old_content_and_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def no_space(*args: object, **kwargs: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, no_space)
    with pytest.raises(OSError, match="No space"):
        atomic_replace(path, b"new", fsync=True)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(sys.platform != "linux", reason="files without a name are Linux's")
def test_a_process_that_is_killed_while_it_writes_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from pi_rpc._os.files import atomic_replace\n"
        "write = os.write\n"
        "def killed(fd, data):\n"
        "    write(fd, bytes(data[:1]))\n"
        "    os.kill(os.getpid(), 9)\n"
        "os.write = killed\n"
        "atomic_replace(Path(sys.argv[1]), b'new')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -9
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_system_without_files_that_have_no_name_does_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_DESCRIPTORS", str(tmp_path / "nowhere"))
    path = tmp_path / "file"
    atomic_replace(path, b"one")
    atomic_replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_device_that_is_full_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    resource = pytest.importorskip("resource")
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            atomic_replace(path, b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="Not a regular file"):
        atomic_replace(tmp_path / "fifo", b"new")
    with pytest.raises(IsADirectoryError):
        atomic_replace(tmp_path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["fifo"]


def test_a_write_protected_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    # Root may write anything, so that the check itself has to be asked.
    monkeypatch.setattr(os, "access", lambda _, mode, **__: not mode & os.W_OK)
    with pytest.raises(PermissionError):
        atomic_replace(path, b"new")
    assert path.read_bytes() == b"old"


def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except (OSError, AttributeError):
        pytest.skip("this file system has no extended attributes")
    atomic_replace(path, b"new")
    assert os.getxattr(path, "user.note") == b"kept"


def test_a_private_temporary_file_is_for_this_user_alone() -> None:
    fd, path = private_temp_file("pi-test-", ".log")
    try:
        os.write(fd, b"x")
        fsync_file(fd)
        fsync_file(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.name.startswith("pi-test-")
        assert path.name.endswith(".log")
    finally:
        os.close(fd)
        path.unlink()
