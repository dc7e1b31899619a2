"""Everything is stored before it is told, and a store that fails ends the run and nothing else."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentSettled,
    EntryAppended,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    SavePoint,
    TurnEnd,
)
from pi_rpc.harness.configuration import session_info
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run
from pi_rpc.llm.scripted import text, tool_call, until
from pi_rpc.session.entries import CustomEntry, Entry, MessageEntry, SessionInfoEntry
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.storage import SessionStorageError
from pi_rpc.session.stored import StoredEntry
from tests.agent.stage import tool
from tests.harness.hall import DEADLINE_S, hall

pytestmark = pytest.mark.anyio


class Ledger(MemorySession):
    """Notes in what order entries were written, the disk was flushed and events were told."""

    def __init__(self) -> None:
        super().__init__(Path.cwd())
        self.lines: list[tuple[str, Any]] = []
        self.fails_at: int | None = None
        """From this append on, counted from 1, nothing can be written."""
        self.appends = 0

    async def append_many(
        self, entries: Iterable[Entry], *, strict: bool = True
    ) -> list[StoredEntry]:
        self.appends += 1
        if self.fails_at is not None and self.appends >= self.fails_at:
            raise SessionStorageError("the disk is full")
        await anyio.lowlevel.checkpoint()
        stored = await super().append_many(entries, strict=strict)
        self.lines += [("wrote", each.id) for each in stored]
        return stored

    async def sync(self) -> None:
        self.lines.append(("flushed", None))

    def hear(self, events: Iterable[AgentEvent]) -> None:
        for event in events:
            if isinstance(event, MessageEnd):
                self.lines.append(("told", event.entry_id))
            elif isinstance(event, EntryAppended):
                self.lines.append(("told", id_in(event)))
            elif isinstance(event, TurnEnd | SavePoint):
                self.lines.append(("told", type(event)))


def id_in(event: EntryAppended) -> str:
    found: str = msgspec.json.decode(bytes(event.entry))["id"]
    return found


async def settled(run: Any) -> Any:
    assert isinstance(run, Run)
    with anyio.fail_after(DEADLINE_S):
        return await run.wait()


async def test_every_entry_is_written_before_it_is_told_and_flushed_before_the_save_point() -> None:
    ledger = Ledger()
    replies = [[tool_call("look")], [text("done")]]
    async with hall(replies, session=ledger, tools=[tool("look")]) as here:
        here.harness.subscribe(ledger.hear)
        await settled(here.harness.prompt(PromptInput("go")))
    places = {line: number for number, line in enumerate(ledger.lines)}
    written = [what for kind, what in ledger.lines if kind == "wrote"]
    told = [what for kind, what in ledger.lines if kind == "told" and isinstance(what, str)]
    assert told == written == [each.id for each in ledger.branch()]
    assert len([each for each in ledger.branch() if each.type == "message"]) == 4
    for entry_id in written:
        assert places["wrote", entry_id] < places["told", entry_id]
    turns = [
        what if kind == "told" else kind
        for kind, what in ledger.lines
        if kind == "flushed" or what in {TurnEnd, SavePoint}
    ]
    assert turns == [TurnEnd, "flushed", SavePoint] * 2


async def test_ids_and_parents_that_are_told_are_those_in_the_session() -> None:
    ledger = Ledger()
    async with hall([[text("hello")]], session=ledger) as here:
        prompt = PromptInput("hi", client_message_id="mine")
        await settled(here.harness.prompt(prompt))
    entries = {each.id: each for each in ledger.branch()}
    starts, ends = here.of(MessageStart), here.of(MessageEnd)
    assert [each.message_id for each in starts] == [each.message_id for each in ends]
    for end in ends:
        assert end.entry_id == end.message_id
        assert entries[end.entry_id].parent_id == end.parent_id
    assert {each.message_id for each in here.of(MessageUpdate)} == {ends[1].message_id}
    assert [each.client_message_id for each in starts] == ["mine", UNSET]
    assert [each.client_message_id for each in ends] == ["mine", UNSET]


async def test_attachments_are_kept_right_behind_their_message() -> None:
    ledger = Ledger()
    note = {"type": "text", "text": "by the way"}
    async with hall([[text("ok")]], session=ledger) as here:
        await settled(here.harness.prompt(PromptInput("hi", attachments=[note])))
    kinds = [type(each.entry) for each in ledger.branch()]
    place = kinds.index(MessageEntry)
    kept = ledger.branch()[place + 1].entry
    assert isinstance(kept, CustomEntry)
    assert kept.custom_type == "pi-rpc.attachments"
    assert kept.data == [note]


async def test_while_a_run_goes_on_other_entries_wait_for_the_end_of_the_turn() -> None:
    gate, asked = anyio.Event(), anyio.Event()

    async def wait() -> None:
        asked.set()
        await gate.wait()

    ledger = Ledger()
    async with hall([[text("half"), until(wait), text(" done")]], session=ledger) as here:
        run = here.harness.prompt(PromptInput("go"))
        await asked.wait()
        await here.harness.rename("later")
        await here.harness.record(session_info("latest"))
        assert not any(isinstance(each.entry, SessionInfoEntry) for each in ledger.entries())
        gate.set()
        await settled(run)
        first, second = ledger.branch()[-2:]
        assert [first.entry.name, second.entry.name] == ["later", "latest"]  # type: ignore[union-attr]
        assert [each.had_pending_mutations for each in here.of(SavePoint)] == [True]
        await here.harness.rename("at once")
        assert ledger.branch()[-1].entry.name == "at once"  # type: ignore[union-attr]


async def test_what_waited_for_the_end_of_a_turn_is_kept_when_the_run_is_aborted() -> None:
    asked = anyio.Event()

    async def never() -> None:
        asked.set()
        await anyio.sleep_forever()

    ledger = Ledger()
    async with hall([[text("half"), until(never)]], session=ledger) as here:
        run = here.harness.prompt(PromptInput("go"))
        await asked.wait()
        await here.harness.rename("kept")
        await here.harness.abort()
        await settled(run)
        assert any(isinstance(each.entry, SessionInfoEntry) for each in ledger.branch())


@pytest.mark.parametrize("fails_at", range(1, 6))
async def test_a_store_that_fails_ends_the_run_with_its_error_and_settles_it_once(
    fails_at: int,
) -> None:
    ledger = Ledger()
    ledger.fails_at = fails_at
    replies = [[tool_call("look")], [text("done")], [text("again")]]
    async with hall(replies, session=ledger, tools=[tool("look")]) as here:
        here.harness.subscribe(ledger.hear)
        outcome = await settled(here.harness.prompt(PromptInput("go")))
        assert outcome.stop_reason == "error"
        assert "the disk is full" in outcome.error_message
        assert outcome.aborted is False
        assert [each.stop_reason for each in here.of(AgentSettled)] == ["error"]
        assert isinstance(here.heard[-1], AgentSettled)
        assert here.harness.phase == "idle"
        assert not here.harness.is_streaming
        told = [what for kind, what in ledger.lines if kind == "told" and isinstance(what, str)]
        assert told == [each.id for each in ledger.branch()]
        # The disk has room again: the session is as good as new.
        ledger.fails_at = None
        assert (await settled(here.harness.prompt(PromptInput("more")))).stop_reason == "stop"


async def test_a_message_that_could_not_be_stored_is_not_lost_from_the_queue() -> None:
    asked, gate = anyio.Event(), anyio.Event()

    async def wait() -> None:
        asked.set()
        await gate.wait()

    ledger = Ledger()
    replies = [[text("half"), until(wait)], [text("to the steer")]]
    async with hall(replies, session=ledger) as here:
        run = here.harness.prompt(PromptInput("go"))
        await asked.wait()
        here.harness.send("steer", PromptInput("turn left"))
        ledger.fails_at = ledger.appends + 2  # The reply, and no further.
        gate.set()
        assert (await settled(run)).stop_reason == "error"
        assert here.harness.queue.snapshot().steering == ["turn left"]
        assert here.of(QueueUpdate)[-1].steering == ["turn left"]
        ledger.fails_at = None
        assert (await settled(here.harness.continue_())).text == "to the steer"
        assert len(here.of(AgentEnd)) >= 1
