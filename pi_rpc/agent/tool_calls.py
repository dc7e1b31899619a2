"""A reply's tool calls: checked, run, reported, answered.

Owns one batch of calls: the order of its events, the hooks around each call, and what becomes of a
call that is refused, fails or is aborted. Does not own tools (``pi_rpc.agent.tool``) nor the check
of arguments (``pi_rpc.agent.arguments``).

Every call gets a ``tool_execution_start``, a ``tool_execution_end`` and a result message, whatever
happens. In a *sequential* batch these follow each other call by call. In a *parallel* batch all
calls are started and checked in source order, run together, end in the order of completion, and
their result messages follow in source order when all have ended. Calls of a reply that was cut by
the token limit are not run at all.

On abort a running tool is cancelled, after its ``abort_grace_s``. A tool that returns or raises all
the same keeps what it has to say; otherwise its result is ``Operation aborted``.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import anyio
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from pi_rpc.agent._interrupt import AbortScope, call_hook
from pi_rpc.agent._outbox import Outbox
from pi_rpc.agent.arguments import ArgumentsError, checked_arguments
from pi_rpc.agent.config import (
    AFTER_ABORT_S,
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    AgentLoopConfig,
    BeforeToolCallContext,
    BeforeToolCallResult,
)
from pi_rpc.agent.events import (
    LoopEvent,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from pi_rpc.agent.foreign_code import is_our_cancellation, text_of_error
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import AgentTool, ToolDescription, ToolFailure, ToolResult, fault_of
from pi_rpc.chance import elapsed_s
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import AssistantMessage, ToolCall, ToolResultMessage, now_ms

__all__ = [
    "ABORTED_TEXT",
    "AfterToolCallContext",
    "AfterToolCallResult",
    "BeforeToolCallContext",
    "BeforeToolCallResult",
    "ToolBatch",
    "describe_call",
]

ABORTED_TEXT = "Operation aborted"
_CUT_TEXT = (
    "This call was not run: the response was cut off by the token limit, so its arguments may be "
    "incomplete. Call the tool again with a shorter input, or split the work into several calls."
)
_BLOCKED_TEXT = "This call was blocked."


class _Outcome(Struct, frozen=True):
    """How a call ended."""

    result: ToolResult
    is_error: bool
    duration_ms: float | UnsetType = UNSET

    @classmethod
    def failed(
        cls, text: str, details: Any = None, duration_ms: float | UnsetType = UNSET
    ) -> "_Outcome":
        result = ToolResult.of_text(text, details={} if details is None else details)
        return cls(result, is_error=True, duration_ms=duration_ms)


class _Ready(Struct, frozen=True):
    """A call that may run."""

    call: ToolCall
    tool: AgentTool
    args: dict[str, Any]
    context: ToolContext | None


class ToolBatch:
    """The calls of one reply. Read ``events()`` to its end, then ``results``."""

    def __init__(
        self,
        reply: AssistantMessage,
        context: AgentContext,
        config: AgentLoopConfig,
        signal: AbortSignal,
    ) -> None:
        self._reply = reply
        self._context = context
        self._config = config
        self._signal = signal
        self._tools = {tool.name: tool for tool in reversed(context.tools)}
        self._tool_context = _context_for(config)
        self._outcomes: dict[str, _Outcome] = {}
        self.calls = [block for block in reply.content if isinstance(block, ToolCall)]
        self.results: list[ToolResultMessage] = []
        """The result messages, in source order, as far as they were announced."""

    @property
    def terminate(self) -> bool:
        """Every result asks the run to stop. An empty batch does not."""
        outcomes = self._outcomes.values()
        return bool(outcomes) and all(outcome.result.terminate is True for outcome in outcomes)

    async def events(self) -> AsyncGenerator[list[LoopEvent], None]:
        """Run the batch. The next batch of events is made when the last was taken in."""
        if self._reply.stop_reason == "length":
            for call in self.calls:
                yield [self._start(call)]
                yield [self._end(call, _Outcome.failed(_CUT_TEXT))]
                yield self._answer(call)
        elif self._is_sequential():
            for call in self.calls:
                async with aclosing(self._run([call])) as running:
                    async for events in running:
                        yield events
                yield self._answer(call)
        else:
            async with aclosing(self._run(self.calls)) as running:
                async for events in running:
                    yield events
            for call in self.calls:
                yield self._answer(call)

    def _is_sequential(self) -> bool:
        called = [self._tools[call.name] for call in self.calls if call.name in self._tools]
        return self._config.tool_execution == "sequential" or any(
            tool.execution_mode == "sequential" for tool in called
        )

    async def _run(self, calls: Sequence[ToolCall]) -> AsyncGenerator[list[LoopEvent], None]:
        """Start and check ``calls`` in order, then run together what may run."""
        ready: list[_Ready] = []
        for call in calls:
            yield [self._start(call)]
            prepared = await self._prepare(call)
            if isinstance(prepared, _Ready):
                ready.append(prepared)
            else:
                yield [self._end(call, prepared)]
        if not ready:
            return
        outbox = Outbox(len(ready))
        async with anyio.create_task_group() as tasks:
            for each in ready:
                tasks.start_soon(self._run_one, each, outbox)
            try:
                while events := await outbox.take():
                    yield events
            except GeneratorExit:
                # Nobody reads on. The generator ends here, without the group's wrapping.
                tasks.cancel_scope.cancel()

    # --- before ---------------------------------------------------------------------------------

    async def _prepare(self, call: ToolCall) -> _Ready | _Outcome:
        if self._signal.aborted:
            return _Outcome.failed(ABORTED_TEXT)
        tool = self._tools.get(call.name)
        if tool is None:
            why = self._config.why_missing(call.name)
            return _Outcome.failed(why or f"Tool {call.name} not found")
        try:
            args = checked_arguments(tool, call)
        except ArgumentsError as error:
            return _Outcome.failed(str(error))
        allowed = await self._ask(call, args)
        if isinstance(allowed, _Outcome):
            return allowed
        return _Ready(call, tool, args, allowed)

    async def _ask(self, call: ToolCall, args: dict[str, Any]) -> _Outcome | ToolContext | None:
        """What the call works with; or why it may not run, if the hook says so, raises, or the run
        is aborted."""
        hook = self._config.before_tool_call
        if hook is None:
            return self._tool_context
        decision: BeforeToolCallResult | None = None
        context = BeforeToolCallContext(self._reply, call, args, self._context, self._tool_context)
        try:
            with AbortScope(self._signal):
                decision = await call_hook(hook, context, self._signal)
        except Exception as error:  # noqa: BLE001 - the boundary: a hook that raises blocks
            return _Outcome.failed(text_of_error(error))
        if self._signal.aborted:
            return _Outcome.failed(ABORTED_TEXT)
        if decision is None:
            return self._tool_context
        if not decision.block:
            return decision.tool_context or self._tool_context
        blocked = _Outcome.failed(decision.reason or _BLOCKED_TEXT)
        if not decision.terminate:
            return blocked
        return _Outcome(replace(blocked.result, terminate=True), is_error=True)

    # --- during ---------------------------------------------------------------------------------

    async def _run_one(self, ready: _Ready, outbox: Outbox) -> None:
        """Run one call and report it. Raises nothing but a cancellation from outside."""
        if self._signal.aborted:
            outcome = _Outcome.failed(ABORTED_TEXT)
        else:
            outcome = await self._execute(ready, outbox)
            outcome = await self._review(ready, outcome)
        outbox.finish(self._end(ready.call, outcome))

    async def _execute(self, ready: _Ready, outbox: Outbox) -> _Outcome:
        call, tool = ready.call, ready.tool
        settled = False

        def on_update(partial: ToolResult) -> None:
            if (fault := fault_of(partial)) is not None:
                raise TypeError(f"on_update was given {fault}")
            if not settled:
                outbox.put_update(
                    ToolExecutionUpdate(
                        tool_call_id=call.id,
                        tool_name=call.name,
                        args=call.arguments,
                        partial_result=partial,
                    )
                )

        started = elapsed_s()
        outcome = _Outcome.failed(ABORTED_TEXT)
        try:
            with AbortScope(self._signal, tool.abort_grace_s):
                result: Any = await tool.run(
                    call.id, ready.args, self._signal, on_update, ready.context
                )
                outcome = _checked(tool, result)
        except ToolFailure as failure:
            outcome = _failure(tool, failure)
        except BaseException as error:
            if is_our_cancellation(error):
                raise
            if isinstance(error, anyio.get_cancelled_exc_class()):
                outcome = _Outcome.failed(f"Tool {tool.name} was cancelled from inside")
            else:
                outcome = _Outcome.failed(text_of_error(error))
        finally:
            settled = True
        elapsed = round((elapsed_s() - started) * 1000, 3)
        return replace(outcome, duration_ms=elapsed)

    # --- after ----------------------------------------------------------------------------------

    async def _review(self, ready: _Ready, outcome: _Outcome) -> _Outcome:
        """The outcome as ``after_tool_call`` leaves it."""
        hook = self._config.after_tool_call
        if hook is None:
            return outcome
        context = AfterToolCallContext(
            self._reply,
            ready.call,
            ready.args,
            outcome.result,
            outcome.is_error,
            self._context,
        )
        reviewed = _Outcome.failed(ABORTED_TEXT, duration_ms=outcome.duration_ms)
        try:
            with AbortScope(self._signal, AFTER_ABORT_S):
                changes = await call_hook(hook, context, self._signal)
                reviewed = outcome if changes is None else _changed(outcome, changes)
        except Exception as error:  # noqa: BLE001 - the boundary: a hook that raises fails the call
            return _Outcome.failed(text_of_error(error), duration_ms=outcome.duration_ms)
        return reviewed

    # --- events ---------------------------------------------------------------------------------

    def _start(self, call: ToolCall) -> ToolExecutionStart:
        tool = self._tools.get(call.name)
        description = describe_call(tool, call, self._tool_context)
        return ToolExecutionStart(
            tool_call_id=call.id,
            tool_name=call.name,
            args=call.arguments,
            kind=tool.kind if tool is not None else "other",
            title=description.title,
            locations=list(description.locations),
        )

    def _end(self, call: ToolCall, outcome: _Outcome) -> ToolExecutionEnd:
        self._outcomes[call.id] = outcome
        return ToolExecutionEnd(
            tool_call_id=call.id,
            tool_name=call.name,
            result=outcome.result,
            is_error=outcome.is_error,
            duration_ms=outcome.duration_ms,
        )

    def _answer(self, call: ToolCall) -> list[LoopEvent]:
        outcome = self._outcomes[call.id]
        message = ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=outcome.result.content,
            is_error=outcome.is_error,
            timestamp=now_ms(),
            details=outcome.result.details,
            usage=outcome.result.usage,
            duration_ms=outcome.duration_ms,
        )
        self.results.append(message)
        return [MessageStart(message=message), MessageEnd(message=message)]


def _context_for(config: AgentLoopConfig) -> ToolContext | None:
    """The tool context, with what the current model can be shown."""
    context = config.tool_context
    if context is None or not context.supports_images or "image" in config.model.input:
        return context
    return replace(context, supports_images=False)


def describe_call(
    tool: AgentTool | None, call: ToolCall, context: ToolContext | None
) -> ToolDescription:
    """Title and places of a call. Its arguments are unchecked, so describing them may fail."""
    if tool is None:
        return ToolDescription(call.name)
    if tool.describe is not None:
        try:
            described: Any = tool.describe(call.arguments, context)
            if isinstance(described, ToolDescription):
                return described
        except BaseException:  # noqa: BLE001 - the check of the arguments says what is wrong
            return ToolDescription(tool.label)
    return ToolDescription(tool.label)


def _checked(tool: AgentTool, result: Any) -> _Outcome:
    if (fault := fault_of(result)) is not None:
        return _Outcome.failed(f"Tool {tool.name} returned {fault}")
    return _Outcome(result, is_error=result.is_error is True)


def _failure(tool: AgentTool, failure: ToolFailure) -> _Outcome:
    failed = _Outcome.failed(failure.message, failure.details)
    if fault_of(failed.result) is None:
        return failed
    # What cannot be written goes; what was said stays.
    return _Outcome.failed(str(failure.message))


def _changed(outcome: _Outcome, changes: AfterToolCallResult) -> _Outcome:
    """Field by field; new content drops structured content that was not renewed with it."""
    fields = {name: value for name, value in asdict(changes).items() if value is not UNSET}
    if "content" in fields:
        fields.setdefault("structured_content", UNSET)
    result = replace(outcome.result, **fields)
    is_error = fields.get("is_error", outcome.is_error)
    return replace(outcome, result=result, is_error=is_error)
