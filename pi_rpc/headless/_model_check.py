"""One tiny question to a model, and what its answer shows.

Owns the question and the verdicts. Asks as a session would: the same credentials, headers and
dialect. Does not own the output (``pi_rpc.headless.models``).
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from pi_rpc.host.services import Services
from pi_rpc.llm.errors import AccessError, AuthError, NetworkError, ProviderError
from pi_rpc.llm.events import TextDelta, ThinkingDelta, ToolCallDelta
from pi_rpc.llm.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCall,
    UserMessage,
    Wire,
    now_ms,
)
from pi_rpc.llm.models import Model, thinking_levels
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec

__all__ = ["Check", "CheckState", "CheckedModel", "checked"]

CheckState: TypeAlias = Literal["yes", "no", "unknown"]

_NAMES = ("auth", "streaming", "tools", "thinking", "usage")
_MOST_TOKENS = 4096
"""Thinking counts; the least that some providers let a model think is 1,024."""
_IDLE_S = 60.0
_TOOL = ToolSpec(
    name="report",
    description="Report a number.",
    parameters={
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "The number."}},
        "required": ["number"],
    },
)
_SYSTEM = "You check that tools work. Answer by calling the tool that you are told to call."
_QUESTION = "Call the tool report with the number 7."


class Check(Wire, frozen=True, kw_only=True):
    """A verdict."""

    name: str
    """``auth``, ``streaming``, ``tools``, ``thinking`` or ``usage``."""
    state: CheckState
    note: str = ""
    """What was seen, or went wrong."""


class CheckedModel(Wire, frozen=True, kw_only=True):
    """What the answer showed."""

    model: str
    passed: bool
    """The model can work: it can be asked, it answers as a stream, and it calls tools."""
    checks: list[Check]


async def checked(services: Services, model: Model) -> CheckedModel:
    """Ask ``model`` once. Never raises for what a provider does; costs a few hundred tokens.

    Without a credential nothing is asked.
    """
    if not services.models.authenticated(model):
        auth = Check(name="auth", state="no", note=services.models.unusable(model))
        others = [Check(name=name, state="unknown") for name in _NAMES[1:]]
        return CheckedModel(model=model.ref, passed=False, checks=[auth, *others])
    level: ThinkingLevel = next((each for each in thinking_levels(model) if each != "off"), "off")
    statuses: list[int] = []

    async def note(status: int, _headers: Mapping[str, str]) -> None:
        statuses.append(status)

    options = StreamOptions(
        thinking_level=level,
        max_tokens=min(model.max_tokens, _MOST_TOKENS),
        idle_timeout_s=_IDLE_S,
        on_response=note,
    )
    question = UserMessage(content=_QUESTION, timestamp=now_ms())
    context = Context(messages=[question], system_prompt=_SYSTEM, tools=[_TOOL])
    stream = services.stream(model, context, options)
    deltas = 0
    try:
        while (batch := await stream.next_batch()) is not None:
            deltas += sum(isinstance(e, TextDelta | ThinkingDelta | ToolCallDelta) for e in batch)
        message = await stream.result()
    finally:
        await stream.aclose()
    error = stream.error
    status = error.status if error is not None and error.status else None
    reply = _Reply(
        level=level,
        message=message,
        error=error,
        status=status or (statuses[-1] if statuses else None),
        deltas=deltas,
    )
    checks = [reply.auth(), reply.streaming(), reply.tools(), reply.thinking(), reply.usage()]
    passed = all(each.state == "yes" for each in checks[:3])
    return CheckedModel(model=model.ref, passed=passed, checks=checks)


class _Reply(Struct, frozen=True, kw_only=True):
    """An answer, and what to think of it."""

    level: ThinkingLevel
    """The level that was asked for."""
    message: AssistantMessage
    error: ProviderError | None
    status: int | None
    """The status of the answer's head, if it came to one."""
    deltas: int

    def auth(self) -> Check:
        """The provider let us in; unknown where it never said."""
        if self.error is None:
            return Check(name="auth", state="yes")
        refused = isinstance(self.error, AuthError | AccessError)
        if refused or isinstance(self.error, NetworkError) or self.status is None:
            return Check(name="auth", state="no" if refused else "unknown", note=self._reason())
        let_in = self.status < 300 or self.status in {400, 404, 413, 422, 429}
        return Check(name="auth", state="yes" if let_in else "unknown")

    def streaming(self) -> Check:
        if self.error is not None:
            return Check(name="streaming", state="no", note=self._reason())
        times = "once" if self.deltas == 1 else f"{self.deltas} times"
        note = f"something came {times}; the reply ended with {self.message.stop_reason}"
        return Check(name="streaming", state="yes" if self.deltas else "no", note=note)

    def tools(self) -> Check:
        if self.error is not None:
            return Check(name="tools", state="unknown")
        calls = [block for block in self.message.content if isinstance(block, ToolCall)]
        if not calls:
            said = "".join(b.text for b in self.message.content if isinstance(b, TextBlock))
            note = f"it was asked to call one and did not; it said: {said[:120]!r}"
            return Check(name="tools", state="no", note=note)
        right = any(call.name == _TOOL.name and call.arguments.get("number") == 7 for call in calls)
        note = "" if right else "it called one, though not as it was told to"
        return Check(name="tools", state="yes", note=note)

    def thinking(self) -> Check:
        if self.error is not None:
            return Check(name="thinking", state="unknown")
        if self.level == "off":
            return Check(name="thinking", state="no", note="the model is not known to think")
        blocks = [block for block in self.message.content if isinstance(block, ThinkingBlock)]
        spent = self.message.usage.reasoning or 0
        if blocks or spent:
            return Check(name="thinking", state="yes", note=f"at level {self.level}")
        return Check(
            name="thinking", state="unknown", note=f"nothing was seen of it at level {self.level}"
        )

    def usage(self) -> Check:
        usage = self.message.usage
        total = usage.input + usage.cache_read + usage.cache_write
        if self.error is not None and not total:
            return Check(name="usage", state="unknown")
        if not total or not usage.output:
            note = "it does not say what it used: costs and the room left are estimates"
            return Check(name="usage", state="no", note=note)
        note = f"{total} tokens in, {usage.output} out, ${usage.cost.total:.6f}"
        return Check(name="usage", state="yes", note=note)

    def _reason(self) -> str:
        return self.error.message if self.error is not None else ""
