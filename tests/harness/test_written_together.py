"""What belongs together is stored in one write: a disk that fails never leaves half of it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import Diagnostic, EntryAppended, MessageEnd, MessageStart
from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run, RunOutcome
from pi_rpc.harness.settings import CompactionSettings, RetrySettings
from pi_rpc.llm.scripted import error, text
from pi_rpc.session import JsonlSession, SessionStorage, SessionStorageError, build_context
from pi_rpc.session.entries import CustomEntry, Entry
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.stored import StoredEntry
from tests.harness.hall import DEADLINE_S, Hall, hall
from tests.session.builders import ids

pytestmark = pytest.mark.anyio


class Failing(MemorySession):
    """Counts writes; from one of them on there is no room."""

    def __init__(self) -> None:
        super().__init__(Path.cwd())
        self.room = 1_000
        self.batches: list[list[str]] = []

    async def append_many(
        self, entries: Iterable[Entry], *, strict: bool = True
    ) -> list[StoredEntry]:
        if self.room == 0:
            raise SessionStorageError("the disk is full")
        self.room -= 1
        await anyio.lowlevel.checkpoint()
        stored = await super().append_many(entries, strict=strict)
        self.batches.append([each.type for each in stored])
        return stored


async def settled(here: Hall, prompt: PromptInput | str = "go " * 40) -> RunOutcome:
    run = here.harness.prompt(PromptInput(prompt) if isinstance(prompt, str) else prompt)
    assert isinstance(run, Run)
    with anyio.fail_after(DEADLINE_S):
        return await run.wait()


def picture(session: SessionStorage) -> Any:
    return (
        [stored.raw for stored in session.entries()],
        ids(session),
        dict(session.labels),
        build_context(session.branch()),
        session.usage_totals(),
    )


async def test_a_move_its_summary_and_its_label_are_one_write_told_in_their_order() -> None:
    session = Failing()
    async with hall([[text("one")], [text("## Goal\nx")]], session=session) as here:
        await settled(here)
        first, old_leaf = session.branch()[0], session.leaf_id
        begun = len(here.heard)
        request = BranchRequest(first.id, summarize=True, label="left here")
        outcome = await here.harness.branch(request)
        assert session.batches[-1] == ["leaf", "branch_summary", "label"]
        told = [each for each in here.heard[begun:] if isinstance(each, EntryAppended)]
        assert [bytes(each.entry) for each in told] == [s.json for s in session.entries()[-3:]]
        assert outcome.summary_entry is not None
        assert outcome.leaf_id == session.leaf_id != old_leaf
        assert session.labels[outcome.summary_entry.id].text == "left here"
        assert ids(session)[-2:] == [outcome.summary_entry.id, outcome.leaf_id]
        assert ids(session)[0] == first.id


async def test_a_move_that_cannot_be_stored_leaves_the_session_as_it_was() -> None:
    session = Failing()
    async with hall([[text("one")], [text("## Goal\nx")]], session=session) as here:
        await settled(here)
        before, totals = picture(session), here.harness.totals.usage
        session.room = 0
        begun = len(here.heard)
        request = BranchRequest(session.branch()[0].id, summarize=True, label="left here")
        with pytest.raises(SessionStorageError):
            await here.harness.branch(request)
        assert picture(session) == before
        assert here.harness.totals.usage == totals
        assert not [each for each in here.heard[begun:] if isinstance(each, EntryAppended)]
        assert here.harness.phase == "idle"


@pytest.mark.parametrize("room", range(4))
async def test_a_compaction_that_cannot_be_stored_leaves_the_session_as_it_was(room: int) -> None:
    session = Failing()
    replies = [[text("one " * 40)], [text("two " * 40)], *[[text("## Goal\nx")]] * 4]
    async with hall(replies, session=session) as here:
        here.harness.configuration.compaction = CompactionSettings(keep_recent_tokens=10)
        await settled(here)
        await settled(here)
        before = picture(session)
        session.room = 0
        with pytest.raises(SessionStorageError):
            await here.harness.compact()
        assert picture(session) == before
        session.room = room
        if room:
            assert await here.harness.compact() is not None
            assert session.branch()[-1].type == "compaction"
            assert picture(session) != before


async def test_a_message_and_what_was_attached_to_it_are_one_write() -> None:
    session = Failing()
    attached = PromptInput("look", attachments=({"type": "text", "name": "n", "text": "t"},))
    async with hall([[text("one")]], session=session) as here:
        session.room = len(here.harness.configuration.unrecorded(build_context([])))
        outcome = await settled(here, attached)
        assert outcome.stop_reason == "error"
        assert not [each for each in session.entries() if each.type in ("message", "custom")]
        assert not here.of(MessageEnd)
        session.room = 1_000
        await settled(here, attached)
        assert ["message", "custom"] in session.batches
        kept = next(each.entry for each in session.entries() if each.type == "custom")
        assert isinstance(kept, CustomEntry)
        assert kept.parent_id == here.of(MessageEnd)[0].entry_id


async def test_a_failed_attempt_is_hidden_in_one_write() -> None:
    session = Failing()
    replies = [[error("busy", status=529)], [text("better")]]
    async with hall(replies, session=session) as here:
        here.harness.configuration.retries = RetrySettings(base_delay_ms=1)
        assert (await settled(here)).text == "better"
        assert ["context_edit"] in session.batches
        assert len(build_context(session.branch()).messages) == 2


@pytest.mark.parametrize("gone", [1, 2])
async def test_that_entries_are_gone_from_the_file_is_said(tmp_path: Path, gone: int) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    async with hall([[text("one")], [text("two")]], session=session) as here:
        await settled(here)
        lines = session.path.read_bytes().splitlines(keepends=True)
        session.path.write_bytes(b"".join(lines[:-gone]))
        assert (await settled(here)).text == "two"
        (said,) = here.of(Diagnostic)
        assert said.severity == "warning"
        assert "another program replaced" in said.message
        assert "gone" in said.message


async def test_a_session_whose_file_was_emptied_ends_its_runs_and_keeps_what_it_knows(
    tmp_path: Path,
) -> None:
    session = await JsonlSession.create(tmp_path, "/w")
    async with hall([[text("one")], [text("two")]], session=session) as here:
        await settled(here)
        content, branch = session.path.read_bytes(), ids(session)
        os.truncate(session.path, 0)
        outcome = await settled(here)
        assert outcome.stop_reason == "error"
        assert "emptied" in (outcome.error_message or "")
        assert len(here.of(MessageStart)) == 2
        assert ids(session) == branch
        assert session.path.read_bytes() == b""
        session.path.write_bytes(content)
        assert (await settled(here)).text == "two"
        assert ids(session)[: len(branch)] == branch
