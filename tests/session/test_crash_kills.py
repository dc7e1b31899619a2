"""Processes are killed at any moment and at every call that changes a file.

Whatever was announced by then is there afterwards, the file is valid, and the session goes on.
"""

import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.session import JsonlSession, build_context
from tests.session.builders import assistant, message_entry, user_entry
from tests.session.crash_scenes import SCENES, file_in
from tests.session.crash_stage import Play, Played, Stage

pytestmark = pytest.mark.anyio

KILLED = -9
BY_TIME = 25
"""How often each scene is killed by the clock."""

OLD_ENTRIES: list[dict[str, Any]] = [
    {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "a"}},
    {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "b"}},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2, "tokensBefore": 5},
    {
        "type": "message",
        "timestamp": "t",
        "message": {"role": "hookMessage", "customType": "h", "content": "c" * 10_000},
    },
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def old_file(version: int) -> bytes:
    header = {"type": "session", "id": "old", "timestamp": "t", "cwd": "/w", "version": version}
    lines = [header if version > 1 else {**header, "version": None}]
    for number, entry in enumerate(OLD_ENTRIES):
        place = {"id": f"e{number}", "parentId": f"e{number - 1}" if number else None}
        named = {"firstKeptEntryId": "e0"} if entry["type"] == "compaction" else {}
        lines.append(entry if version == 1 else {**place, **named, **entry})
    return b"".join(json.dumps(each).encode() + b"\n" for each in lines)


async def conversation(folder: Path) -> None:
    session = await JsonlSession.create(folder, "/w", session_id="conversation")
    for number in range(3):
        await session.append(user_entry(session, f"question {number} " * 20))
        await session.append(message_entry(session, assistant(f"answer {number} " * 20)))
    await session.append(user_entry(session, "last"))
    await session.aclose()
    session.path.rename(file_in(folder))


async def prepared(scene: str, folder: Path) -> Path:
    """A folder as the scene finds it; after the first time a copy."""
    begin = folder.parent / "begin"
    if not begin.exists():
        begin.mkdir()
        if scene.startswith("migrate"):
            file_in(begin).write_bytes(old_file(int(scene[-1])))
        elif scene != "append":
            await conversation(begin)
    shutil.copytree(begin, folder)
    return folder


class Ledger:
    """What is known to be in the files of a folder: from the start, and since it was announced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[str, list[str]] = {}
        self.leaves: dict[str, str | None] = {}
        self.contents: dict[Path, bytes] = {}

    async def begin(self) -> None:
        for path in self.folder.glob("*.jsonl"):
            self.contents[path] = path.read_bytes()
            session = await JsonlSession.open(path, read_only=True)
            self.note(path.name, [each.raw.decode() for each in session.entries()], session.leaf_id)
            await session.aclose()

    def note(self, name: str, lines: list[str], leaf: str | None) -> None:
        self.lines.setdefault(name, []).extend(lines)
        self.leaves[name] = leaf

    def hear(self, played: Played) -> None:
        for told in played.told:
            self.note(Path(told["file"]).name, told["lines"], told["leaf"])

    async def check(self, crashes: int = 1) -> None:
        """Everything is there, in every file, and each can be gone on with."""
        # While a file is moved it has two names.
        files = {path.stat().st_ino: path for path in sorted(self.folder.rglob("*.jsonl"))}
        names = {path.name for path in files.values()}
        assert {name for name, lines in self.lines.items() if lines} <= names
        for path in files.values():
            await self.check_file(path)
            assert_valid(path, torn=crashes)
        for path, content in self.contents.items():
            if path.read_bytes()[: len(content)] != content:
                assert path.with_name(f"{path.name}.bak").read_bytes() == content
        left = {name for name in os.listdir(self.folder) if name.startswith("s.jsonl")}
        assert left <= {"s.jsonl", "s.jsonl.bak"}

    async def check_file(self, path: Path) -> None:
        session = await JsonlSession.open(path)
        assert not session.read_only, session.notes
        there = [stored.raw.decode() for stored in session.entries()]
        known = self.lines.setdefault(path.name, [])
        assert there[: len(known)] == known
        if len(there) == len(known) > 0:
            assert session.leaf_id == self.leaves[path.name]
        context = list(build_context(session.branch()).messages)
        entry = user_entry(session, "after the crash")
        stored = await session.append(entry)
        assert build_context(session.branch()).messages == [*context, entry.message]
        await session.aclose()
        now = [*there, stored.raw.decode()]
        again = await JsonlSession.open(path, read_only=True)
        assert [each.raw.decode() for each in again.entries()] == now
        assert again.leaf_id == stored.id
        await again.aclose()
        self.lines[path.name], self.leaves[path.name] = now, stored.id


def assert_valid(path: Path, torn: int) -> None:
    """Every line is an entry, but for as many as were cut off."""
    values, broken = [], 0
    for text in path.read_bytes().splitlines():
        try:
            values.append(json.loads(text))
        except ValueError:
            broken += 1
    assert broken <= torn
    assert (values[0]["type"], values[0]["version"]) == ("session", 3)
    assert all(each["id"] and each["type"] for each in values[1:])


@contextmanager
def explained(note: str) -> Iterator[None]:
    """What failed, so that it can be done again."""
    try:
        yield
    except BaseException as error:
        error.add_note(note)
        raise


async def whole(stage: Stage, scene: str, folder: Path) -> Played:
    """A play that nobody interrupts."""
    ledger = Ledger(await prepared(scene, folder))
    await ledger.begin()
    played = stage.play(Play(scene, str(folder)))
    assert played.status == 0
    assert len(played.told) > 3
    ledger.hear(played)
    await ledger.check(crashes=0)
    return played


@pytest.mark.parametrize("scene", SCENES)
async def test_nothing_announced_is_lost_when_the_clock_kills(
    tmp_path: Path, stage: Stage, scene: str
) -> None:
    seed = int(os.environ.get("PI_RPC_CRASH_SEED", random.SystemRandom().randrange(1 << 32)))
    moments = random.Random(seed)
    lasts = (await whole(stage, scene, tmp_path / "whole")).lasted_s
    kills, told = 0, set()
    ledger: Ledger | None = None
    for number in range(BY_TIME * 4):
        after_s = lasts * moments.random()
        with explained(f"PI_RPC_CRASH_SEED={seed}, {scene}, try {number} after {after_s:.5f} s"):
            # What is appended to goes on in the same file, crash after crash.
            if ledger is None or scene != "append":
                ledger = Ledger(await prepared(scene, tmp_path / str(number)))
                await ledger.begin()
            played = stage.play(Play(scene, str(ledger.folder), after_s=after_s))
            assert played.status in (0, KILLED)
            kills += played.status == KILLED
            # The machine may be faster or slower by now.
            lasts *= 0.9 if played.status == 0 else 1.0 if played.told else 1.1
            ledger.hear(played)
            told.add(len(played.told))
            await ledger.check(crashes=kills)
        if kills == BY_TIME:
            break
    assert kills == BY_TIME
    assert len(told) > 1, "the kills did not spread over the scene"


@pytest.mark.parametrize("scene", SCENES)
async def test_nothing_announced_is_lost_at_any_call_that_changes_a_file(
    tmp_path: Path, stage: Stage, scene: str
) -> None:
    calls = (await whole(stage, scene, tmp_path / "whole")).calls
    assert calls.count("write") > 3
    for number, name in enumerate(calls):
        for share in (0.5, 1.0) if name == "write" else (0.0, 1.0):
            with explained(f"{scene}, call {number} ({name}), {share:.0%} of it"):
                folder = tmp_path / "killed"
                ledger = Ledger(await prepared(scene, folder))
                await ledger.begin()
                played = stage.play(Play(scene, str(folder), call=number, share=share))
                assert played.status == KILLED
                ledger.hear(played)
                await ledger.check()
                shutil.rmtree(folder)
