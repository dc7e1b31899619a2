"""The state of a conversation in memory, and how events change it.

Owns ``InitialState`` (what an agent starts from), ``Conversation`` (the state itself, an agent's
own) and ``AgentState`` (everybody else's view of it, read-only). Does not own when events happen.
"""

from collections.abc import Sequence

from msgspec import Struct

from pi_rpc.agent.events import (
    AgentEnd,
    AgentStart,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from pi_rpc.agent.messages import AgentMessage
from pi_rpc.agent.tool import AgentTool
from pi_rpc.llm.messages import AssistantMessage, ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.stream import AssistantMessageStream

__all__ = ["AgentState", "Conversation", "InitialState"]


class InitialState(Struct, frozen=True, kw_only=True):
    """What an agent starts from; the lists are copied."""

    model: Model
    system_prompt: str = ""
    thinking_level: ThinkingLevel = "off"
    tools: Sequence[AgentTool] = ()
    messages: Sequence[AgentMessage] = ()


class Conversation:
    """The state itself."""

    def __init__(self, initial: InitialState) -> None:
        self.model = initial.model
        self.system_prompt = initial.system_prompt
        self.thinking_level = initial.thinking_level
        self.tools = list(initial.tools)
        self.messages = list(initial.messages)
        self.is_streaming = False
        self.in_turn = False
        self.pending_tool_calls: set[str] = set()
        self.error_message: str | None = None
        self._started: AgentMessage | None = None
        self._stream: AssistantMessageStream | None = None

    @property
    def streaming_message(self) -> AgentMessage | None:
        """The message in progress as it stands. Built when asked for."""
        return self._started if self._stream is None else self._stream.partial

    def begin(self) -> None:
        """A run starts."""
        self.is_streaming = True
        self.error_message = None

    def follow(self, event: LoopEvent) -> None:
        """Take in what happened."""
        match event:
            case MessageUpdate():
                self._stream = event.stream
            case MessageStart():
                self._started, self._stream = event.message, None
            case MessageEnd():
                self._started = self._stream = None
                self.messages.append(event.message)
            case ToolExecutionStart():
                self.pending_tool_calls.add(event.tool_call_id)
            case ToolExecutionEnd():
                self.pending_tool_calls.discard(event.tool_call_id)
            case TurnStart():
                self.in_turn = True
            case TurnEnd():
                self.in_turn = False
                if event.message.error_message:
                    self.error_message = event.message.error_message
            case AgentStart() | AgentEnd() | _:
                pass

    def finish(self) -> None:
        """A run is over, however it ended."""
        self.is_streaming = self.in_turn = False
        self._started = self._stream = None
        self.pending_tool_calls.clear()

    def clear(self) -> None:
        """Forget what was said."""
        self.messages.clear()
        self.error_message = None


class AgentState:
    """A live view. What it gives are copies: changing them changes nothing."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    @property
    def model(self) -> Model:
        """The model that is asked."""
        return self._conversation.model

    @property
    def system_prompt(self) -> str:
        """What the model is told before the messages."""
        return self._conversation.system_prompt

    @property
    def thinking_level(self) -> ThinkingLevel:
        """How much the model is asked to think."""
        return self._conversation.thinking_level

    @property
    def tools(self) -> list[AgentTool]:
        """What the model may call."""
        return list(self._conversation.tools)

    @property
    def messages(self) -> list[AgentMessage]:
        """The finished messages, oldest first."""
        return list(self._conversation.messages)

    @property
    def is_streaming(self) -> bool:
        """A run is active."""
        return self._conversation.is_streaming

    @property
    def streaming_message(self) -> AgentMessage | None:
        """The message in progress as it stands at the moment of looking."""
        return self._conversation.streaming_message

    @property
    def pending_tool_calls(self) -> set[str]:
        """Ids of the calls that have started and not ended."""
        return set(self._conversation.pending_tool_calls)

    @property
    def error_message(self) -> str | None:
        """What went wrong in the last run."""
        return self._conversation.error_message


def streaming_reply(conversation: Conversation) -> AssistantMessage | None:
    """The reply in progress, if it is a reply that is in progress."""
    message = conversation.streaming_message
    return message if isinstance(message, AssistantMessage) else None
