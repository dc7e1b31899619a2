"""The agent loop: stream a reply, run its tools, repeat.

Owns the order of everything within a run: turns, hooks, queues, events. Does not own the tool
calls of a turn (``pi_rpc.agent.tool_calls``), the state of a conversation
(``pi_rpc.agent.agent``) nor its storage. ``docs/agent-loop.md`` tells it with pictures.

A run is a generator of event batches: nothing further happens before the last batch was taken in.
So whoever reads it can store a message before anything is built on it. Batches follow the reads of
the provider's connection; there is no task switch per delta.

What a run needs of the outside goes through ``AgentLoopConfig``. A hook that raises ends the run by
raising here; ``Agent`` turns that into a failed message.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TypeAlias, TypeVar, cast

import anyio
from msgspec import structs
from msgspec.structs import replace

from pi_rpc.agent._interrupt import AbortScope, call_hook
from pi_rpc.agent.config import (
    AgentContext,
    AgentLoopConfig,
    LoopTurnUpdate,
    MaybeAwaitable,
    TurnContext,
)
from pi_rpc.agent.events import (
    AgentEnd,
    AgentStart,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
    TurnStart,
)
from pi_rpc.agent.messages import AgentMessage
from pi_rpc.agent.tool_calls import ToolBatch
from pi_rpc.llm.abort import AbortController, AbortSignal
from pi_rpc.llm.events import AssistantMessageEvent, BlockEvent, Done, Failed, Start
from pi_rpc.llm.messages import AssistantMessage, ToolResultMessage
from pi_rpc.llm.provider import Context, EventBatches, StreamFn, ToolSpec
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder

__all__ = [
    "AgentContext",
    "AgentEventStream",
    "AgentLoopConfig",
    "Emit",
    "LoopTurnUpdate",
    "NothingToContinueError",
    "TurnContext",
    "agent_loop",
    "agent_loop_continue",
    "run_agent_loop",
    "run_agent_loop_continue",
]

T = TypeVar("T")

Emit: TypeAlias = Callable[[Sequence[LoopEvent]], Awaitable[None]]
"""Takes in one batch of events, at least one. The run waits for it."""

_CLOSE_WITHIN_S = 1.0


class NothingToContinueError(Exception):
    """There is no message to go on from: none at all, or the last is the model's own."""


# --- ways to run it -----------------------------------------------------------------------------


def agent_loop(
    prompts: Sequence[AgentMessage],
    context: AgentContext,
    config: AgentLoopConfig,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> "AgentEventStream":
    """Run ``prompts`` on top of ``context``. Nothing happens before the stream is read."""
    run = _Run(context, _with_stream_fn(config, stream_fn), signal)
    return AgentEventStream(run.batches(prompts))


def agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    signal: AbortSignal | None = None,
    stream_fn: StreamFn | None = None,
) -> "AgentEventStream":
    """Go on from ``context`` as it is. Raises ``NothingToContinueError`` at once."""
    _require_something_to_continue(context)
    run = _Run(context, _with_stream_fn(config, stream_fn), signal)
    return AgentEventStream(run.batches(()))


async def run_agent_loop(
    prompts: Sequence[AgentMessage],
    context: AgentContext,
    config: AgentLoopConfig,
    emit: Emit,
    signal: AbortSignal | None = None,
) -> list[AgentMessage]:
    """Run ``prompts`` and hand each batch of events to ``emit``; returns the new messages.

    What ``emit`` raises ends the run and is passed on, after its tools were stopped.
    """
    return await _drive(_Run(context, config, signal), prompts, emit)


async def run_agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    emit: Emit,
    signal: AbortSignal | None = None,
) -> list[AgentMessage]:
    """As ``run_agent_loop``, going on from ``context``. Raises ``NothingToContinueError``."""
    _require_something_to_continue(context)
    return await _drive(_Run(context, config, signal), (), emit)


async def _drive(run: "_Run", prompts: Sequence[AgentMessage], emit: Emit) -> list[AgentMessage]:
    async with aclosing(run.batches(prompts)) as batches:
        async for batch in batches:
            await emit(batch)
    return run.new_messages


def _with_stream_fn(config: AgentLoopConfig, stream_fn: StreamFn | None) -> AgentLoopConfig:
    return config if stream_fn is None else replace(config, stream_fn=stream_fn)


def _require_something_to_continue(context: AgentContext) -> None:
    if not context.messages:
        raise NothingToContinueError("there is no message to continue from")
    if isinstance(context.messages[-1], AssistantMessage):
        raise NothingToContinueError("the last message is the model's: say something first")


class AgentEventStream:
    """The events of one run, and its result.

    ``async for event in stream``, or ``next_batch``; then ``await stream.result()``. ``result``
    alone reads to the end. A stream that is not read on pauses the run. To leave for good before
    the end, use it as ``async with`` or call ``aclose``, in the task that read it. One reader.
    """

    def __init__(self, batches: AsyncGenerator[list[LoopEvent], None]) -> None:
        self._batches = batches
        self._unread: list[LoopEvent] = []
        self._messages: list[AgentMessage] | None = None
        self._closed = False

    async def next_batch(self) -> Sequence[LoopEvent] | None:
        """The next events, at least one; None after the end."""
        if self._unread:
            batch, self._unread = self._unread[::-1], []
            return batch
        if self._closed:
            return None
        batch = await anext(self._batches, [])
        if batch and isinstance(batch[-1], AgentEnd):
            self._messages = batch[-1].messages
        return batch or None

    def __aiter__(self) -> AsyncIterator[LoopEvent]:
        return self

    async def __anext__(self) -> LoopEvent:
        if not self._unread:
            batch = await self.next_batch()
            if batch is None:
                raise StopAsyncIteration
            self._unread = list(reversed(batch))
        return self._unread.pop()

    async def result(self) -> list[AgentMessage]:
        """What the run added to the conversation; reads the stream to its end first.

        Raises ``RuntimeError`` when it was closed, or a hook raised, before that.
        """
        while self._messages is None:
            if await self.next_batch() is None:
                raise RuntimeError("the run did not reach its end")
        return self._messages

    async def aclose(self) -> None:
        """Leave the run: stop its tools, close its connection."""
        self._closed = True
        await self._batches.aclose()

    async def __aenter__(self) -> "AgentEventStream":
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


# --- the loop -----------------------------------------------------------------------------------


class _Run:
    """One run. Its fields are what may change between turns."""

    def __init__(
        self, context: AgentContext, config: AgentLoopConfig, signal: AbortSignal | None
    ) -> None:
        self.config = config
        self.signal = signal or AbortController().signal
        self.system_prompt = context.system_prompt
        self.messages = list(context.messages)
        self.tools = list(context.tools)
        self.new_messages: list[AgentMessage] = []
        self.reply: AssistantMessage | None = None
        self.tool_results: list[ToolResultMessage] = []
        self.more_to_say = False
        """The turn's tool results want an answer."""

    @property
    def context(self) -> AgentContext:
        return AgentContext(self.system_prompt, list(self.messages), list(self.tools))

    async def batches(
        self, prompts: Sequence[AgentMessage]
    ) -> AsyncGenerator[list[LoopEvent], None]:
        yield [AgentStart(), TurnStart()]
        for message in prompts:
            yield self._announce(message)
        pending = await self._poll(self.config.get_steering_messages)
        while True:
            for message in pending:
                yield self._announce(message)
            async with aclosing(self._turn()) as turn:
                async for batch in turn:
                    yield batch
            next_up = await self._next_turn()
            if next_up is None:
                break
            yield [TurnStart()]
            pending = next_up
        yield [AgentEnd(messages=list(self.new_messages))]

    def _announce(self, message: AgentMessage) -> list[LoopEvent]:
        """A finished message becomes part of the conversation."""
        self._add(message)
        return [MessageStart(message=message), MessageEnd(message=message)]

    def _add(self, message: AgentMessage) -> None:
        self.messages.append(message)
        self.new_messages.append(message)

    async def _poll(
        self, getter: Callable[[], MaybeAwaitable[Sequence[AgentMessage]]] | None
    ) -> list[AgentMessage]:
        return list(await self._hook(getter) or ()) if getter is not None else []

    async def _hook(self, hook: Callable[..., MaybeAwaitable[T]], *arguments: object) -> T | None:
        """What the hook says; None when an abort cut it short."""
        with AbortScope(self.signal):
            return await call_hook(hook, *arguments)
        return None

    # --- a turn -----------------------------------------------------------------------------

    async def _turn(self) -> AsyncGenerator[list[LoopEvent], None]:
        """A reply and its tool calls."""
        async with aclosing(self._stream_reply()) as batches:
            async for batch in batches:
                yield batch
        reply = self.reply
        assert reply is not None
        self.tool_results, self.more_to_say = [], False
        if reply.stop_reason not in {"error", "aborted"}:
            tools = ToolBatch(reply, self.context, self.config, self.signal)
            async with aclosing(tools.events()) as events:
                async for batch in events:
                    # A result message is part of the conversation once it is announced.
                    if len(tools.results) > len(self.tool_results):
                        self.tool_results.append(tools.results[-1])
                        self._add(tools.results[-1])
                    yield batch
            self.more_to_say = bool(tools.calls) and not tools.terminate
        yield [TurnEnd(message=reply, tool_results=list(self.tool_results))]

    async def _stream_reply(self) -> AsyncGenerator[list[LoopEvent], None]:
        stream = await self._ask()
        started = False
        self.reply = None
        try:
            while self.reply is None:
                read = await stream.next_batch()
                events, final = _translated(read or (), stream)
                if final is None and read is None:
                    final = await stream.result()
                if events and type(events[0]) is MessageStart:
                    started = True
                if final is not None:
                    final = structs.replace(final, thinking_level=self.config.thinking_level)
                    if not started:
                        events.append(MessageStart(message=final))
                    events.append(MessageEnd(message=final))
                    self._add(final)
                    self.reply = final
                yield events
        finally:
            with anyio.move_on_after(_CLOSE_WITHIN_S, shield=True):
                await stream.aclose()

    async def _ask(self) -> AssistantMessageStream:
        """The model's reply to the conversation as it stands."""
        config, signal = self.config, self.signal
        messages: Sequence[AgentMessage] = self.messages
        with AbortScope(signal):
            if config.transform_context is not None:
                messages = await call_hook(config.transform_context, list(messages), signal)
            converted = await call_hook(config.convert_to_llm, messages)
            key: str | None = None
            if config.get_api_key is not None:
                key = await call_hook(config.get_api_key, config.model.provider)
            options = replace(
                config.stream_options,
                api_key=key or config.stream_options.api_key,
                signal=signal,
                thinking_level=config.thinking_level,
            )
            if config.prepare_request is not None:
                options = await call_hook(config.prepare_request, config.model, options, signal)
            specs = [ToolSpec(tool.name, tool.description, tool.parameters) for tool in self.tools]
            request = Context(converted, self.system_prompt, specs)
            return config.stream_fn(config.model, request, options)
        # An abort cut the preparation short: a reply that was aborted before it began.
        return AssistantMessageStream(config.model, _nothing, signal)

    # --- between turns ----------------------------------------------------------------------

    async def _next_turn(self) -> list[AgentMessage] | None:
        """What the next turn begins with; None when there is no next turn."""
        config, reply = self.config, self.reply
        assert reply is not None
        if reply.stop_reason in {"error", "aborted"} or self._is_aborted():
            return None
        should_stop = config.should_stop_after_turn
        if should_stop is not None and await self._hook(should_stop, self._turn_context(reply)):
            return None
        taken = await self._poll(config.get_steering_messages)
        if not taken and not self.more_to_say:
            taken = await self._poll(config.get_follow_up_messages)
            if not taken:
                return None
        prepared: Sequence[AgentMessage] = ()
        if config.prepare_next_turn is not None:
            update = await self._hook(config.prepare_next_turn, self._turn_context(reply))
            if update is not None:
                self._apply(update)
                prepared = update.messages
        if not taken:
            taken = await self._poll(config.get_steering_messages)
        return None if self._is_aborted() else [*prepared, *taken]

    def _is_aborted(self) -> bool:
        return self.signal.aborted

    def _turn_context(self, reply: AssistantMessage) -> TurnContext:
        return TurnContext(reply, self.tool_results, self.context, list(self.new_messages))

    def _apply(self, update: LoopTurnUpdate) -> None:
        if update.context is not None:
            self.system_prompt = update.context.system_prompt
            self.messages = list(update.context.messages)
            self.tools = list(update.context.tools)
        config = self.config
        self.config = replace(
            config,
            model=update.model or config.model,
            thinking_level=update.thinking_level or config.thinking_level,
            stream_options=update.stream_options or config.stream_options,
            tool_context=update.tool_context or config.tool_context,
        )


def _translated(
    batch: Sequence[AssistantMessageEvent], stream: AssistantMessageStream
) -> tuple[list[LoopEvent], AssistantMessage | None]:
    """A provider batch as loop events, and the final message if it ends the reply."""
    events: list[LoopEvent] = []
    final: AssistantMessage | None = None
    if batch and isinstance(batch[0], Start):
        empty = structs.replace(stream.partial, content=[], stop_reason="pending")
        events.append(MessageStart(message=empty))
        batch = batch[1:]
    if batch and isinstance(last := batch[-1], Done | Failed):
        final = last.message if isinstance(last, Done) else last.error
        batch = batch[:-1]
    # Between the two there is nothing but what blocks have to say.
    blocks = cast("Sequence[BlockEvent]", batch)
    events += [MessageUpdate(assistant_message_event=event, stream=stream) for event in blocks]
    return events, final


async def _nothing(_builder: MessageBuilder) -> EventBatches:
    no_batches: tuple[list[AssistantMessageEvent], ...] = ()
    for batch in no_batches:
        yield batch
