"""Between the loop and whoever listens: every finished message is stored before it is announced.

Owns the order "write, then tell", the ids that events carry, entries that wait for the end of a
turn, and the totals that follow from what was stored. Does not own the file (``pi_rpc.session``)
nor what happens when it cannot be written (``pi_rpc.harness.harness`` ends the run).
"""

from collections.abc import Callable, Sequence
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
from pi_rpc.llm.messages import AssistantMessage
from pi_rpc.session.entries import (
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MessageEntry,
    iso_now,
)
from pi_rpc.session.storage import SessionError, SessionStorage
from pi_rpc.session.stored import StoredEntry

__all__ = ["MakeEntry", "Recorder"]

_WRITE_DEADLINE_S = 10.0

MakeEntry: TypeAlias = Callable[[str, str | None, str], Any]
"""Makes an entry of its id, its parent's id and the time, once its place in the tree is known."""


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
        self._prompts: dict[int, PromptInput] = {}

    def expect(self, message: object, prompt: PromptInput) -> None:
        """``message`` is about to go through the loop and stands for ``prompt``."""
        self._prompts[id(message)] = prompt

    def updates(self, events: Sequence[MessageUpdate]) -> list[MessageUpdate]:
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
        stored = await self._write(self._entry_of(message))
        if isinstance(message, AssistantMessage):
            run.count(message)
            self._totals.add(message.usage)
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
        prompt = self._prompts.pop(id(message), None)
        if prompt is not None and prompt.attachments:
            originals = CustomEntry(
                id=self._session.new_id(),
                parent_id=self._session.leaf_id,
                timestamp=iso_now(),
                custom_type=ATTACHMENTS_TYPE,
                data=list(prompt.attachments),
            )
            stored = await self._write(originals)
            announced.append(EntryAppended(entry=Raw(stored.json)))
        return announced

    async def record(self, make: MakeEntry, *, now: bool) -> str:
        """Store an entry that is no message: at once, or with ``flush`` when a run goes on.

        ``make(id, parent_id, timestamp)`` builds it when its place in the tree is known. Returns
        its id, empty when that is not known yet.
        """
        if not now:
            self._pending.append(make)
            return ""
        return await self._store(make)

    async def _store(self, make: MakeEntry) -> str:
        entry = make(self._session.new_id(), self._session.leaf_id, iso_now())
        stored = await self._write(entry)
        self._notify([EntryAppended(entry=Raw(stored.json))])
        return stored.id

    async def move_leaf(self, target_id: str | None) -> None:
        """Go on below another entry (None: at the root), and tell."""
        stored = await self._session.set_leaf_id(target_id)
        if stored is not None:
            self._notify([EntryAppended(entry=Raw(stored.json))])

    async def flush(self) -> bool:
        """Store what waited for the end of the turn; True if anything did."""
        had_any = bool(self._pending)
        while self._pending:
            try:
                await self._store(self._pending[0])
            except (SessionError, TimeoutError):
                raise  # The disk may work again: it waits for the next flush.
            except Exception:
                del self._pending[0]  # It can never be stored, and must not hold up the others.
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

    async def _write(self, entry: Entry) -> StoredEntry:
        # Bounded, so that a dead disk cannot hold a run for ever; the store itself sees to it that
        # an abort cannot come between a message and its line.
        with anyio.fail_after(_WRITE_DEADLINE_S):
            return await self._session.append(entry)

    def _client_id(self, message: object) -> Any:
        prompt = self._prompts.get(id(message))
        return (prompt.client_message_id if prompt else None) or UNSET
