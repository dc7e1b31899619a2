"""One session, as a client sees it: a method for each that takes a ``sessionId``.

Owns their names in Python; what they take and give are structs of ``pi_rpc.protocol``. Does not own
the connection (``pi_rpc.client.client``) nor the decoding of events."""

from typing import TYPE_CHECKING, Literal, TypeVar, Unpack

from msgspec import UNSET, Struct, UnsetType

from pi_rpc.client import options
from pi_rpc.client.events import WAITING_BYTES, Events
from pi_rpc.llm.messages import UserContent
from pi_rpc.protocol import checkpoints as c
from pi_rpc.protocol import commands, conversation, files
from pi_rpc.protocol import requests as r
from pi_rpc.protocol import session_files as f
from pi_rpc.protocol import tree as t
from pi_rpc.protocol.base import Empty, SessionParams
from pi_rpc.protocol.history import SessionEventsParams, SessionEventsResult
from pi_rpc.protocol.state import SessionState

if TYPE_CHECKING:
    from pi_rpc.client.client import PiRpc

__all__ = ["Session"]

R = TypeVar("R")


class Session:
    """A session of a connected client. Costs nothing to make and holds nothing but its id.

    What its methods take and give is described in ``protocol.md`` and by their structs, what they
    raise by ``PiRpc``."""

    def __init__(self, client: "PiRpc", session_id: str) -> None:
        self.id = session_id
        """Its id."""
        self._client = client

    def events(self, *, limit_bytes: int = WAITING_BYTES) -> Events:
        """Its events from now on, to iterate over. For a consumer that is slow at most
        ``limit_bytes`` of them wait; see ``Events``."""
        events = Events(limit_bytes)
        self._client.incoming.subscribe(self.id, events)
        return events

    # The verbs.

    async def prompt(
        self, message: str | list[UserContent], **more: Unpack[options.PromptOptions]
    ) -> r.PromptResult:
        """Start a run with a message, and wait until it has settled."""
        params = r.PromptParams(session_id=self.id, message=message, **more)
        return await self._ask("prompt", params, r.PromptResult)

    async def steer(
        self, message: str | list[UserContent], **more: Unpack[options.MessageOptions]
    ) -> r.QueueMessageResult:
        """Add a message before the model's next request."""
        params = r.QueueMessageParams(session_id=self.id, message=message, **more)
        return await self._ask("steer", params, r.QueueMessageResult)

    async def follow_up(
        self, message: str | list[UserContent], **more: Unpack[options.MessageOptions]
    ) -> r.QueueMessageResult:
        """Add a message for when the run would end."""
        params = r.QueueMessageParams(session_id=self.id, message=message, **more)
        return await self._ask("followUp", params, r.QueueMessageResult)

    async def continue_(self, *, wait: r.WaitFor = "settled") -> r.PromptResult:
        """Start a run without a new message."""
        params = r.ContinueParams(session_id=self.id, wait=wait)
        return await self._ask("continue", params, r.PromptResult)

    async def abort(self, *, clear_queue: bool = True) -> r.AbortResult:
        """End what is going on, and wait until the session is idle."""
        params = r.AbortParams(session_id=self.id, clear_queue=clear_queue)
        return await self._ask("abort", params, r.AbortResult)

    async def compact(
        self, *, custom_instructions: str | UnsetType = UNSET
    ) -> conversation.CompactResult:
        """Put a summary in the place of the conversation so far."""
        params = conversation.CompactParams(
            session_id=self.id, custom_instructions=custom_instructions
        )
        return await self._ask("compact", params, conversation.CompactResult)

    async def branch(
        self, entry_id: str, **more: Unpack[options.BranchOptions]
    ) -> conversation.BranchResult:
        """Go on from another entry."""
        params = conversation.BranchParams(session_id=self.id, entry_id=entry_id, **more)
        return await self._ask("branch", params, conversation.BranchResult)

    async def clear_queue(self) -> r.AbortResult:
        """Take out what waits."""
        return await self._ask("queue/clear", self._params, r.AbortResult)

    async def remove_from_queue(self, id: str) -> r.AbortResult:
        """Take out one message that waits."""
        params = r.QueueRemoveParams(session_id=self.id, id=id)
        return await self._ask("queue/remove", params, r.AbortResult)

    async def bash(self, command: str, **more: Unpack[options.BashOptions]) -> commands.BashResult:
        """Run a command as the person."""
        params = commands.BashParams(session_id=self.id, command=command, **more)
        return await self._ask("bash", params, commands.BashResult)

    # What it is and holds.

    async def state(self, *, include: list[str] | UnsetType = UNSET) -> SessionState:
        """The session as it stands."""
        params = r.SessionStateParams(session_id=self.id, include=include)
        return await self._ask("session/state", params, SessionState)

    async def configure(self, **changes: Unpack[options.Configuration]) -> SessionState:
        """Change settings."""
        params = r.SessionConfigureParams(session_id=self.id, **changes)
        return await self._ask("session/configure", params, SessionState)

    async def messages(self, **page: Unpack[options.MessagesOptions]) -> r.SessionMessagesResult:
        """The active branch, the newest page first."""
        params = r.SessionMessagesParams(session_id=self.id, **page)
        return await self._ask("session/messages", params, r.SessionMessagesResult)

    async def entry(self, entry_id: str) -> r.SessionEntryResult:
        """One entry, whole."""
        params = r.SessionEntryParams(session_id=self.id, entry_id=entry_id)
        return await self._ask("session/entry", params, r.SessionEntryResult)

    async def entries(
        self, *, since: str | UnsetType = UNSET, limit: int | UnsetType = UNSET
    ) -> r.SessionEntriesResult:
        """The entries of all branches, in the order they were stored."""
        params = r.SessionEntriesParams(session_id=self.id, since=since, limit=limit)
        return await self._ask("session/entries", params, r.SessionEntriesResult)

    async def tree(self, **page: Unpack[options.PageOptions]) -> t.SessionTreeResult:
        """The entries of all branches in brief."""
        params = t.SessionTreeParams(session_id=self.id, **page)
        return await self._ask("session/tree", params, t.SessionTreeResult)

    async def stats(self) -> t.SessionStatsResult:
        """How much there is, and what it used."""
        return await self._ask("session/stats", self._params, t.SessionStatsResult)

    async def label(self, entry_id: str, label: str | UnsetType = UNSET) -> None:
        """Label an entry, or take its label off."""
        params = t.SessionLabelParams(session_id=self.id, entry_id=entry_id, label=label)
        await self._ask("session/label", params, Empty)

    async def fork(self, **more: Unpack[options.ForkOptions]) -> f.SessionForkResult:
        """Begin a session with what this one holds."""
        params = f.SessionForkParams(session_id=self.id, **more)
        return await self._ask("session/fork", params, f.SessionForkResult)

    async def export(
        self,
        format: Literal["jsonl", "markdown", "html"],
        *,
        path: str | UnsetType = UNSET,
        overwrite: bool = False,
    ) -> f.SessionExportResult:
        """Write the active branch to a file, for people or for another program."""
        params = f.SessionExportParams(
            session_id=self.id, format=format, path=path, overwrite=overwrite
        )
        return await self._ask("session/export", params, f.SessionExportResult)

    async def missed_events(
        self, since_seq: int, *, epoch: str | UnsetType = UNSET, limit: int | UnsetType = UNSET
    ) -> SessionEventsResult:
        """Events after ``since_seq``, as far back as they are kept."""
        params = SessionEventsParams(
            session_id=self.id, since_seq=since_seq, epoch=epoch, limit=limit
        )
        return await self._ask("session/events", params, SessionEventsResult)

    async def close(self) -> None:
        """End what goes on in it, and forget it in the daemon; the file stays."""
        params = r.SessionCloseParams(session_id=self.id)
        await self._ask("session/close", params, Empty)
        self._client.incoming.end_session(self.id)

    # What its runs changed.

    async def checkpoints(
        self, *, limit: int = 100, before: str | UnsetType = UNSET
    ) -> c.CheckpointListResult:
        """What each run changed, the newest first."""
        params = c.CheckpointListParams(session_id=self.id, limit=limit, before=before)
        return await self._ask("checkpoint/list", params, c.CheckpointListResult)

    async def checkpoint_diff(self, checkpoint_id: str) -> c.CheckpointDiffResult:
        """What a run changed, as a unified diff."""
        params = c.CheckpointDiffParams(session_id=self.id, checkpoint_id=checkpoint_id)
        return await self._ask("checkpoint/diff", params, c.CheckpointDiffResult)

    async def restore_checkpoint(
        self, checkpoint_id: str, *, paths: list[str] | UnsetType = UNSET
    ) -> c.CheckpointRestoreResult:
        """Put files back as they were before a run."""
        params = c.CheckpointRestoreParams(
            session_id=self.id, checkpoint_id=checkpoint_id, paths=paths
        )
        return await self._ask("checkpoint/restore", params, c.CheckpointRestoreResult)

    # What it can use.

    async def list_tools(self) -> r.ToolListResult:
        """Its tools."""
        return await self._ask("tool/list", self._params, r.ToolListResult)

    async def list_commands(self) -> commands.CommandListResult:
        """What ``/name`` in a prompt calls up."""
        return await self._ask("command/list", self._params, commands.CommandListResult)

    async def search_files(self, query: str, *, limit: int = 50) -> files.FileSearchResult:
        """Files and directories whose path fits."""
        params = files.FileSearchParams(session_id=self.id, query=query, limit=limit)
        return await self._ask("file/search", params, files.FileSearchResult)

    @property
    def _params(self) -> SessionParams:
        return SessionParams(session_id=self.id)

    async def _ask(self, method: str, params: Struct, result: type[R]) -> R:
        return await self._client.request(method, params, result)
