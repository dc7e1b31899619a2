"""Sessions as a collection: found, forked and thrown away, in files and in memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.llm.messages import ImageBlock, TextBlock, UserMessage
from pi_rpc.session import (
    EntryNotFoundError,
    ForkTargetError,
    JsonlSession,
    JsonlSessionRepo,
    MemorySessionRepo,
    SessionLockedError,
    SessionNotFoundError,
    SessionRepo,
    SessionStorage,
    SessionStorageError,
    build_context,
)
from pi_rpc.session.entries import CompactionEntry, LabelEntry
from tests.deadlines import DEADLINE_S
from tests.session.builders import (
    assistant,
    ids,
    message_entry,
    model_entry,
    place,
    texts,
    user_entry,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["memory", "files"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> SessionRepo:
    return MemorySessionRepo() if request.param == "memory" else JsonlSessionRepo(tmp_path)


async def add(session: SessionStorage, *texts: str) -> list[str]:
    return [(await session.append(user_entry(session, text))).id for text in texts]


async def label(session: SessionStorage, target: str, text: str) -> str:
    entry = LabelEntry(**place(session), target_id=target, label=text)
    return (await session.append(entry)).id


async def test_what_is_made_is_found_listed_and_deleted(repo: SessionRepo) -> None:
    one = await repo.create("/one")
    two = await repo.create("/two", session_id="two")
    await add(one, "first words")
    await add(two, "other words")
    for session in (one, two):
        await session.aclose()
    page = await repo.list()
    assert {each.session_id for each in page.sessions} == {one.session_id, "two"}
    assert (await repo.list(cwd="/two")).sessions[0].session_id == "two"
    assert (await repo.list(query="FIRST")).sessions[0].first_message == "first words"
    first = await repo.list(limit=1)
    rest = await repo.list(limit=1, cursor=first.next_cursor)
    assert {each.session_id for each in [*first.sessions, *rest.sessions]} == {
        one.session_id,
        "two",
    }
    assert rest.next_cursor is None
    recent = await repo.most_recent(cwd="/one")
    assert recent is not None
    assert recent.session_id == one.session_id
    assert await repo.most_recent(cwd="/three") is None
    again = await repo.open("two", read_only=True)
    assert texts(again) == ["other words"]
    await again.aclose()
    await repo.delete("two")
    assert (await repo.list(cwd="/two")).sessions == []
    with pytest.raises(SessionNotFoundError):
        await repo.open("two")
    with pytest.raises(SessionNotFoundError):
        await repo.delete("two")


async def test_a_session_that_was_closed_goes_on_when_it_is_opened_again(repo: SessionRepo) -> None:
    session = await repo.create("/w")
    await add(session, "a")
    await session.aclose()
    again = await repo.open(session.session_id)
    await add(again, "b")
    assert texts(again) == ["a", "b"]
    await again.aclose()


async def test_a_fork_at_an_entry_keeps_the_path_to_it(repo: SessionRepo) -> None:
    source = await repo.create("/w")
    a, b, c = await add(source, "a", "b", "c")
    await label(source, b, "here")
    await label(source, c, "not there")
    fork = await repo.fork(source, b)
    assert (fork.text, fork.images) == (None, [])
    session = fork.session
    assert session.session_id != source.session_id
    assert texts(session) == ["a", "b"]
    assert ids(session)[:2] == [a, b]
    assert {key: value.text for key, value in session.labels.items()} == {b: "here"}
    assert session.labels[b].timestamp == source.labels[b].timestamp
    assert session.cwd == "/w"
    await add(session, "other")
    assert texts(session) == ["a", "b", "other"]
    assert texts(source) == ["a", "b", "c"]
    await session.aclose()
    await source.aclose()


async def test_a_fork_before_a_prompt_gives_it_back(repo: SessionRepo) -> None:
    source = await repo.create("/w")
    (a,) = await add(source, "a")
    image = ImageBlock(data="aGk=", mime_type="image/png")
    said = UserMessage(content=[TextBlock(text="say"), image], timestamp=1)
    b = await source.append(message_entry(source, said))
    reply = await source.append(message_entry(source, assistant("answer")))
    fork = await repo.fork(source, b.id, position="before", cwd="/other")
    assert (fork.text, fork.images) == ("say", [image])
    assert texts(fork.session) == ["a"]
    assert fork.session.cwd == "/other"
    await fork.session.aclose()
    first = await repo.fork(source, a, position="before")
    assert (first.text, list(first.session.entries())) == ("a", [])
    await first.session.aclose()
    for target in (reply.id, None):
        with pytest.raises(ForkTargetError):
            await repo.fork(source, target, position="before")
    with pytest.raises(EntryNotFoundError):
        await repo.fork(source, "missing")
    await source.aclose()


async def test_a_clone_of_the_leaf_tells_the_model_the_same(repo: SessionRepo) -> None:
    source = await repo.create("/w")
    a, *_ = await add(source, "a", "b")
    mark = await label(source, a, "mark")
    kept = await source.append(message_entry(source, assistant("kept")))
    await source.append(
        CompactionEntry(**place(source), summary="s", first_kept_entry_id=mark, tokens_before=1)
    )
    await source.append(model_entry(source))
    session = (await repo.fork(source)).session
    assert build_context(session.branch()).messages == build_context(source.branch()).messages
    assert [each.parent_id for each in session.branch()][:3] == [None, a, ids(source)[1]]
    assert kept.id in ids(session)
    assert mark not in ids(session)
    await session.aclose()
    await source.aclose()


async def test_a_fork_in_a_file_appears_whole_and_names_its_parent(tmp_path: Path) -> None:
    repo = JsonlSessionRepo(tmp_path)
    source = await repo.create("/w")
    await add(source, "a", "b")
    await label(source, source.branch()[0].id, "mark")
    fork = (await repo.fork(source)).session
    assert fork.path is not None
    lines = [json.loads(text) for text in fork.path.read_bytes().splitlines()]
    assert lines[0]["parentSession"] == str(source.path)
    assert [each["type"] for each in lines] == ["session", "message", "message", "label"]
    assert [each["parentId"] for each in lines[1:]] == [None, lines[1]["id"], lines[2]["id"]]
    with pytest.raises(SessionLockedError):
        await repo.open(fork.session_id)
    await fork.aclose()
    copied = await MemorySessionRepo().fork(fork)
    assert texts(copied.session) == ["a", "b"]
    await source.aclose()


async def test_a_fork_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pi_rpc.session import _file

    repo = JsonlSessionRepo(tmp_path)
    source = await repo.create("/w")
    await add(source, *"abc")
    before = sorted(tmp_path.rglob("*"))
    real, count = _file.write_all, 0

    def full_disk(fd: int, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise OSError(28, "No space left on device")
        real(fd, data)

    monkeypatch.setattr(_file, "write_all", full_disk)
    with pytest.raises(SessionStorageError, match="No space left"):
        await repo.fork(source)
    assert sorted(tmp_path.rglob("*")) == before
    await source.aclose()


async def test_a_deleted_session_is_in_the_trash_and_in_no_list(tmp_path: Path) -> None:
    repo = JsonlSessionRepo(tmp_path)
    content = []
    for _ in range(2):
        session = await repo.create("/w", session_id="same")
        await add(session, "x")
        name = "t_same.jsonl"
        await session.aclose()
        path = session.path.rename(session.path.with_name(name))
        content.append(path.read_bytes())
        await repo.delete("same")
        assert not path.exists()
    trash = tmp_path / "sessions" / ".trash" / "--w--"
    assert sorted(os.listdir(trash)) == ["t_same.1.jsonl", "t_same.jsonl"]
    assert (trash / "t_same.jsonl").read_bytes() == content[0]
    assert (trash / "t_same.1.jsonl").read_bytes() == content[1]
    assert (await repo.list()).sessions == []
    assert os.listdir(tmp_path / "sessions" / "--w--") == []


async def test_a_flat_folder_has_a_trash_of_its_own(tmp_path: Path) -> None:
    repo = JsonlSessionRepo(tmp_path / "agent", session_dir=tmp_path / "flat")
    session = await repo.create("/w")
    await add(session, "x")
    await session.aclose()
    await repo.delete(session.path)
    assert (tmp_path / "flat" / ".trash" / "flat" / session.path.name).exists()
    assert (await repo.list()).sessions == []


HOLDING = """
import sys, anyio
from pathlib import Path
from pi_rpc.session import JsonlSession
async def main():
    session = await JsonlSession.open(Path(sys.argv[1]))
    print("open", flush=True)
    sys.stdin.read()
    await session.aclose()
anyio.run(main)
"""


async def test_a_session_that_is_open_anywhere_is_not_deleted(tmp_path: Path) -> None:
    repo = JsonlSessionRepo(tmp_path)
    session = await repo.create("/w")
    await add(session, "x")
    with pytest.raises(SessionLockedError):
        await repo.delete(session.path)
    await session.aclose()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(session.path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"open\n"
    with pytest.raises(SessionLockedError) as caught:
        await repo.delete(session.session_id)
    assert caught.value.pid == other.pid
    assert session.path.exists()
    other.communicate(timeout=DEADLINE_S)
    await repo.delete(session.session_id)
    assert not session.path.exists()


async def test_a_storage_of_ones_own_can_be_forked(tmp_path: Path) -> None:
    class Wrapped:
        """Whatever is asked for, of another storage; branches are plain lists."""

        def __init__(self, inner: SessionStorage) -> None:
            self._inner = inner

        def branch(self, entry_id: str | None = None) -> list[Any]:
            return list(self._inner.branch(entry_id))

        def entries(self) -> list[Any]:
            return list(self._inner.entries())

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    inner = await MemorySessionRepo().create("/w")
    a, b = await add(inner, "a", "b")
    own: Any = Wrapped(inner)
    assert build_context(own.branch()) == build_context(inner.branch())
    fork = await JsonlSessionRepo(tmp_path).fork(own, b, position="before")
    assert isinstance(fork.session, JsonlSession)
    assert ids(fork.session) == [a]
    assert fork.text == "b"
    await fork.session.aclose()
