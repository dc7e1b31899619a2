"""What a run begins with is its own once it is accepted, whatever others do meanwhile."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import AgentSettled, Diagnostic, MessageEnd, QueueUpdate
from pi_rpc.harness import persistence
from pi_rpc.harness.driving import resumable
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.persistence import message_entry
from pi_rpc.harness.queue import QueuedMessage
from pi_rpc.harness.runs import Limits, Run, RunOutcome
from pi_rpc.llm.scripted import text, until
from pi_rpc.session.entries import Entry, iso_now
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.storage import Change, SessionStorageError
from pi_rpc.session.stored import StoredEntry
from tests.harness.hall import DEADLINE_S, Hall, hall, said
from tests.session.builders import assistant

pytestmark = pytest.mark.anyio

LATER = "and this"


async def settled(run: Run) -> RunOutcome:
    with anyio.fail_after(DEADLINE_S):
        return await run.wait()


async def left_waiting(here: Hall) -> QueuedMessage:
    """A message that waits in an idle session, which ends in a finished answer."""
    harness = here.harness
    harness.configuration.limits = Limits(turns=1)
    run = harness.prompt("first")
    queued = harness.follow_up(LATER)
    assert isinstance(queued, QueuedMessage)
    assert (await settled(run)).stop_reason == "limit"
    harness.configuration.limits = Limits()
    assert not resumable(harness.session.branch())
    return queued


def unexpected(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


TAKEN_BACK: dict[str, Callable[[Hall, QueuedMessage], Any]] = {
    "queue/remove": lambda here, queued: here.harness.remove_queued(queued.item.id),
    "queue/clear": lambda here, _: here.harness.clear_queue(),
}


@pytest.mark.parametrize("how", TAKEN_BACK)
async def test_what_a_run_was_accepted_for_cannot_be_taken_back_before_it_begins(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hall([[text("one")], [text("two")]]) as here:
        queued = await left_waiting(here)
        run = here.harness.continue_()
        assert TAKEN_BACK[how](here, queued).items == []
        outcome = await settled(run)
        assert (outcome.stop_reason, outcome.text) == ("stop", "two")
        assert said(each.message for each in here.of(MessageEnd))[-2:] == [
            f"user: {LATER}",
            "assistant: two",
        ]
        assert queued.run is run
        assert unexpected(caplog) == []


async def test_a_run_that_begins_by_itself_keeps_what_it_begins_with_too() -> None:
    async with hall([[text("one")], [text("two")]]) as here:
        await settled(here.harness.prompt("first"))
        queued: list[Any] = []
        with pytest.raises(HarnessError, match="compact"):
            await here.harness.compact(on_start=lambda _: queued.append(here.harness.steer(LATER)))
        run = here.harness.run
        assert run is not None
        assert here.harness.remove_queued(queued[0].item.id).items == []
        assert (await settled(run)).text == "two"


async def test_an_abort_before_it_begins_gives_back_what_it_had_taken() -> None:
    async with hall([[text("one")]]) as here:
        queued = await left_waiting(here)
        run = here.harness.continue_()
        with anyio.fail_after(DEADLINE_S):
            stopped, queue = await here.harness.abort()
        assert (stopped, queue.follow_up) == (True, [LATER])
        assert (await settled(run)).stop_reason == "aborted"
        assert queued.removed
        assert here.of(QueueUpdate)[-1].items == []


async def test_an_abort_before_it_begins_that_keeps_the_queue_leaves_it_to_the_next() -> None:
    async with hall([[text("one")], [text("two")]]) as here:
        queued = await left_waiting(here)
        stopped = here.harness.continue_()
        with anyio.fail_after(DEADLINE_S):
            await here.harness.abort(clear_queue=False)
        assert (await settled(stopped)).stop_reason == "aborted"
        assert [each.text for each in here.harness.queue.snapshot().items] == [LATER]
        run = here.harness.continue_()
        assert (await settled(run)).text == "two"
        assert queued.run is run


async def test_a_message_withdrawn_when_a_run_has_taken_it_is_gone_and_nobody_waits_on() -> None:
    async with hall([[text("one")]]) as here:
        queued = await left_waiting(here)
        run = here.harness.continue_()
        here.harness.withdraw(queued)
        with anyio.fail_after(DEADLINE_S):
            assert await queued is None
        assert (await settled(run)).stop_reason == "aborted"
        assert len(here.harness.queue) == 0
        assert here.of(QueueUpdate)[-1].items == []


class Elsewhere(MemorySession):
    """A session that another program writes to as well."""

    meanwhile: Callable[[], Awaitable[Change]] | None = None

    async def refresh(self) -> Change:
        write, self.meanwhile = self.meanwhile, None
        return "unchanged" if write is None else await write()


async def test_an_answer_that_another_program_has_finished_is_no_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = Elsewhere(Path.cwd())
    async with hall([[text("half"), until(anyio.sleep_forever)]], session=session) as here:
        run = here.harness.prompt("first")
        await here.until(lambda: here.harness.live.message)
        with anyio.fail_after(DEADLINE_S):
            await here.harness.abort()
        assert (await settled(run)).stop_reason == "aborted"

        async def finish() -> Change:
            make = message_entry(assistant("theirs"))
            await session.append_many([make(session.new_id(), session.leaf_id, iso_now())])
            return "grown"

        session.meanwhile = finish
        outcome = await settled(here.harness.continue_())
        assert outcome.stop_reason == "error"
        assert outcome.error_message == "the session ends in a finished answer"
        assert len(here.of(AgentSettled)) == 2
        assert unexpected(caplog) == []


class Broken(MemorySession):
    """A session that cannot be read, or not be written, from some moment on."""

    unreadable = False
    hangs = False

    def branch(self, entry_id: str | None = None) -> Sequence[StoredEntry]:
        if self.unreadable:
            raise SessionStorageError("the session file cannot be read")
        return super().branch(entry_id)

    async def append_many(
        self, entries: Sequence[Entry], *, strict: bool = False
    ) -> list[StoredEntry]:
        if self.hangs:
            await anyio.sleep_forever()
        return await super().append_many(entries, strict=strict)


async def test_what_waits_in_a_session_that_cannot_be_read_is_told() -> None:
    session = Broken(Path.cwd())
    async with hall([[text("one")]], session=session) as here:
        await settled(here.harness.prompt("first"))

        def break_it(_: Any) -> None:
            here.harness.steer(LATER)
            session.unreadable = True

        with pytest.raises(SessionStorageError):
            await here.harness.compact(on_start=break_it)
        told = [each.message for each in here.of(Diagnostic)]
        assert told == ["messages wait that cannot be sent: the session file cannot be read"]
        assert [each.text for each in here.harness.queue.snapshot().items] == [LATER]
        session.unreadable = False


async def test_a_disk_that_does_not_answer_ends_the_run_and_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = Broken(Path.cwd())
    async with hall([[text("one")]], session=session) as here:
        monkeypatch.setattr(persistence, "_WRITE_DEADLINE_S", 0.01)
        session.hangs = True
        outcome = await settled(here.harness.prompt("first"))
        assert outcome.error_message == "the session was not written in 0.01 seconds"
        assert unexpected(caplog) == []
        session.hangs = False
