"""What a person chooses on the way: model, tools, modes, a name.

Owns the part of ``AgentHarness`` that changes choices and records them. What the choices are is
``pi_rpc.harness.configuration``'s. A change holds from the next turn on, also while a run goes on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from pi_rpc.agent.queue import QueueMode
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness.configuration import (
    SessionConfiguration,
    active_tools_change,
    model_change,
    session_info,
    thinking_level_change,
)
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.persistence import MakeEntry
from pi_rpc.harness.queue import MessageQueue
from pi_rpc.harness.resources import Resources
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.session.storage import SessionError

__all__ = ["Choices"]


class Choices(ABC):
    """The choices of a session, and how they are changed."""

    configuration: SessionConfiguration
    queue: MessageQueue
    changed: Callable[..., None]
    """Tells that fields of the session's state changed."""

    @abstractmethod
    async def record(self, make: MakeEntry) -> None:
        """Store what was chosen."""

    async def set_model(self, model: Model) -> None:
        """Ask another model from the next turn on."""
        await self._choose(lambda: model_change(model), model=model)

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Think more or less from the next turn on; the nearest level the model offers."""
        choices = self.configuration
        await self._choose(lambda: thinking_level_change(choices.level), thinking_level=level)

    async def set_active_tools(self, names: Sequence[str]) -> None:
        """Tell the model of these tools from the next turn on; refuses unknown ones."""
        chosen = self.configuration.known_tools(names, path="activeTools")
        await self._choose(
            lambda: active_tools_change(chosen), named_tools=chosen, chosen_tools=chosen
        )

    def set_tools(self, tools: Sequence[AgentTool]) -> None:
        """Have these tools from the next turn on, and tell the model of all of them."""
        self.configuration.tools = {tool.name: tool for tool in tools}
        self.configuration.named_tools = self.configuration.chosen_tools = None

    def set_resources(self, resources: Resources) -> None:
        """Have these skills, templates and context files from the next turn on."""
        self.configuration.resources = resources

    async def rename(self, name: str) -> None:
        """Give the session a name for people; empty for none."""
        cleaned = " ".join(name.split())
        await self._choose(lambda: session_info(cleaned), name=cleaned or None)
        self.changed(name=cleaned or None)

    async def _choose(self, entry: Callable[[], MakeEntry], **choices: Any) -> None:
        """Change fields of the configuration at once, unless that cannot be stored."""
        before = {name: getattr(self.configuration, name) for name in choices}
        for name, value in choices.items():
            setattr(self.configuration, name, value)
        try:
            await self.record(entry())
        except (SessionError, HarnessError):
            for name, value in choices.items():
                # Somebody may have chosen again meanwhile.
                if getattr(self.configuration, name) is value:
                    setattr(self.configuration, name, before[name])
            raise

    @property
    def steering_mode(self) -> QueueMode:
        """How much steering goes in at once."""
        return self.queue.modes["steer"]

    @steering_mode.setter
    def steering_mode(self, mode: QueueMode) -> None:
        self.queue.modes["steer"] = mode

    @property
    def follow_up_mode(self) -> QueueMode:
        """How many follow-ups go in at once."""
        return self.queue.modes["followUp"]

    @follow_up_mode.setter
    def follow_up_mode(self, mode: QueueMode) -> None:
        self.queue.modes["followUp"] = mode
