"""Sessions that nobody has used for a while: out of memory, and as they were when they come back.

Owns when a session may go, and the record of what is not in its file. Which sessions there are, and
the order of going and coming back, is ``pi_rpc.host.host``'s.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from pi_rpc.harness.permissions.remembered import Remembered
from pi_rpc.host.building import Choices
from pi_rpc.host.hosted import HostedSession

__all__ = ["Unloaded", "can_unload", "look_every_s"]

_MOST_S = 60.0


class Unloaded(Struct, frozen=True):
    """A session that is open but not in memory."""

    path: Path
    cwd: Path
    read_only: bool
    choices: Choices
    permitted: Sequence[Remembered]
    """Answers of the person that hold as long as the session is open."""

    @classmethod
    def of(cls, hosted: HostedSession) -> "Unloaded":
        """What is to be kept of ``hosted``, which has a file."""
        harness = hosted.harness
        assert harness.session.path is not None
        return cls(
            path=harness.session.path,
            cwd=harness.configuration.cwd,
            read_only=harness.session.read_only,
            choices=Choices.of(harness),
            permitted=harness.permissions.session_rules(),
        )


def can_unload(hosted: HostedSession) -> bool:
    """Nothing goes on in it, and all of it is kept elsewhere, as far as can be told at once."""
    return (
        hosted.harness.is_quiet and not hosted.ephemeral and hosted.harness.session.path is not None
    )


def look_every_s(idle_s: float) -> float:
    """How often to look for sessions that have been idle for ``idle_s`` seconds."""
    return min(_MOST_S, idle_s / 4)
