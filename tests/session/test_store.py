"""Sessions in files: creating, appending, opening what is damaged, locks."""

import json
import os
import stat
from pathlib import Path

import anyio
import pytest

from pi_rpc.session import (
    EntryNotFoundError,
    JsonlSession,
    SessionCorruptError,
    SessionLockedError,
    SessionNotFoundError,
    SessionReadOnlyError,
    SessionStorageError,
    _file,
)
from pi_rpc.session.entries import BranchSummaryEntry, MessageEntry
from tests.deadlines import DEADLINE_S
from tests.session.builders import (
    FIXTURE,
    assistant,
    custom_entry,
    ids,
    leaf_entry,
    message_entry,
    model_entry,
    place,
    texts,
    user_entry,
)

pytestmark = pytest.mark.anyio

HEADER = (
    b'{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}\n'
)


def line(entry_id: str, parent: str | None, text: str = "x") -> bytes:
    entry = {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": {"role": "user", "content": text, "timestamp": 1},
    }
    return json.dumps(entry).encode() + b"\n"


def written(tmp_path: Path, *parts: bytes) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(parts))
    return path


async def test_a_session_without_entries_leaves_no_file(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path / "new", "/w")
    await session.sync()
    await session.aclose()
    assert not (tmp_path / "new").exists()


async def test_the_first_entry_of_any_kind_makes_the_file(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path / "new", "/w", parent_session="/p.jsonl")
    model = await session.append(model_entry(session))
    assert len(session.path.read_bytes().splitlines()) == 2
    first = await session.append(user_entry(session))
    lines = [json.loads(text) for text in session.path.read_text().splitlines()]
    assert [entry["type"] for entry in lines] == ["session", "model_change", "message"]
    assert lines[0]["id"] == session.session_id
    assert lines[0]["parentSession"] == "/p.jsonl"
    assert (lines[1]["parentId"], lines[2]["parentId"]) == (None, model.id)
    assert first.parent_id == model.id
    assert session.path.stat().st_mode & 0o077 == 0
    await session.sync()
    await session.aclose()


async def test_an_entry_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    for number in range(5):
        stored = await session.append(user_entry(session, str(number)))
        assert session.path.read_bytes().endswith(stored.raw + b"\n")
        assert session.leaf_id == stored.id
    await session.aclose()


async def test_a_reopened_session_has_the_same_branch_and_goes_on(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w", session_id="my.session")
    await session.append_many([user_entry(session, "a"), message_entry(session, assistant("b"))])
    before = ids(session)
    await session.aclose()
    again = await JsonlSession.open(session.path)
    assert (again.session_id, again.cwd, again.message_count) == ("my.session", "/w", 2)
    assert ids(again) == before
    added = await again.append(user_entry(again, "c"))
    assert added.parent_id == before[-1]
    await again.aclose()
    await again.aclose()


async def test_an_announced_id_is_never_given_to_another_entry(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    announced = {session.new_id() for _ in range(200)}
    assert len(announced) == 200
    assert all(len(entry_id) == 8 and int(entry_id, 16) >= 0 for entry_id in announced)
    await session.append(user_entry(session))
    assert not announced & set(ids(session))
    await session.aclose()


async def test_an_id_that_is_announced_or_stored_is_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    drawn = iter(["aaaaaaaa", "aaaaaaaa", "bbbbbbbb", "bbbbbbbb", "aaaaaaaa", "cccccccc"])
    monkeypatch.setattr("pi_rpc.session._tree.random_hex", lambda size: next(drawn))
    await session.append(user_entry(session))
    assert session.new_id() == "bbbbbbbb"
    assert session.new_id() == "cccccccc"
    assert ids(session) == ["aaaaaaaa"]
    await session.aclose()


async def test_a_taken_id_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    entry = user_entry(session)
    await session.append(entry)
    content = session.path.read_bytes()
    with pytest.raises(ValueError, match="taken"):
        await session.append_many([user_entry(session), entry])
    assert session.path.read_bytes() == content
    assert ids(session) == [entry.id]
    await session.aclose()


async def test_a_leaf_entry_moves_the_leaf_below_its_target(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    a, b = await session.append_many([user_entry(session, "a"), user_entry(session, "b")])
    leaf = await session.append(leaf_entry(session, a.id))
    assert (leaf.parent_id, session.leaf_id) == (a.id, a.id)
    c = await session.append(user_entry(session, "c"))
    assert ids(session) == [a.id, c.id]
    await session.append(leaf_entry(session, None))
    assert session.branch() == []
    await session.aclose()
    again = await JsonlSession.open(session.path)
    assert again.leaf_id is None
    d = await again.append(user_entry(again, "d"))
    assert d.parent_id is None
    assert [stored.id for stored in again.branch(b.id)] == [a.id, b.id]
    with pytest.raises(EntryNotFoundError):
        again.branch("missing")
    with pytest.raises(EntryNotFoundError):
        await again.append(leaf_entry(again, "missing"))
    await again.aclose()


async def test_an_entry_of_any_type_follows_a_file_of_pi(tmp_path: Path) -> None:
    path = tmp_path / "pi.jsonl"
    original = FIXTURE.read_bytes()
    path.write_bytes(original)
    session = await JsonlSession.open(path)
    assert (session.name, session.message_count, session.notes) == ("Reading the README", 14, [])
    leaf = session.leaf_id
    summary = BranchSummaryEntry(**place(session), from_id="root", summary="s")
    stored = [
        await session.append(entry)
        for entry in (user_entry(session), custom_entry(session, {"a": None}), summary)
    ]
    await session.aclose()
    assert stored[0].parent_id == leaf
    assert path.read_bytes() == original + b"".join(entry.raw + b"\n" for entry in stored)


async def test_a_torn_last_line_is_kept_and_the_next_append_starts_on_a_new_line(
    tmp_path: Path,
) -> None:
    torn = line("b", "a")[:-20]
    path = written(tmp_path, HEADER, line("a", None), torn)
    session = await JsonlSession.open(path)
    assert ids(session) == ["a"]
    added = await session.append(user_entry(session))
    assert added.parent_id == "a"
    await session.aclose()
    assert path.read_bytes() == HEADER + line("a", None) + torn + b"\n" + added.raw + b"\n"
    again = await JsonlSession.open(path)
    assert ids(again) == ["a", added.id]
    assert "1 lines" in again.notes[0]
    await again.aclose()


async def test_a_last_line_that_only_lacks_its_end_counts(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, line("a", None), line("b", "a")[:-1])
    session = await JsonlSession.open(path)
    added = await session.append(user_entry(session))
    assert ids(session) == ["a", "b", added.id]
    await session.aclose()
    again = await JsonlSession.open(path)
    assert ids(again) == ["a", "b", added.id]
    assert again.notes == []
    await again.aclose()


async def test_malformed_lines_are_skipped_and_kept(tmp_path: Path) -> None:
    garbage = [b"garbage\n", b"\n", b'{"half":\n', b"\xff\xfe\x00\n", b"5\n", b"   \n"]
    content = HEADER + garbage[0] + line("a", None) + b"".join(garbage) + line("b", "a")
    path = written(tmp_path, content)
    session = await JsonlSession.open(path)
    assert ids(session) == ["a", "b"]
    assert "5 lines" in session.notes[0]
    added = await session.append(user_entry(session))
    await session.aclose()
    assert path.read_bytes() == content + added.raw + b"\n"


async def test_crlf_line_ends_are_understood(tmp_path: Path) -> None:
    content = (HEADER + line("a", None) + line("b", "a")).replace(b"\n", b"\r\n")
    session = await JsonlSession.open(written(tmp_path, content))
    assert ids(session) == ["a", "b"]
    assert not any(stored.raw.endswith(b"\r") for stored in session.entries())
    await session.aclose()


async def test_lines_of_ten_megabytes_are_read_and_written(tmp_path: Path) -> None:
    text = "é" * 5_000_000
    path = written(tmp_path, HEADER, line("a", None, text), line("b", "a"))
    session = await JsonlSession.open(path)
    assert texts(session) == [text, "x"]
    await session.append(user_entry(session, text))
    await session.aclose()
    again = await JsonlSession.open(path, read_only=True)
    assert texts(again) == [text, "x", text]
    await again.aclose()


async def test_of_entries_with_one_id_the_first_counts(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, line("a", None, "1"), line("b", "a", "2"), line("a", "b", "3"))
    session = await JsonlSession.open(path)
    assert texts(session) == ["1", "2"]
    await session.aclose()


async def test_a_missing_parent_ends_the_branch(tmp_path: Path) -> None:
    session = await JsonlSession.open(
        written(tmp_path, HEADER, line("a", None), line("b", "gone"), line("c", "b"))
    )
    assert ids(session) == ["b", "c"]
    await session.aclose()


@pytest.mark.parametrize(
    "lines",
    [
        [line("a", "a")],
        [line("a", "b"), line("b", "a")],
        [line("a", "c"), line("b", "a"), line("c", "b")],
    ],
)
async def test_a_cycle_is_broken(tmp_path: Path, lines: list[bytes]) -> None:
    session = await JsonlSession.open(written(tmp_path, HEADER, *lines))
    assert sorted(ids(session)) == ["a", "b", "c"][: len(lines)]
    added = await session.append(user_entry(session))
    assert ids(session)[-1] == added.id
    await session.aclose()


async def test_an_empty_file_is_given_a_header(tmp_path: Path) -> None:
    path = tmp_path / "2026-01-01T00-00-00-000Z_my-id.jsonl"
    path.touch()
    session = await JsonlSession.open(path, cwd="/w")
    assert (session.session_id, session.cwd) == ("my-id", "/w")
    assert json.loads(path.read_text())["type"] == "session"
    await session.append(user_entry(session))
    await session.aclose()
    again = await JsonlSession.open(path)
    assert (again.session_id, again.message_count) == ("my-id", 1)
    await again.aclose()


async def test_an_empty_file_opened_to_look_stays_empty(tmp_path: Path) -> None:
    path = written(tmp_path)
    session = await JsonlSession.open(path, read_only=True)
    assert session.branch() == []
    await session.aclose()
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    "content",
    [
        b"not a session\n",
        b"{}\n" + HEADER,
        line("a", None) + HEADER,
        b'{"type":"session","id":5}\n',
        b"\n\n",
        b"\x00" * 3_000_000,
        b"x" * 1_100_000 + b"\n" + HEADER,
    ],
    ids=["text", "object", "entry first", "bad id", "blank", "zeros", "header too late"],
)
async def test_a_file_without_a_header_is_refused_and_left_untouched(
    tmp_path: Path, content: bytes
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(SessionCorruptError) as caught:
        await JsonlSession.open(path)
    assert caught.value.kind == "sessionCorrupt"
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["s.jsonl"]


async def test_malformed_lines_may_stand_before_the_header(tmp_path: Path) -> None:
    session = await JsonlSession.open(written(tmp_path, b"\ngarbage\n", HEADER, line("a", None)))
    assert ids(session) == ["a"]
    await session.aclose()


async def test_a_file_of_a_later_version_is_opened_to_look(tmp_path: Path) -> None:
    content = HEADER.replace(b'"version":3', b'"version":4') + line("a", None)
    path = written(tmp_path, content)
    session = await JsonlSession.open(path)
    assert session.read_only
    assert "version 4" in session.notes[0]
    with pytest.raises(SessionReadOnlyError, match="version 4"):
        await session.append(user_entry(session))
    other = await JsonlSession.open(path)  # nobody holds a lock on what nobody writes
    await other.aclose()
    await session.aclose()
    assert path.read_bytes() == content


async def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    for path in (tmp_path / "none.jsonl", tmp_path / "folder" / "none.jsonl"):
        for read_only in (False, True):
            with pytest.raises(SessionNotFoundError):
                await JsonlSession.open(path, read_only=read_only)
    assert os.listdir(tmp_path) == []


async def test_a_folder_or_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("pipe.jsonl", "folder.jsonl"):
        with pytest.raises(SessionStorageError):
            await JsonlSession.open(tmp_path / name)


async def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    await session.append(user_entry(session))
    with pytest.raises(SessionLockedError) as caught:
        await JsonlSession.open(session.path)
    assert caught.value.pid == os.getpid()
    (tmp_path / "link.jsonl").symlink_to(session.path)
    with pytest.raises(SessionLockedError):
        await JsonlSession.open(tmp_path / "link.jsonl")
    reader = await JsonlSession.open(session.path, read_only=True)
    with pytest.raises(SessionReadOnlyError):
        await reader.append(user_entry(reader))
    await reader.aclose()
    await session.aclose()
    writer = await JsonlSession.open(session.path)
    await writer.aclose()
    assert [name for name in os.listdir(tmp_path) if name.endswith(".lock")] == []


async def test_a_closed_session_stays_readable_and_refuses_entries(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    await session.append(user_entry(session))
    await session.aclose()
    assert len(session.branch()) == 1
    with pytest.raises(SessionReadOnlyError):
        await session.append(user_entry(session))


async def test_a_failed_write_leaves_file_and_memory_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    kept = await session.append(user_entry(session))
    content = session.path.read_bytes()

    def full_disk(fd: int, data: bytes) -> None:
        os.write(fd, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    entries = [user_entry(session, "x" * 100), user_entry(session)]
    with monkeypatch.context() as patch:
        patch.setattr(_file, "write_all", full_disk)
        with pytest.raises(SessionStorageError, match="No space left") as caught:
            await session.append_many(entries)
    assert caught.value.kind == "storage"
    assert session.path.read_bytes() == content
    assert ids(session) == [kept.id]
    stored = await session.append_many(entries)
    assert ids(session) == [kept.id, stored[0].id, stored[1].id]
    await session.aclose()


async def test_what_cannot_be_taken_back_stays_a_line_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    await session.append(user_entry(session))

    def full_disk(fd: int, data: bytes) -> None:
        os.write(fd, data[:10])
        raise OSError(28, "No space left on device")

    def no_truncate(fd: int, length: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(_file, "write_all", full_disk)
        patch.setattr(os, "ftruncate", no_truncate)
        with pytest.raises(SessionStorageError):
            await session.append(user_entry(session))
    await session.refresh()
    await session.append(user_entry(session))
    expected = ids(session)
    assert len(expected) == 2
    await session.aclose()
    again = await JsonlSession.open(session.path)
    assert ids(again) == expected
    await again.aclose()


async def test_a_file_that_cannot_be_made_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    entry = user_entry(session)

    def full_disk(fd: int, data: bytes) -> None:
        os.write(fd, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_file, "write_all", full_disk)
        with pytest.raises(SessionStorageError):
            await session.append(entry)
    assert os.listdir(tmp_path) == []
    assert session.branch() == []
    await session.append(entry)
    await session.aclose()
    assert len(session.path.read_bytes().splitlines()) == 2


async def test_a_file_of_the_same_name_is_not_overwritten(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    session.path.write_text("mine")
    with pytest.raises(SessionStorageError):
        await session.append(user_entry(session))
    assert session.path.read_text() == "mine"
    await session.aclose()


async def test_a_cancelled_append_is_whole_on_disk_and_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    await session.append(user_entry(session))
    real = _file.write_all
    entry = user_entry(session, "written all the same")
    async with anyio.create_task_group() as tasks:

        def cancel_and_write(fd: int, data: bytes) -> None:
            anyio.from_thread.run_sync(tasks.cancel_scope.cancel)
            real(fd, data)

        monkeypatch.setattr(_file, "write_all", cancel_and_write)
        tasks.start_soon(session.append, entry)
    monkeypatch.undo()
    assert session.leaf_id == entry.id
    await session.aclose()
    again = await JsonlSession.open(session.path)
    assert again.leaf_id == entry.id
    await again.aclose()


async def test_concurrent_appends_form_one_branch(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(session.append, user_entry(session, str(number)))
    assert sorted(texts(session), key=int) == [str(number) for number in range(20)]
    await session.aclose()
    again = await JsonlSession.open(session.path)
    assert ids(again) == ids(session)
    await again.aclose()


async def test_a_flush_reaches_the_file_and_at_first_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    flushed: list[str] = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda fd: flushed.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"),
    )
    await session.sync()
    assert flushed == []
    await session.append(user_entry(session))
    await session.sync()
    assert flushed == ["file", "folder"]
    await session.sync()
    await session.append(user_entry(session))
    await session.sync()
    assert flushed == ["file", "folder", "file"]
    await session.aclose()


async def test_a_failed_flush_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    await session.append(user_entry(session))

    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(SessionStorageError):
            await session.sync()
    await session.sync()
    await session.aclose()


async def test_a_disk_that_hangs_is_given_up_on_and_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from pi_rpc.session import _opening

    session = await JsonlSession.create(tmp_path, "/w")
    await session.append(user_entry(session))
    real, answered, done = _file.write_all, threading.Event(), threading.Event()

    def slow(fd: int, data: bytes) -> None:
        assert answered.wait(DEADLINE_S)
        real(fd, data)
        done.set()

    late = user_entry(session, "late")
    with monkeypatch.context() as patch:
        patch.setattr(_file, "write_all", slow)
        patch.setattr(_opening, "_DISK_DEADLINE_S", 0.05)
        with pytest.raises(SessionStorageError, match="did not answer"):
            await session.append(late)
        assert session.leaf_id != late.id
        answered.set()
        assert await anyio.to_thread.run_sync(done.wait, 20)
    assert await session.refresh() == "grown"
    assert session.leaf_id == late.id
    await session.append(user_entry(session))
    assert isinstance(session.branch()[1].entry, MessageEntry)
    await session.aclose()
