"""The life of an agent's run.

Owns that there is one run at a time, that it ends in ``agent_end`` whatever breaks, and that the
agent is idle afterwards. A run is out of reach of its caller's cancellation: that becomes an abort,
after which the run has a bounded time to write and say what it still has."""

import logging
from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from pi_rpc.agent._failure import closing_batches
from pi_rpc.agent._interrupt import call_hook
from pi_rpc.agent._listeners import Listeners
from pi_rpc.agent.config import AgentContext, AgentLoopConfig, LoopTurnUpdate, TurnContext
from pi_rpc.agent.events import AgentEnd, LoopEvent, MessageEnd
from pi_rpc.agent.foreign_code import text_of_error
from pi_rpc.agent.loop import run_agent_loop, run_agent_loop_continue
from pi_rpc.agent.messages import AgentMessage
from pi_rpc.agent.queue import PendingMessageQueue
from pi_rpc.agent.state import Conversation
from pi_rpc.llm.abort import AbortController

_log = logging.getLogger(__name__)


class Run:
    """A run while it goes on."""

    def __init__(self) -> None:
        self.controller = AbortController()
        self.scope = anyio.CancelScope(shield=True)
        self.done = anyio.Event()
        """The loop has ended."""
        self.settled = anyio.Event()
        """The agent is idle again."""
        self.new_messages: list[AgentMessage] = []
        self.ended = False
        """``agent_end`` went out."""
        self.error: Exception | None = None
        """For whoever started the run: no event could tell it."""


class Lifecycle:
    """Runs a conversation, one run at a time."""

    def __init__(
        self,
        conversation: Conversation,
        steering: PendingMessageQueue[AgentMessage],
        follow_up: PendingMessageQueue[AgentMessage],
        config: AgentLoopConfig,
        finish_within_s: float,
    ) -> None:
        self._conversation = conversation
        self._steering = steering
        self._follow_up = follow_up
        self._config = config
        self._finish_within_s = finish_within_s
        self.batch_listeners = Listeners()
        self.listeners = Listeners()
        self.active: Run | None = None

    async def run(
        self, prompts: Sequence[AgentMessage] | None, *, poll_at_start: bool = True
    ) -> list[AgentMessage]:
        run = self.active = Run()
        self._conversation.begin()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._live, run, prompts, poll_at_start)
                try:
                    await run.done.wait()
                except anyio.get_cancelled_exc_class():
                    run.controller.abort()
                    run.scope.deadline = anyio.current_time() + self._finish_within_s
                    raise
        finally:
            self._put_back()
            self._conversation.finish()
            self.active = None
            run.settled.set()
        if run.error is not None:
            raise run.error
        return run.new_messages

    async def _live(
        self, run: Run, prompts: Sequence[AgentMessage] | None, poll_at_start: bool
    ) -> None:
        """The run, out of reach of its caller's cancellation, which becomes an abort."""
        try:
            with run.scope:
                await self._run_to_its_end(run, prompts, poll_at_start)
        finally:
            run.done.set()

    async def _run_to_its_end(
        self, run: Run, prompts: Sequence[AgentMessage] | None, poll_at_start: bool
    ) -> None:
        conversation, signal = self._conversation, run.controller.signal
        context = AgentContext(
            conversation.system_prompt, conversation.messages, conversation.tools
        )
        config = self._loop_config(poll_at_start)

        async def emit(events: Sequence[LoopEvent]) -> None:
            await self._announce(run, events)

        try:
            if prompts is None:
                await run_agent_loop_continue(context, config, emit, signal)
            else:
                await run_agent_loop(prompts, context, config, emit, signal)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever broke the run is told
            await self._fail(run, error)
        except anyio.get_cancelled_exc_class():
            if run.scope.cancel_called:
                raise
            await self._fail(run, RuntimeError("a hook or listener was cancelled from inside"))

    async def _fail(self, run: Run, error: Exception) -> None:
        """End a run that broke. Listeners that raise again do not keep others from hearing it."""
        if run.ended:
            run.error = run.error or error
            return
        _log.error("a run failed: %s", error, exc_info=error)
        batches = closing_batches(
            self._conversation,
            run.new_messages,
            text_of_error(error),
            aborted=run.controller.signal.aborted,
        )
        for events in batches:
            try:
                await self._announce(run, events)
            except Exception as another:  # noqa: BLE001 - raised to the caller when idle
                run.error = run.error or another

    async def _announce(self, run: Run, events: Sequence[LoopEvent]) -> None:
        """First whoever stores, then the state and everybody, event by event."""
        signal = run.controller.signal
        if isinstance(events[-1], AgentEnd):
            run.ended = True
            self._put_back()
        try:
            await self.batch_listeners.tell_until_one_raises(events, signal)
        except Exception as error:
            if not run.ended:
                raise
            run.error = run.error or error  # nothing follows that could tell it
        problem: Exception | None = None
        rest = iter(events)
        try:
            for event in rest:
                self._follow(run, event)
                if self.listeners:
                    try:
                        await self.listeners.tell(event, signal)
                    except Exception as error:  # noqa: BLE001 - raised when all was told
                        problem = problem or error
        finally:
            # What is stored is part of the conversation, also when telling it was cut short.
            for event in rest:
                self._follow(run, event)
        if problem is not None:
            raise problem

    def _follow(self, run: Run, event: LoopEvent) -> None:
        self._conversation.follow(event)
        if isinstance(event, MessageEnd):
            run.new_messages.append(event.message)
            if not self._steering.delivered(event.message):
                self._follow_up.delivered(event.message)

    def _put_back(self) -> None:
        self._steering.restore()
        self._follow_up.restore()

    def _loop_config(self, poll_at_start: bool) -> AgentLoopConfig:
        skip = not poll_at_start

        def take_steering() -> list[AgentMessage]:
            nonlocal skip
            if skip:
                skip = False
                return []
            return self._steering.take()

        return replace(
            self._config,
            model=self._conversation.model,
            thinking_level=self._conversation.thinking_level,
            prepare_next_turn=self._next_turn,
            get_steering_messages=take_steering,
            get_follow_up_messages=self._follow_up.take,
        )

    async def _next_turn(self, turn: TurnContext) -> LoopTurnUpdate:
        """What the hook changes becomes state; the next turn then works from the state."""
        conversation = self._conversation
        update: LoopTurnUpdate | None = None
        if self._config.prepare_next_turn is not None:
            update = await call_hook(self._config.prepare_next_turn, turn)
        if update is not None:
            if update.context is not None:
                conversation.system_prompt = update.context.system_prompt
                conversation.messages = list(update.context.messages)
                conversation.tools = list(update.context.tools)
            conversation.model = update.model or conversation.model
            conversation.thinking_level = update.thinking_level or conversation.thinking_level
        return LoopTurnUpdate(
            context=AgentContext(
                conversation.system_prompt, conversation.messages, conversation.tools
            ),
            messages=update.messages if update is not None else (),
            model=conversation.model,
            thinking_level=conversation.thinking_level,
        )
