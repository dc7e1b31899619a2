"""A session file that has two names is one file all the same."""

import os
from pathlib import Path

import pytest

from pi_rpc.session import ForeignChangeError, JsonlSession, SessionLockedError
from tests.session.builders import ids, user_entry
from tests.session.test_store import HEADER, line, written

pytestmark = pytest.mark.anyio


async def test_a_second_name_of_a_file_has_no_second_writer(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, line("a", None))
    other = tmp_path / "other.jsonl"
    other.hardlink_to(path)
    session = await JsonlSession.open(path)
    with pytest.raises(SessionLockedError) as caught:
        await JsonlSession.open(other)
    assert caught.value.pid == os.getpid()
    reader = await JsonlSession.open(other, read_only=True)
    added = await session.append(user_entry(session))
    assert await reader.refresh() == "grown"
    assert reader.leaf_id == added.id
    await reader.aclose()
    await session.aclose()
    writer = await JsonlSession.open(other)
    with pytest.raises(SessionLockedError):
        await JsonlSession.open(path)
    await writer.append(user_entry(writer))
    await writer.aclose()
    assert sorted(os.listdir(tmp_path)) == ["other.jsonl", "s.jsonl"]


async def test_a_name_in_another_folder_is_noticed_as_another_program_is(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, line("a", None))
    other = tmp_path / "elsewhere" / "s.jsonl"
    other.parent.mkdir()
    other.hardlink_to(path)
    one, two = await JsonlSession.open(path), await JsonlSession.open(other)
    first = await one.append(user_entry(one))
    with pytest.raises(ForeignChangeError):
        await two.append(user_entry(two))
    second = await two.append(user_entry(two), strict=False)
    assert ids(two) == ["a", first.id, second.id]
    await one.aclose()
    await two.aclose()
