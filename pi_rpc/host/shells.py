"""The shell that a session's tools run commands with: this machine's, or the front door's.

Owns that a session has one from its first moment to its last. How commands run is the ``Shell``s'.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from pi_rpc.agent.ports import BusyShell, CommandExit, Shell
from pi_rpc.llm.abort import AbortSignal

__all__ = ["FrontDoorShell"]


class FrontDoorShell:
    """The ``Shell`` of a session; ``door`` may be another than this machine's ``own``."""

    def __init__(self, own: Shell) -> None:
        self.own = own
        self.door = own
        """What the front door has put in place."""

    @property
    def is_busy(self) -> bool:
        """As ``BusyShell``."""
        return isinstance(self.own, BusyShell) and self.own.is_busy

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float | None,
        on_output: Callable[[bytes], None],
        signal: AbortSignal,
    ) -> CommandExit:
        """As ``Shell``."""
        return await self.door.run(
            command, cwd=cwd, env=env, timeout_s=timeout_s, on_output=on_output, signal=signal
        )

    def close(self) -> None:
        """The session is closed: the front door is asked no more."""
        self.door = self.own

    async def aclose(self) -> None:
        """As ``Shell``."""
        await self.own.aclose()
