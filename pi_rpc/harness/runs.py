"""A run: from a prompt until the agent has settled.

Owns one run's identity, its stop signal, its limits and its outcome. Does not own what a run does
(``pi_rpc.harness.harness``).
"""

from collections.abc import Generator
from typing import Any

import anyio
from msgspec import Struct, field

from pi_rpc.agent.events import RunStopReason
from pi_rpc.chance import random_hex
from pi_rpc.harness.queue import QueuedMessage
from pi_rpc.harness.usage import Totals
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import AssistantMessage, Usage, UserMessage, text_of

__all__ = ["Limits", "Run", "RunOutcome"]


class Limits(Struct, frozen=True):
    """What a single run may use before it is stopped; None means no limit."""

    turns: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None


class RunOutcome(Struct, frozen=True):
    """How a run ended."""

    run_id: str
    stop_reason: RunStopReason
    aborted: bool
    error_message: str | None
    text: str
    """Text of the last assistant message."""
    usage: Usage
    cost: float
    message: AssistantMessage | None = None
    """The last assistant message."""


class Run(Struct, eq=False):
    """One run while it goes on."""

    id: str = field(default_factory=lambda: f"run_{random_hex(6)}")
    controller: AbortController = field(default_factory=AbortController)
    totals: Totals = field(default_factory=Totals)
    turns: int = 0
    first: list[UserMessage] = field(default_factory=list)
    """What it has taken of the queue to begin with."""
    retry: tuple[int, str] | None = None
    """The attempt failed in passing: how long to wait before the next, and what failed."""
    retries: int = 0
    """Retries of the reply that is being asked for."""
    recovered: bool = False
    """The conversation was compacted already because a request was too long."""
    attempts: int = 0
    """How often ``agent_start`` was said."""
    attempt_open: bool = False
    """``agent_start`` was said and ``agent_end`` was not."""
    prompt_entry_id: str | None = None
    """The entry of its first prompt; None before that is stored, and where it has none."""
    last_reply: AssistantMessage | None = None
    limit: str | None = None
    """Which limit ended the run, in words."""
    failure: str | None = None
    """What broke the run itself, as opposed to a reply of the model."""
    taken: list[QueuedMessage] = field(default_factory=list)
    """Queued messages this run delivered."""
    outcome: RunOutcome | None = None
    _settled: anyio.Event = field(default_factory=anyio.Event)

    def abort(self) -> None:
        """Stop as soon as possible, keeping what there is."""
        self.controller.abort()

    def count(self, reply: AssistantMessage) -> None:
        """Take one reply into the books."""
        self.last_reply = reply
        self.turns += 1
        self.totals.add(reply.usage)

    def reached(self, limits: Limits) -> str | None:
        """The turn or cost limit that is used up, in words."""
        if limits.turns is not None and self.turns >= limits.turns:
            return f"the limit of {limits.turns} turns was reached"
        if limits.cost_usd is not None and self.totals.cost >= limits.cost_usd:
            return f"the cost limit of ${limits.cost_usd:g} was reached"
        return None

    def conclude(self) -> RunOutcome:
        """The outcome, from everything that was noted."""
        reply = self.last_reply
        aborted = self.controller.signal.aborted and self.limit is None
        reason: Any = reply.stop_reason if reply is not None else "stop"
        message = (reply.error_message or None) if reply is not None else None
        if self.failure is not None:
            reason, message = "error", self.failure
        elif self.limit is not None:
            reason, message = "limit", self.limit
        elif aborted:
            reason, message = "aborted", None
        return RunOutcome(
            run_id=self.id,
            stop_reason=reason,
            aborted=aborted,
            error_message=message,
            text=text_of(list(reply.content)) if reply is not None else "",
            usage=self.totals.usage,
            cost=self.totals.cost,
            message=reply,
        )

    def settle(self, outcome: RunOutcome) -> None:
        """Let everybody who waits know."""
        self.outcome = outcome
        self._settled.set()
        for queued in self.taken:
            queued.resolved.set()

    async def wait(self) -> RunOutcome:
        """Return once the run has settled."""
        await self._settled.wait()
        assert self.outcome is not None
        return self.outcome

    def __await__(self) -> Generator[Any, Any, RunOutcome]:
        return self.wait().__await__()
