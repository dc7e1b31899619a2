"""Between the loop and whoever listens: every finished message is stored before it is announced.

Owns the order "write, then tell", the ids that events carry, entries that wait for the end of a
turn, and the totals that follow from what was stored. Does not own the file (``pi_rpc.session``)
nor what happens when it cannot be written (``pi_rpc.harness.harness`` ends the run).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import anyio
import msgspec
from msgspec import UNSET, Raw

from pi_rpc.agent.events import (
    AgentEvent,
    EntryAppended,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    QueueUpdate,
    SavePoint,
)
from pi_rpc.agent.messages import CustomMessage
from pi_rpc.harness.inputs import ATTACHMENTS_TYPE, PromptInput
from pi_rpc.harness.queue import MessageQueue
from pi_rpc.harness.runs import Run
from pi_rpc.harness.usage import Totals
from pi_rpc.llm.messages import AssistantMessage, UserMessage
from pi_rpc.session.entries import (
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    iso_now,
)
from pi_rpc.session.storage import SessionError, SessionStorage, SessionStorageError
from pi_rpc.session.stored import StoredEntry

__all__ = ["MakeEntry", "Recorder", "message_entry"]

_WRITE_DEADLINE_S = 10.0

MakeEntry: TypeAlias = Callable[[str, str | None, str], Any]
"""Makes an entry of its id, its parent's id and the time, once its place in the tree is known."""


def message_entry(message: Any) -> MakeEntry:
    """Makes the entry that holds a message which did not come from the loop."""
    return lambda entry_id, parent_id, timestamp: MessageEntry(
        id=entry_id, parent_id=parent_id, timestamp=timestamp, message=message
    )


class Recorder:
    """Stores what the loop finishes and hands on its events with ids filled in."""

    def __init__(
        self,
        session: SessionStorage,
        queue: MessageQueue,
        totals: Totals,
        notify: Callable[[Sequence[AgentEvent]], None],
    ) -> None:
        self._session = session
        self._queue = queue
        self._totals = totals
        self._notify = notify
        self.unseen = False
        """Entries were stored that the loop has not been told of."""
        self._message_id = ""
        self._pending: list[MakeEntry] = []
        self._flushing = anyio.Lock(fast_acquire=True)
        self._prompts: dict[int, PromptInput] = {}

    def expect(self, message: object, prompt: PromptInput) -> None:
        """``message`` is about to go through the loop and stands for ``prompt``."""
        self._prompts[id(message)] = prompt

    def updates(self, events: Iterable[MessageUpdate]) -> list[MessageUpdate]:
        """Growing-message events with the id of the message that grows."""
        message_id = self._message_id
        return [
            MessageUpdate(
                assistant_message_event=event.assistant_message_event,
                stream=event.stream,
                message_id=message_id,
            )
            for event in events
        ]

    def start(self, event: MessageStart) -> list[AgentEvent]:
        """A message begins; one from the queue leaves the clients' picture of the queue first."""
        self._message_id = self._session.new_id()
        before: list[AgentEvent] = []
        queued = self._queue.started(event.message)
        if queued is not None:
            self.expect(event.message, queued.prompt)
            rest = self._queue.snapshot(without=queued)
            before = [
                QueueUpdate(steering=rest.steering, follow_up=rest.follow_up, items=rest.items)
            ]
        return [
            *before,
            msgspec.structs.replace(
                event,
                message_id=self._message_id,
                client_message_id=self._client_id(event.message),
            ),
        ]

    async def end(self, event: MessageEnd, run: Run) -> list[AgentEvent]:
        """Store a finished message and what belongs to it; raises ``SessionStorageError``."""
        message = event.message
        prompt = self._prompts.get(id(message))
        entries = [self._entry_of(message)]
        if prompt is not None and prompt.attachments:
            entries.append(self._originals(prompt))
        stored, *beside = await self._write(entries)
        if isinstance(message, AssistantMessage):
            run.count(message)
            self._totals.add(message.usage)
        elif isinstance(message, UserMessage) and run.prompt_entry_id is None:
            run.prompt_entry_id = stored.id
        queued = self._queue.delivered(message)
        if queued is not None:
            queued.run = run
            run.taken.append(queued)
        announced: list[AgentEvent] = [
            msgspec.structs.replace(
                event,
                message_id=self._message_id,
                entry_id=stored.id,
                parent_id=stored.parent_id,
                client_message_id=self._client_id(message),
            )
        ]
        self._prompts.pop(id(message), None)
        announced += [EntryAppended(entry=Raw(each.json)) for each in beside]
        return announced

    def _originals(self, prompt: PromptInput) -> Entry:
        """What a person attached, as it was."""
        return CustomEntry(
            id=self._session.new_id(),
            parent_id=self._session.leaf_id,
            timestamp=iso_now(),
            custom_type=ATTACHMENTS_TYPE,
            data=list(prompt.attachments),
        )

    async def record(self, make: MakeEntry, *, now: bool) -> str:
        """Store an entry: at once, or with ``flush`` when something goes on.

        ``make(id, parent_id, timestamp)`` builds it when its place in the tree is known. Returns
        its id, empty when that is not known yet.
        """
        if not now:
            self._pending.append(make)
            return ""
        return await self._store(make)

    async def _store(self, make: MakeEntry) -> str:
        (stored,) = await self.record_all([self.made(make)])
        return stored.id

    def made(self, make: MakeEntry) -> Entry:
        """An entry for ``record_all``, with an id of its own."""
        entry: Entry = make(self._session.new_id(), self._session.leaf_id, iso_now())
        return entry

    async def record_all(self, entries: Sequence[Entry]) -> list[StoredEntry]:
        """Store entries, each below the one before it, and tell: all of them or none."""
        stored = await self._write(entries) if entries else []
        told = zip(entries, stored, strict=True)
        self._notify([event for entry, each in told for event in _announced(entry, each)])
        return stored

    async def flush(self) -> bool:
        """Store what waited for the end of the turn; True if anything did.

        Returns without a checkpoint when nothing is left.
        """
        had_any = bool(self._pending)
        async with self._flushing:
            while self._pending:
                try:
                    await self._store(self._pending[0])
                except SessionError:
                    raise  # The disk may work again: it waits for the next flush.
                except Exception:
                    del self._pending[0]  # It can never be stored; the others must not wait for it.
                    raise
                del self._pending[0]
                self.unseen = True
        return had_any

    async def save_point(self) -> SavePoint:
        """Everything so far, flushed to the disk itself."""
        had_pending = await self.flush()
        with anyio.move_on_after(_WRITE_DEADLINE_S, shield=True):
            await self._session.sync()
        return SavePoint(had_pending_mutations=had_pending)

    def _entry_of(self, message: Any) -> Entry:
        place: dict[str, Any] = {
            "id": self._message_id,
            "parent_id": self._session.leaf_id,
            "timestamp": iso_now(),
        }
        if isinstance(message, CustomMessage):
            return CustomMessageEntry(
                **place,
                custom_type=message.custom_type,
                content=message.content,
                display=message.display,
                details=message.details,
            )
        return MessageEntry(**place, message=message)

    async def _write(self, entries: Sequence[Entry]) -> list[StoredEntry]:
        # Bounded, so that a dead disk cannot hold a run for ever; the store itself sees to it that
        # an abort cannot come between a message and its line.
        with anyio.move_on_after(_WRITE_DEADLINE_S):
            return await self._session.append_many(entries)
        raise SessionStorageError(f"the session was not written in {_WRITE_DEADLINE_S:g} seconds")

    def _client_id(self, message: object) -> Any:
        prompt = self._prompts.get(id(message))
        return (prompt.client_message_id if prompt else None) or UNSET


def _announced(entry: Entry, stored: StoredEntry) -> list[AgentEvent]:
    """What listeners are told of an entry that did not come from the loop."""
    if not isinstance(entry, MessageEntry):
        return [EntryAppended(entry=Raw(stored.json))]
    return [
        MessageStart(message=entry.message, message_id=stored.id),
        MessageEnd(
            message=entry.message,
            message_id=stored.id,
            entry_id=stored.id,
            parent_id=stored.parent_id,
        ),
    ]
