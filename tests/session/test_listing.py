"""Finding stored sessions and saying what is in them."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.session import JsonlSession, SessionNotFoundError, _summary
from pi_rpc.session.entries import SessionInfoEntry
from pi_rpc.session.listing import SummaryCache, find_session, list_sessions, writer_of
from pi_rpc.session.storage import SessionStorageError
from tests.session.builders import (
    FIXTURE,
    assistant,
    message_entry,
    name_entry,
    place,
    user,
    user_entry,
)

pytestmark = pytest.mark.anyio


def stored(
    folder: Path, session_id: str, *entries: dict[str, Any], cwd: str = "/w", mtime: int = 100
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"t_{session_id}.jsonl"
    header = {"type": "session", "version": 3, "id": session_id, "cwd": cwd}
    header["timestamp"] = "1970-01-01T00:00:01.000Z"
    lines = [header, *entries]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (mtime, mtime))
    return path


def said(role: str, content: Any, timestamp: Any = 5_000) -> dict[str, Any]:
    message = {"role": role, "content": content, "timestamp": timestamp}
    return {"type": "message", "id": os.urandom(4).hex(), "parentId": None, "message": message}


async def listed(*folders: Path, **options: Any) -> list[str]:
    return [item.session_id for item in (await list_sessions(folders, **options)).sessions]


async def test_a_session_is_summed_up(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w", parent_session="/p.jsonl")
    await session.append(message_entry(session, user("first\nline", timestamp=7_000)))
    await session.append(message_entry(session, assistant("reply", timestamp=9_000)))
    await session.append(name_entry(session, "old"))
    await session.append(name_entry(session, " new\nname "))
    (item,) = (await list_sessions([tmp_path])).sessions
    assert item.session_id == session.session_id
    assert item.path == session.path
    assert (item.cwd, item.name, item.first_message) == ("/w", "new name", "first\nline")
    last_said = session.branch()[1]
    assert (item.created, item.modified) == (session.header.timestamp, last_said.timestamp)
    assert (item.message_count, item.parent_session) == (2, "/p.jsonl")
    assert item.message_count == session.message_count
    assert item.name == session.name
    await session.append(SessionInfoEntry(**place(session)))
    (item,) = (await list_sessions([tmp_path])).sessions
    assert item.name is None
    await session.aclose()


async def test_a_session_was_used_when_its_last_message_was_stored_not_when_that_began(
    tmp_path: Path,
) -> None:
    reply = said("assistant", [], 2_000) | {"timestamp": "1970-01-01T00:01:00.000Z"}
    name = {"type": "session_info", "id": "n", "parentId": None, "name": "x"}
    name["timestamp"] = "1970-01-01T00:09:00.000Z"
    stored(tmp_path, "one", said("user", "x"), reply, name, mtime=600)
    stored(tmp_path, "two", said("user", "x"), said("toolResult", "x", 90_000), mtime=600)
    one, two = sorted((await list_sessions([tmp_path])).sessions, key=lambda each: each.session_id)
    assert one.modified == "1970-01-01T00:01:00.000Z"
    assert two.modified == "1970-01-01T00:01:30.000Z"


async def test_the_file_of_pi_is_summed_up(tmp_path: Path) -> None:
    (tmp_path / "pi.jsonl").write_bytes(FIXTURE.read_bytes())
    (item,) = (await list_sessions([tmp_path])).sessions
    assert (item.name, item.message_count) == ("Reading the README", 14)
    assert item.first_message.startswith("What does README.md say?")
    assert item.modified == "2026-03-01T10:00:29.000Z"


async def test_sessions_of_all_folders_come_last_used_first(tmp_path: Path) -> None:
    stored(tmp_path / "--a--", "one", said("user", "x", 500))  # no sooner than when it began
    stored(tmp_path / "--b--", "two", said("user", "x", 3_000))
    stored(tmp_path, "three", said("assistant", [], 2_000), said("system", "x", 9_000))
    stored(tmp_path, "four")  # when it began
    stored(tmp_path / "--c--" / "deeper", "no")
    assert await listed(tmp_path) == ["two", "three", "one", "four"]
    assert await listed(tmp_path / "--a--", tmp_path / "none") == ["one"]
    assert await listed() == []


async def test_what_is_no_session_is_left_out(tmp_path: Path) -> None:
    stored(tmp_path, "good", said("user", "x"))
    (tmp_path / "a.jsonl").write_text("garbage\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "c.jsonl").touch()
    (tmp_path / "d.jsonl").mkdir()
    (tmp_path / "e.jsonl").write_bytes(b"\x00" * 3_000_000)
    (tmp_path / "f.jsonl").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "g.jsonl")
    (tmp_path / "h.txt").write_bytes(FIXTURE.read_bytes())
    (tmp_path / "i.jsonl").write_bytes(b"x" * 1_100_000 + b"\n" + FIXTURE.read_bytes())
    assert await listed(tmp_path) == ["good"]


async def test_damaged_lines_do_not_hide_a_session(tmp_path: Path) -> None:
    odd = [
        said("user", None),
        said("user", 5),
        said("user", [5, {"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}]),
        said("user", "later"),
        {"type": "message", "id": "m", "message": 5, "name": []},
        {"type": "session_info", "id": "i", "name": 5},
        {"type": 5},
    ]
    path = stored(tmp_path, "odd", *odd)
    with path.open("ab") as file:
        file.write(b'\xff\xfe\n{"half":\n[1]\n')
        file.write(b'{"type":"message","id":"u","message":{"role":"user","content":"caf\xe9"}}\n')
        file.write(b'{"type":"session_info","id":"t","name":"torn"')
    (item,) = (await list_sessions([tmp_path])).sessions
    assert (item.first_message, item.message_count, item.name) == ("a b", 5, None)


BEYOND = ["1e400", "-1e400", "1e300", "9" * 30, "9" * 400, "9" * 5_000]
"""Numbers that are JSON, and too large for what reads them."""


@pytest.mark.parametrize("number", BEYOND, ids=len)
async def test_numbers_beyond_all_bounds_hide_neither_a_session_nor_its_folder(
    tmp_path: Path, number: str
) -> None:
    stored(tmp_path, "good", said("user", "x", 9_000))
    path = stored(tmp_path, "odd", said("user", "first", 7_000))
    with path.open("a") as file:
        file.write(
            f'{{"type":"message","id":"b","parentId":null,"timestamp":{number},'
            f'"message":{{"role":"user","content":"later","timestamp":{number}}}}}\n'
            f'{{"type":"session_info","id":"c","parentId":"b","timestamp":{number},"name":"n"}}\n'
        )
    good, odd = (await list_sessions([tmp_path])).sessions
    assert (good.session_id, odd.session_id) == ("good", "odd")
    assert (odd.name, odd.message_count, odd.first_message) == ("n", 2, "first")
    assert odd.modified_ms == 7_000
    assert await listed(tmp_path) == ["good", "odd"]


@pytest.mark.parametrize("number", BEYOND, ids=len)
async def test_a_header_with_such_a_number_is_listed(tmp_path: Path, number: str) -> None:
    header = '{"type":"session","version":3,"id":"odd","cwd":"/w","timestamp":%s,"more":%s}\n'
    (tmp_path / "a.jsonl").write_text(header % (number, number))
    assert await listed(tmp_path) == ["odd"]


async def test_only_sessions_of_a_directory_are_listed(tmp_path: Path) -> None:
    stored(tmp_path, "one", cwd="/w")
    stored(tmp_path, "two", cwd="/w/x")
    assert await listed(tmp_path, cwd="/w/") == ["one"]
    assert await listed(tmp_path, cwd=Path("/w/x")) == ["two"]


async def test_a_query_is_found_in_name_and_first_message(tmp_path: Path) -> None:
    info = {"type": "session_info", "id": "i", "name": "Straße der Namen"}
    stored(tmp_path, "one", info)
    stored(tmp_path, "two", said("user", "fix the PARSER"), said("user", "strasse"))
    assert await listed(tmp_path, query="STRASSE") == ["one"]
    assert await listed(tmp_path, query="parser") == ["two"]
    assert await listed(tmp_path, query="nothing") == []


async def test_pages_together_are_the_whole_list_once(tmp_path: Path) -> None:
    for number in range(23):
        stored(tmp_path, f"s{number:02}", said("user", "x", 1_000 * (number // 2)), mtime=number)
    everything = await listed(tmp_path)
    assert len(everything) == 23
    cache: SummaryCache = {}
    pages: list[str] = []
    cursor = None
    while True:
        page = await list_sessions([tmp_path], limit=5, cursor=cursor, cache=cache)
        pages += [item.session_id for item in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.sessions) == 5
    assert pages == everything


@pytest.mark.parametrize("cursor", ["", "x", "x|y", "|"])
async def test_a_cursor_of_somebody_else_is_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        await list_sessions([tmp_path], cursor=cursor)


async def test_files_that_cannot_be_on_the_page_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 60):
        stored(tmp_path, f"s{number:02}", said("user", "x", 1_000 * number), mtime=number)
    opened: list[Path] = []
    real = _summary.SessionFile.open

    def counted(path: Path, *, read_only: bool) -> Any:
        opened.append(path)
        return real(path, read_only=read_only)

    monkeypatch.setattr(_summary.SessionFile, "open", counted)
    assert await listed(tmp_path, limit=3) == ["s59", "s58", "s57"]
    assert len(opened) <= 8
    opened.clear()
    cache: SummaryCache = {}
    await listed(tmp_path, cache=cache)
    assert 45 <= len(opened) < 52  # the first list left a note of those that it read
    opened.clear()
    changed = stored(tmp_path, "s07", said("user", "x", 70_000), mtime=70)
    assert (await listed(tmp_path, cache=cache))[0] == "s07"
    assert opened == [changed]
    opened.clear()
    assert (await listed(tmp_path))[0] == "s07"
    assert opened == []
    changed.unlink()
    await listed(tmp_path, cache=cache)
    assert changed not in cache


async def test_a_file_that_could_not_be_read_once_is_listed_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, "good", said("user", "x"))
    unreadable = stored(tmp_path, "bad", said("user", "x"))
    real = _summary.SessionFile.open

    def refused(path: Path, *, read_only: bool) -> Any:
        if path == unreadable:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, read_only=read_only)

    cache: SummaryCache = {}
    with monkeypatch.context() as broken:
        broken.setattr(_summary.SessionFile, "open", refused)
        assert await listed(tmp_path, cache=cache) == ["good"]
    assert sorted(await listed(tmp_path, cache=cache)) == ["bad", "good"]
    assert sorted(await listed(tmp_path)) == ["bad", "good"]


async def test_a_folder_that_cannot_be_opened_for_want_of_descriptors_is_not_called_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, "good", said("user", "x"))

    def exhausted(path: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "scandir", exhausted)
    with pytest.raises(SessionStorageError, match="cannot be listed"):
        await listed(tmp_path)
    with pytest.raises(SessionStorageError, match="cannot be listed"):
        await find_session([tmp_path], "good")


async def test_a_session_is_found_by_its_id(tmp_path: Path) -> None:
    path = stored(tmp_path / "--a--", "wanted")
    misnamed = tmp_path / "other.jsonl"
    misnamed.write_bytes(stored(tmp_path / "x", "hidden").read_bytes())
    (tmp_path / "x" / "t_hidden.jsonl").unlink()
    (tmp_path / "u_wanted.jsonl").write_text("named like it, but none\n")
    assert await find_session([tmp_path], "wanted") == path
    assert await find_session([tmp_path], "hidden") == misnamed
    for session_id in ("missing", "", "../x", "w"):
        with pytest.raises(SessionNotFoundError):
            await find_session([tmp_path], session_id)


async def test_of_two_files_with_one_id_the_one_changed_last_is_found(tmp_path: Path) -> None:
    stored(tmp_path / "a", "twice", mtime=10)
    newer = stored(tmp_path / "b", "twice", mtime=20)
    assert await find_session([tmp_path], "twice") == newer


async def test_the_writer_of_a_session_is_known_while_it_writes(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    assert writer_of(session.path) is None
    await session.append(user_entry(session))
    assert writer_of(session.path) == os.getpid()
    await session.aclose()
    assert writer_of(session.path) is None
    sidecar = session.path.with_name(session.path.name + ".lock")
    sidecar.write_text("12345\n")  # of a process that was killed
    assert writer_of(session.path) is None
