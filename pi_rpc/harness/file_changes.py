"""Telling which files calls and commands change.

Owns the step from what tools report, and from what commands turn out to have changed, to the
``files_changed`` event and to whoever keeps account of changes. Does not own how the changes of a
command are found out (``pi_rpc.tools.changed_files``).
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from pi_rpc.agent.events import AgentEvent, ChangedFile, FilesChanged
from pi_rpc.agent.ports import FileChange

if TYPE_CHECKING:
    from pi_rpc.tools.changed_files import CommandChanges

__all__ = ["ToldChanges"]


class ToldChanges:
    """The ``FileChanges`` of one session."""

    def __init__(
        self,
        notify: Callable[[Sequence[AgentEvent]], None],
        keep_account: Callable[[Sequence[FileChange]], None],
    ) -> None:
        """``keep_account`` hears of the changes before anybody else does."""
        self.watches_commands = False
        """What commands change is looked for; whoever wants to hear of it sets this."""
        self._notify = notify
        self._keep_account = keep_account
        self._commands: CommandChanges | None = None

    def changed(self, changes: Sequence[FileChange], tool_call_id: str | None = None) -> None:
        """Tell that these are not what they were."""
        self._tell(changes, tool_call_id, truncated=False)

    @asynccontextmanager
    async def around_command(
        self, cwd: Path, tool_call_id: str | None = None
    ) -> AsyncIterator[None]:
        """Tell what the command within has changed, unless it could not be run."""
        if not self.watches_commands:
            yield
            return
        if self._commands is None:
            from pi_rpc.tools.changed_files import CommandChanges

            self._commands = CommandChanges()
        before = await self._commands.before(cwd)
        yield
        found = await self._commands.after(cwd, before)
        self._tell(found.changes, tool_call_id, truncated=found.truncated)

    def _tell(
        self, changes: Sequence[FileChange], tool_call_id: str | None, *, truncated: bool
    ) -> None:
        if not changes and not truncated:
            return
        self._keep_account(changes)
        event = FilesChanged(
            changes=[ChangedFile(uri=each.path.as_uri(), kind=each.kind) for each in changes],
            tool_call_id=UNSET if tool_call_id is None else tool_call_id,
            truncated=truncated or UNSET,
        )
        self._notify([event])
