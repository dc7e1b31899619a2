"""Another program writes to the file while a session has it open."""

import os
from pathlib import Path

import pytest

from pi_rpc.session import (
    ForeignChangeError,
    JsonlSession,
    SessionCorruptError,
    SessionReadOnlyError,
    SessionStorageError,
    _file,
)
from tests.session.builders import ids, texts, user_entry
from tests.session.test_store import HEADER, line

pytestmark = pytest.mark.anyio


async def opened(tmp_path: Path, *lines: bytes) -> JsonlSession:
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEADER + b"".join(lines or [line("a", None)]))
    return await JsonlSession.open(path)


def extend(session: JsonlSession, data: bytes) -> None:
    with session.path.open("ab") as file:
        file.write(data)


async def test_nothing_changed_is_unchanged(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    assert await session.refresh() == "unchanged"
    await session.append(user_entry(session))
    assert await session.refresh() == "unchanged"
    await session.aclose()


async def test_a_session_without_a_file_is_unchanged(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    assert await session.refresh() == "unchanged"
    await session.aclose()


async def test_a_strict_append_to_a_grown_file_writes_nothing(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    extend(session, line("f", "a", "foreign"))
    content = session.path.read_bytes()
    entry = user_entry(session)
    with pytest.raises(ForeignChangeError) as caught:
        await session.append(entry)
    assert caught.value.change == "grown"
    assert session.path.read_bytes() == content
    assert ids(session) == ["a"]
    assert await session.refresh() == "grown"
    assert (await session.append(entry)).parent_id == "f"
    assert ids(session) == ["a", "f", entry.id]
    await session.aclose()


async def test_a_lenient_append_goes_below_what_was_added(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    extend(session, line("f", "a", "foreign"))
    stored = await session.append(user_entry(session), strict=False)
    assert stored.parent_id == "f"
    assert texts(session) == ["x", "foreign", "hello"]
    await session.aclose()


async def test_only_the_new_lines_of_a_grown_file_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(tmp_path, *(line(str(n), None, "x" * 1000) for n in range(3000)))
    sizes: list[int] = []
    real = os.read

    def counted(fd: int, size: int) -> bytes:
        data = real(fd, size)
        sizes.append(len(data))
        return data

    extend(session, line("f", None))
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", counted)
        assert await session.refresh() == "grown"
    assert sum(sizes) < 10_000
    assert session.leaf_id == "f"
    await session.aclose()


async def test_a_line_that_another_program_finishes_later_is_read_then(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    foreign = line("f", "a", "foreign")
    extend(session, foreign[:30])
    assert await session.refresh() == "unchanged"
    extend(session, foreign[30:])
    assert await session.refresh() == "grown"
    assert ids(session) == ["a", "f"]
    assert session.notes == []
    await session.append(user_entry(session))
    await session.aclose()


async def test_a_line_end_that_another_program_puts_in_changes_nothing(tmp_path: Path) -> None:
    session = await opened(tmp_path, line("a", None)[:-1])
    extend(session, b"\n")
    assert await session.refresh() == "unchanged"
    added = await session.append(user_entry(session))
    assert session.path.read_bytes() == HEADER + line("a", None) + added.raw + b"\n"
    await session.aclose()


async def test_a_file_put_in_its_place_is_read_anew(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    other = tmp_path / "other"
    other.write_bytes(HEADER + line("z", None, "replaced") + line("y", "z"))
    other.replace(session.path)
    with pytest.raises(ForeignChangeError) as caught:
        await session.append(user_entry(session))
    assert caught.value.change == "replaced"
    assert await session.refresh() == "replaced"
    assert ids(session) == ["z", "y"]
    added = await session.append(user_entry(session))
    assert session.path.read_bytes().endswith(line("y", "z") + added.raw + b"\n")
    await session.aclose()


async def test_a_file_that_shrank_is_read_anew(tmp_path: Path) -> None:
    session = await opened(tmp_path, line("a", None), line("b", "a"))
    session.path.write_bytes(HEADER + line("a", None))
    with pytest.raises(ForeignChangeError):
        await session.append(user_entry(session))
    assert await session.refresh() == "replaced"
    assert ids(session) == ["a"]
    await session.aclose()


async def test_a_file_that_was_emptied_is_not_begun_afresh(tmp_path: Path) -> None:
    session = await opened(tmp_path, line("a", None), line("b", "a"))
    content = session.path.read_bytes()
    reader = await JsonlSession.open(session.path, read_only=True)
    session.path.write_bytes(b"")
    for strict in (True, False):
        with pytest.raises((ForeignChangeError, SessionStorageError)):
            await session.append(user_entry(session), strict=strict)
    for one in (session, reader):
        with pytest.raises(SessionStorageError, match="emptied") as caught:
            await one.refresh()
        assert caught.value.kind == "storage"
        assert one.leaf_id == "b"
    assert session.path.read_bytes() == b""
    session.path.write_bytes(content)
    assert await session.refresh() == "unchanged"
    added = await session.append(user_entry(session))
    assert ids(session) == ["a", "b", added.id]
    assert session.path.read_bytes() == content + added.raw + b"\n"
    for one in (session, reader):
        await one.aclose()


async def test_an_emptied_file_that_held_no_entry_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(HEADER)
    session = await JsonlSession.open(path)
    path.write_bytes(b"")
    assert await session.refresh() == "replaced"
    added = await session.append(user_entry(session))
    assert session.session_id == "s1"
    await session.aclose()
    again = await JsonlSession.open(path)
    assert (again.session_id, ids(again)) == ("s1", [added.id])
    await again.aclose()


@pytest.mark.parametrize("cut", [1, 40])
async def test_a_file_cut_off_in_its_header_is_refused_and_left_as_it_is(
    tmp_path: Path, cut: int
) -> None:
    session = await opened(tmp_path)
    os.truncate(session.path, cut)
    with pytest.raises(SessionCorruptError):
        await session.refresh()
    with pytest.raises(ForeignChangeError):
        await session.append(user_entry(session))
    assert session.path.read_bytes() == HEADER[:cut]
    assert session.leaf_id == "a"
    await session.aclose()


@pytest.mark.parametrize("grown", [True, False], ids=["after an append", "as it was opened"])
async def test_a_file_written_anew_in_place_is_read_anew_though_it_is_longer(
    tmp_path: Path, grown: bool
) -> None:
    session = await opened(tmp_path)
    if grown:
        await session.append(user_entry(session))
    anew = HEADER + line("z", None, "replaced" * 100) + line("y", "z", "more" * 100)
    session.path.write_bytes(anew)
    with pytest.raises(ForeignChangeError) as caught:
        await session.append(user_entry(session))
    assert caught.value.change == "replaced"
    assert await session.refresh() == "replaced"
    assert ids(session) == ["z", "y"]
    added = await session.append(user_entry(session))
    assert session.path.read_bytes() == anew + added.raw + b"\n"
    await session.aclose()


async def test_a_new_file_written_anew_in_place_is_read_anew(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, "/w", session_id="s1")
    await session.append(user_entry(session))
    session.path.write_bytes(HEADER + line("z", None, "replaced" * 100))
    assert await session.refresh() == "replaced"
    assert ids(session) == ["z"]
    await session.aclose()


async def test_a_file_that_is_gone_is_a_storage_failure(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    session.path.unlink()
    with pytest.raises(SessionStorageError, match="put it back, or begin a new session"):
        await session.append(user_entry(session))
    with pytest.raises(SessionStorageError):
        await session.refresh()
    assert ids(session) == ["a"]
    assert not session.path.exists()
    await session.aclose()


async def test_a_file_that_became_no_session_leaves_memory_as_it_was(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    other = tmp_path / "other"
    other.write_text("nonsense\n")
    other.replace(session.path)
    with pytest.raises(SessionCorruptError):
        await session.refresh()
    assert ids(session) == ["a"]
    with pytest.raises(ForeignChangeError):
        await session.append(user_entry(session))
    assert session.path.read_text() == "nonsense\n"
    await session.aclose()


async def test_a_file_that_became_newer_than_us_is_only_read(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    other = tmp_path / "other"
    other.write_bytes(HEADER.replace(b'"version":3', b'"version":9') + line("z", None))
    other.replace(session.path)
    assert await session.refresh() == "replaced"
    with pytest.raises(SessionReadOnlyError, match="version 9"):
        await session.append(user_entry(session))
    await session.aclose()


async def test_a_write_that_crosses_ours_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(tmp_path)
    real = _file.write_all

    def crossing(fd: int, data: bytes) -> None:
        extend(session, line("f", "a", "foreign"))
        real(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(_file, "write_all", crossing)
        ours = await session.append(user_entry(session))
    with pytest.raises(ForeignChangeError):
        await session.append(user_entry(session))
    assert await session.refresh() == "grown"
    assert {stored.id for stored in session.entries()} == {"a", "f", ours.id}
    await session.append(user_entry(session))
    await session.aclose()


async def test_what_another_program_wrote_is_not_taken_back_with_our_failed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(tmp_path)

    def crossing(fd: int, data: bytes) -> None:
        extend(session, line("f", "a", "foreign"))
        os.write(fd, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_file, "write_all", crossing)
        with pytest.raises(SessionStorageError):
            await session.append(user_entry(session))
    assert line("f", "a", "foreign") in session.path.read_bytes()
    assert await session.refresh() == "grown"
    assert ids(session) == ["a", "f"]
    added = await session.append(user_entry(session))
    await session.aclose()
    again = await JsonlSession.open(session.path)
    assert ids(again) == ["a", "f", added.id]
    await again.aclose()


async def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    writer = await opened(tmp_path)
    reader = await JsonlSession.open(writer.path, read_only=True)
    await writer.append(user_entry(writer))
    assert await reader.refresh() == "grown"
    assert ids(reader) == ids(writer)
    await reader.aclose()
    await writer.aclose()


async def test_an_announced_id_stays_reserved_when_the_file_is_read_anew(tmp_path: Path) -> None:
    session = await opened(tmp_path)
    entry = user_entry(session)
    session.path.write_bytes(HEADER)
    assert await session.refresh() == "replaced"
    assert entry.id in session._tree._reserved
    assert (await session.append(entry)).parent_id is None
    await session.aclose()


async def test_an_old_file_that_grows_is_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    old = b'{"type":"message","timestamp":"t","message":{"role":"user","content":"a"}}\n'
    path.write_bytes(HEADER.replace(b'"version":3,', b"") + old)
    session = await JsonlSession.open(path, read_only=True)
    first = ids(session)
    extend(session, old)
    assert await session.refresh() == "grown"
    assert len(ids(session)) == 2
    assert ids(session)[:1] == first
    await session.aclose()
