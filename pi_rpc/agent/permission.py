"""Permission: what a person is asked before a tool runs, and what they answer.

Owns the shapes of the question and of the answer, and the port through which a session asks its
person. Does not own when somebody must be asked
(``pi_rpc.harness.permissions``) nor how a question reaches a person (the front door).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, field

from pi_rpc.agent.review import ProposedEdit
from pi_rpc.agent.tool import Location, ToolKind

__all__ = [
    "NobodyPermits",
    "OptionKind",
    "PermissionAnswer",
    "PermissionAsker",
    "PermissionOption",
    "PermissionRequest",
    "ReviewedEdit",
]

OptionKind: TypeAlias = Literal[
    "allow_once", "allow_session", "allow_always", "reject_once", "reject_always"
]
"""Whether an option allows, and for how long: this call, this session, this project."""


class PermissionOption(Struct, frozen=True, kw_only=True):
    """An answer that can be given."""

    id: str
    """Names it in the answer."""
    name: str
    """What the person reads on it."""
    kind: OptionKind
    rule: str = ""
    """In words, what would be remembered; empty: nothing."""


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """May this call run?"""

    tool_call_id: str
    tool_name: str
    kind: ToolKind
    title: str
    args: Mapping[str, Any]
    reason: str = ""
    """Why it is asked, in a sentence for the person."""
    locations: Sequence[Location] = ()
    edits: Sequence[ProposedEdit] = ()
    """What would become of which files, for review."""
    options: Sequence[PermissionOption] = ()
    """At least one that allows and one that rejects."""


class ReviewedEdit(Struct, frozen=True, kw_only=True):
    """The text that a person wants in a file, in place of the one proposed."""

    path: Path
    new_text: str


class PermissionAnswer(Struct, frozen=True, kw_only=True):
    """What the person chose."""

    option_id: str
    """The ``id`` of one of the options."""
    feedback: str = ""
    """What the person wants the model to read with a rejection."""
    edits: Sequence[ReviewedEdit] = field(default_factory=tuple)
    """Write exactly this; files that are not named are written as proposed."""


class PermissionAsker(Protocol):
    """Asks the person of a session for permission."""

    def can_ask(self) -> bool:
        """Somebody is there who answers such questions."""
        ...

    async def request(
        self, request: PermissionRequest, *, timeout_s: float | None = None
    ) -> PermissionAnswer | None:
        """The answer; None when the question was dismissed, is too late or nobody is there.

        Several may wait at the same time. Cancelling the caller takes the question back.
        """
        ...

    def settle(self, tool_call_id: str) -> None:
        """What is asked about this call needs no answer any more: ``request`` returns None."""
        ...


class NobodyPermits:
    """The ``PermissionAsker`` where nobody can be asked."""

    def can_ask(self) -> bool:
        """Never."""
        return False

    async def request(
        self, request: PermissionRequest, *, timeout_s: float | None = None
    ) -> PermissionAnswer | None:
        """Always None."""
        del request, timeout_s
        return None

    def settle(self, tool_call_id: str) -> None:
        """Nothing is asked."""
