"""How a session runs the agent loop: which model, prompt, tools and queues each turn gets.

Owns the translation from a session's choices to the loop's configuration. Does not own the loop
(``pi_rpc.agent.loop``) nor the choices (``pi_rpc.harness.configuration``).
"""

import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pi_rpc.agent.config import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    AgentLoopConfig,
    BeforeToolCallContext,
    BeforeToolCallResult,
    LoopTurnUpdate,
    TurnContext,
)
from pi_rpc.agent.events import AgentEvent
from pi_rpc.agent.loop import run_agent_loop, run_agent_loop_continue
from pi_rpc.agent.messages import AgentMessage, convert_to_llm
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.hook_payloads import (
    ContextHook,
    ContextHookResult,
    ToolCallHook,
    ToolCallHookResult,
    ToolResultHook,
    ToolResultHookResult,
)
from pi_rpc.harness.hooks import Hooks
from pi_rpc.harness.permissions.gate import PermissionGate, PlannedCall
from pi_rpc.harness.queue import MessageQueue, QueueKind
from pi_rpc.harness.runs import Run
from pi_rpc.harness.system_prompt import build_system_prompt
from pi_rpc.harness.usage import prompt_tokens
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.errors import ProviderError
from pi_rpc.llm.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    now_ms,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamFn, StreamOptions
from pi_rpc.llm.stream import AssistantMessageStream

__all__ = ["LoopSetup", "unanswered_calls"]

_RESULT_GRACE_S = 2.0
"""How long an abort waits for ``tool_result`` handlers: less than the loop waits for them all."""


class LoopSetup:
    """Runs the loop with what the session has chosen."""

    def __init__(
        self,
        configuration: SessionConfiguration,
        queue: MessageQueue,
        stream_fn: StreamFn,
        tool_context: ToolContext,
        session_id: str,
        *,
        hooks: Hooks,
        permissions: PermissionGate,
    ) -> None:
        self.hooks = hooks
        self.permissions = permissions
        self.replaced_prompt: str | None = None
        """The system prompt that a hook chose for the run that goes on."""
        self.patience_s = 0.0
        """How long every listener would have a delta wait for others."""
        self._configuration = configuration
        self._queue = queue
        self.stream_fn = self._watched(stream_fn)
        self.tool_context = tool_context
        self.session_id = session_id
        self._stream: AssistantMessageStream | None = None

    def _watched(self, stream_fn: StreamFn) -> StreamFn:
        def stream(
            model: Model, context: Context, options: StreamOptions, /
        ) -> AssistantMessageStream:
            self._stream = stream_fn(model, context, options)
            return self._stream

        return stream

    @property
    def last_error(self) -> ProviderError | None:
        """The typed failure behind the last reply, if it failed."""
        return self._stream.error if self._stream is not None else None

    def overhead(self) -> int:
        """About how many tokens the system prompt and the tools take up."""
        tools = self._configuration.usable_tools()
        return prompt_tokens(self._system_prompt(tools), tools)

    def system_prompt(self) -> str:
        """The system prompt of the next turn."""
        return self._system_prompt(self._configuration.usable_tools())

    async def run(
        self,
        run: Run,
        prompts: Sequence[Any],
        messages: list[Any],
        emit: Callable[[Sequence[AgentEvent]], Awaitable[None]],
        between_turns: Callable[[Run, TurnContext], Awaitable[LoopTurnUpdate]],
    ) -> None:
        """One pass of the loop: with ``prompts``, or going on from ``messages`` without."""
        context = self._context(messages)
        config = self._config(run, between_turns)
        signal = run.controller.signal
        if prompts:
            await run_agent_loop(prompts, context, config, emit, signal)
        else:
            await run_agent_loop_continue(context, config, emit, signal)

    def _context(self, messages: list[Any]) -> AgentContext:
        tools = self._configuration.usable_tools()
        return AgentContext(
            system_prompt=self._system_prompt(tools), messages=messages, tools=tools
        )

    def _system_prompt(self, tools: Sequence[AgentTool]) -> str:
        if self.replaced_prompt is not None:
            return self.replaced_prompt
        configuration = self._configuration
        resources = configuration.resources
        chosen = configuration.system_prompt
        replacement = chosen(configuration) if callable(chosen) else chosen
        return build_system_prompt(
            tools,
            configuration.cwd,
            replacement=resources.system_prompt if replacement is None else replacement,
            addendum=configuration.append_system_prompt or resources.append_system_prompt,
            context_files=resources.context_files,
            skills=resources.skills,
        )

    def _config(
        self,
        run: Run,
        between_turns: Callable[[Run, TurnContext], Awaitable[LoopTurnUpdate]],
    ) -> AgentLoopConfig:
        configuration = self._configuration
        return AgentLoopConfig(
            model=configuration.require_model(),
            thinking_level=configuration.level,
            stream_fn=self.stream_fn,
            stream_options=self._stream_options(),
            tool_context=self._tool_context(),
            convert_to_llm=self._converted,
            transform_context=self._transformed,
            prepare_request=self.prepared,
            should_stop_after_turn=lambda turn: self._at_limit(run, turn),
            prepare_next_turn=lambda turn: between_turns(run, turn),
            before_tool_call=self._before_tool_call,
            why_missing=self.permissions.withheld,
            after_tool_call=self._after_tool_call,
            get_steering_messages=lambda: self._take("steer"),
            get_follow_up_messages=lambda: self._take("followUp"),
        )

    def _stream_options(self) -> StreamOptions:
        configuration = self._configuration
        options = configuration.stream_options
        return replace(
            options,
            session_id=self.session_id,
            idle_timeout_s=configuration.idle_timeout_s,
            read_pause_s=options.read_pause_s or self.patience_s,
        )

    def _tool_context(self) -> ToolContext:
        model = self._configuration.require_model()
        return replace(
            self.tool_context,
            supports_images="image" in model.input,
            environment=self.environment(),
        )

    def environment(self) -> dict[str, str]:
        """The variables for commands, those about the model included where there is one."""
        environment = dict(self.tool_context.environment)
        model = self._configuration.model
        if model is not None:
            environment["PI_PROVIDER"] = model.provider
            environment["PI_MODEL"] = model.id
            environment["PI_REASONING_LEVEL"] = self._configuration.level
        return environment

    def _take(self, kind: QueueKind) -> list[UserMessage]:
        return [queued.message for queued in self._queue.take(kind)]

    def _at_limit(self, run: Run, turn: TurnContext) -> bool:
        if not turn.tool_results and not len(self._queue):
            return False  # The run ends by itself; it was not cut short.
        run.limit = run.limit or run.reached(self._configuration.limits)
        return run.limit is not None

    def next_turn(self, messages: list[Any]) -> LoopTurnUpdate:
        """What the next turn works with: ``messages``, and the choices as they are now."""
        return LoopTurnUpdate(
            context=self._context(messages),
            model=self._configuration.require_model(),
            thinking_level=self._configuration.level,
            stream_options=self._stream_options(),
            tool_context=self._tool_context(),
        )

    def _converted(self, messages: Sequence[AgentMessage]) -> list[Message]:
        return convert_to_llm(messages, self._configuration.roles)

    # --- hooks -----------------------------------------------------------------------------------

    async def prepared(
        self, model: Model, options: StreamOptions, signal: AbortSignal
    ) -> StreamOptions:
        """The options of one request as hooks want them."""
        return await self.hooks.patched(model, options, signal)

    async def _transformed(
        self, messages: list[AgentMessage], signal: AbortSignal
    ) -> Sequence[AgentMessage]:
        if not self.hooks.has("context"):
            return messages
        payload = ContextHook(messages=tuple(messages), signal=signal)
        result: ContextHookResult | None = await self.hooks.last("context", payload, signal)
        return messages if result is None else list(result.messages)

    async def _before_tool_call(
        self, call: BeforeToolCallContext, signal: AbortSignal
    ) -> BeforeToolCallResult | None:
        decision = ToolCallHookResult()
        if self.hooks.has("tool_call"):
            payload = ToolCallHook(
                tool_call_id=call.tool_call.id,
                tool_name=call.tool_call.name,
                input=call.args,
                signal=signal,
            )
            decision = await self.hooks.decide(payload, signal) or decision
        if decision.block:
            return BeforeToolCallResult(block=True, reason=decision.reason)
        if decision.input is not None:
            call.args.clear()
            call.args.update(decision.input)
        # The one that will run, whatever the session has under that name by now.
        tool = next(each for each in call.context.tools if each.name == call.tool_call.name)
        context = call.tool_context or self._tool_context()
        planned = PlannedCall(
            call.tool_call.id, tool, call.args, context, signal, decision.decision
        )
        return await self.permissions.before(planned)

    async def _after_tool_call(
        self, call: AfterToolCallContext, signal: AbortSignal
    ) -> AfterToolCallResult | None:
        if not self.hooks.has("tool_result"):
            return None
        payload = ToolResultHook(
            tool_call_id=call.tool_call.id,
            tool_name=call.tool_call.name,
            input=copy.deepcopy(call.args),
            content=tuple(call.result.content),
            details=copy.deepcopy(call.result.details),
            is_error=call.is_error,
            signal=signal,
        )
        result: ToolResultHookResult | None = await self.hooks.last(
            "tool_result", payload, signal, _RESULT_GRACE_S
        )
        if result is None:
            return None
        return AfterToolCallResult(
            content=result.content,
            details=result.details,
            is_error=result.is_error,
            terminate=result.terminate,
        )


def unanswered_calls(messages: Sequence[Any]) -> list[ToolResultMessage]:
    """Error results for the tool calls at the end of ``messages`` that nobody answered."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolResultMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            calls = [block for block in message.content if isinstance(block, ToolCall)]
            return [_not_run(call) for call in calls if call.id not in answered]
        else:
            return []
    return []


def _not_run(call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=[TextBlock(text="The session was interrupted before this call was finished.")],
        is_error=True,
        timestamp=now_ms(),
    )
