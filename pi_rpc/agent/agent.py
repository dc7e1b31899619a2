"""Agent: a conversation in memory that can be prompted, steered and stopped.

Owns one conversation's state and its two queues, and is what applications use. Does not own what
happens inside a run (``pi_rpc.agent.loop``) nor storage, retries and compaction
(``pi_rpc.harness``).

Belongs to one event loop; not thread-safe.
"""

from collections.abc import Callable, Sequence

from pi_rpc.agent._lifecycle import Lifecycle
from pi_rpc.agent._listeners import BatchListener, Listener
from pi_rpc.agent._prompts import AgentPrompt, normalized
from pi_rpc.agent.config import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentLoopConfig,
    BeforeToolCallContext,
    BeforeToolCallResult,
    LoopTurnUpdate,
    MaybeAwaitable,
    TurnContext,
    default_convert_to_llm,
)
from pi_rpc.agent.loop import NothingToContinueError
from pi_rpc.agent.messages import AgentMessage
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.queue import PendingMessageQueue, QueueMode
from pi_rpc.agent.state import AgentState, Conversation, InitialState
from pi_rpc.agent.tool import AgentTool, ExecutionMode
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    ThinkingLevel,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamFn, StreamOptions, stream_simple

__all__ = ["Agent", "AgentBusyError", "AgentPrompt", "NothingToContinueError"]


class AgentBusyError(Exception):
    """A run is active, and what was asked needs the agent to be idle."""


class Agent:
    """A conversation with a model that has tools.

    ``prompt`` runs until the model has nothing more to do; meanwhile other tasks may ``steer``,
    ``follow_up`` and ``abort``. Everything that happens is told to listeners, in order; the run
    waits for them. A model or network failure does not raise: it is the last message, and
    ``state.error_message``."""

    def __init__(
        self,
        initial_state: InitialState,
        *,
        stream_fn: StreamFn = stream_simple,
        stream_options: StreamOptions | None = None,
        convert_to_llm: Callable[
            [Sequence[AgentMessage]], MaybeAwaitable[list[Message]]
        ] = default_convert_to_llm,
        transform_context: Callable[
            [list[AgentMessage], AbortSignal], MaybeAwaitable[Sequence[AgentMessage]]
        ]
        | None = None,
        get_api_key: Callable[[str], MaybeAwaitable[str | None]] | None = None,
        should_stop_after_turn: Callable[[TurnContext], MaybeAwaitable[bool]] | None = None,
        prepare_next_turn: Callable[[TurnContext], MaybeAwaitable[LoopTurnUpdate | None]]
        | None = None,
        before_tool_call: Callable[
            [BeforeToolCallContext, AbortSignal], MaybeAwaitable[BeforeToolCallResult | None]
        ]
        | None = None,
        after_tool_call: Callable[
            [AfterToolCallContext, AbortSignal], MaybeAwaitable[AfterToolCallResult | None]
        ]
        | None = None,
        tool_execution: ExecutionMode = "parallel",
        tool_context: ToolContext | None = None,
        steering_mode: QueueMode = "one-at-a-time",
        follow_up_mode: QueueMode = "one-at-a-time",
        finish_within_s: float = 2.0,
    ) -> None:
        """Hooks are those of ``AgentLoopConfig``.

        ``finish_within_s`` bounds how long a run may take to end when the task that awaits
        ``prompt`` is cancelled."""
        self._conversation = Conversation(initial_state)
        self._steering = PendingMessageQueue[AgentMessage](steering_mode)
        self._follow_up = PendingMessageQueue[AgentMessage](follow_up_mode)
        config = AgentLoopConfig(
            model=initial_state.model,
            stream_fn=stream_fn,
            stream_options=stream_options or StreamOptions(),
            tool_execution=tool_execution,
            tool_context=tool_context,
            convert_to_llm=convert_to_llm,
            transform_context=transform_context,
            get_api_key=get_api_key,
            should_stop_after_turn=should_stop_after_turn,
            prepare_next_turn=prepare_next_turn,
            before_tool_call=before_tool_call,
            after_tool_call=after_tool_call,
        )
        self._life = Lifecycle(
            self._conversation, self._steering, self._follow_up, config, finish_within_s
        )
        self.state = AgentState(self._conversation)
        """A read-only view of the conversation."""

    # --- running --------------------------------------------------------------------------------

    async def prompt(
        self, prompt: AgentPrompt, images: Sequence[ImageBlock] = ()
    ) -> list[AgentMessage]:
        """Say something and wait until the agent is idle again; returns the new messages.

        Raises ``AgentBusyError`` while a run is active. Cancelling the caller aborts the run,
        lets it end in order, and then goes on."""
        self._require_idle("prompt")
        return await self._life.run(normalized(prompt, images))

    async def continue_(self) -> list[AgentMessage]:
        """Go on without saying anything: answer what is last, or deliver what is queued.

        Raises ``NothingToContinueError`` when the last message is the model's and nothing is
        queued, or there is no message at all; ``AgentBusyError`` while a run is active."""
        self._require_idle("continue_")
        messages = self._conversation.messages
        if messages and not isinstance(messages[-1], AssistantMessage):
            return await self._life.run(None)
        if messages and len(self._steering):
            # One-at-a-time stays one: the run must not take a second at its start.
            return await self._life.run(self._steering.take(), poll_at_start=False)
        if messages and len(self._follow_up):
            return await self._life.run(self._follow_up.take())
        raise NothingToContinueError("there is nothing to continue: say something first")

    def abort(self) -> None:
        """Stop the run, keeping what there is. Does nothing when idle. See ``wait_for_idle``."""
        if self._life.active is not None:
            self._life.active.controller.abort()

    async def wait_for_idle(self) -> None:
        """Return once the active run, if any, is over and every listener has heard its end.

        Waiting for it inside a listener or hook never ends."""
        if self._life.active is not None:
            await self._life.active.settled.wait()

    def reset(self) -> None:
        """Forget all messages, the queues and the error. Raises ``AgentBusyError``."""
        self._require_idle("reset")
        self._conversation.clear()
        self.clear_all_queues()

    @property
    def signal(self) -> AbortSignal | None:
        """The active run's signal."""
        return self._life.active.controller.signal if self._life.active is not None else None

    # --- queues ---------------------------------------------------------------------------------

    def steer(self, prompt: AgentPrompt, images: Sequence[ImageBlock] = ()) -> None:
        """Say something before the model's next request; if idle, at the start of the next run."""
        for message in normalized(prompt, images):
            self._steering.push(message)

    def follow_up(self, prompt: AgentPrompt, images: Sequence[ImageBlock] = ()) -> None:
        """Say something when the run would end."""
        for message in normalized(prompt, images):
            self._follow_up.push(message)

    @property
    def steering_mode(self) -> QueueMode:
        """How many steering messages are delivered at a time."""
        return self._steering.mode

    @steering_mode.setter
    def steering_mode(self, mode: QueueMode) -> None:
        self._steering.mode = mode

    @property
    def follow_up_mode(self) -> QueueMode:
        """How many follow-ups are delivered at a time."""
        return self._follow_up.mode

    @follow_up_mode.setter
    def follow_up_mode(self, mode: QueueMode) -> None:
        self._follow_up.mode = mode

    def has_queued_messages(self) -> bool:
        """Something waits, or is being delivered."""
        return bool(len(self._steering) or len(self._follow_up))

    def peek_queued_messages(self) -> list[AgentMessage]:
        """What would be delivered next: steering, else follow-ups."""
        return self._steering.peek() or self._follow_up.peek()

    def clear_steering_queue(self) -> list[AgentMessage]:
        """Drop the steering messages that wait, and give them back."""
        return self._steering.clear()

    def clear_follow_up_queue(self) -> list[AgentMessage]:
        """Drop the follow-ups that wait, and give them back."""
        return self._follow_up.clear()

    def clear_all_queues(self) -> list[AgentMessage]:
        """Drop everything that waits, and give it back, steering first."""
        return [*self._steering.clear(), *self._follow_up.clear()]

    # --- state ----------------------------------------------------------------------------------

    def set_model(self, model: Model) -> None:
        """Ask another model, from the next turn on."""
        self._conversation.model = model

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Let the model think more or less, from the next turn on."""
        self._conversation.thinking_level = level

    def set_system_prompt(self, text: str) -> None:
        """Tell the model something else before the messages, from the next turn on."""
        self._conversation.system_prompt = text

    def set_tools(self, tools: Sequence[AgentTool]) -> None:
        """Let the model call other tools, from the next turn on."""
        self._conversation.tools = list(tools)

    def set_messages(self, messages: Sequence[AgentMessage]) -> None:
        """Replace the transcript. Raises ``AgentBusyError``; in a run, ``prepare_next_turn``."""
        self._require_idle("set_messages")
        self._conversation.messages = list(messages)

    # --- listeners ------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener(event)`` or ``listener(event, signal)`` for each event.

        Plain or coroutine function; the run waits for it. One that raises ends the run as failed.
        Returns a function that unsubscribes."""
        return self._life.listeners.add(listener)

    def subscribe_batch(self, listener: BatchListener) -> Callable[[], None]:
        """As ``subscribe``, for whole batches of events, before they become state.

        When it raises on a finished message, the message does not enter the transcript and nobody
        else hears of it: so a listener that stores messages can refuse them."""
        return self._life.batch_listeners.add(listener)

    def _require_idle(self, what: str) -> None:
        if self._life.active is not None:
            raise AgentBusyError(f"{what}: a run is active; steer, follow_up, abort or wait for it")
