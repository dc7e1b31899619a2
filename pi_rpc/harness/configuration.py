"""What a session's next turn uses: model, thinking level, tools, limits, prompts.

Owns these choices and what of them is recorded in the session file. A change takes effect at the
next turn; a turn that has begun keeps what it began with. Does not own where models come from
(``pi_rpc.harness.model_registry``).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from pi_rpc.agent.messages import MessageRoles, default_roles
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.resources import Resources
from pi_rpc.harness.runs import Limits
from pi_rpc.harness.settings import CompactionSettings, RetrySettings
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model, clamp_thinking_level
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.session.context import SessionContext
from pi_rpc.session.entries import (
    ActiveToolsChangeEntry,
    ContextEditEntry,
    CustomEntry,
    LabelEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
)

__all__ = ["PermissionMode", "SessionConfiguration", "SystemPrompt"]

PermissionMode: TypeAlias = Literal["ask", "edits", "full", "readonly"]

SystemPrompt: TypeAlias = Callable[["SessionConfiguration"], str]
"""Makes a system prompt of the choices as they are."""

_NO_MODEL = (
    "no model is configured: set an API key such as ANTHROPIC_API_KEY or OPENAI_API_KEY, or"
    " defaultProvider and defaultModel in settings.json, or install the embedded model with"
    " `pi-rpc local install`"
)


class SessionConfiguration(Struct):
    """The choices that hold for a session, changeable at any time."""

    cwd: Path
    tools: Mapping[str, AgentTool]
    """Every tool the session could use, by name."""
    named_tools: list[str] | None = None
    """The tools somebody named for the model; None leaves the choice to the permission mode."""
    chosen_tools: list[str] | None = None
    """Those of them that were chosen for this session, and are to be in its file; None: none."""
    model: Model | None = None
    thinking_level: ThinkingLevel = "off"
    permission_mode: PermissionMode = "ask"
    limits: Limits = field(default_factory=Limits)
    system_prompt: str | SystemPrompt | None = None
    """Takes the place of preamble, tools and rules; a function is asked before each turn, must be
    quick and must not fail."""
    append_system_prompt: str = ""
    additional_directories: list[str] = field(default_factory=list)
    name: str | None = None
    authenticated: Callable[[Model], bool] = lambda model: True
    """Whether a model can be asked; cheap."""
    unusable: Callable[[Model], str] = lambda model: f"no credential for {model.provider}"
    """Why a model that is not authenticated cannot be asked, and what to do about it."""
    stream_options: StreamOptions = field(default_factory=StreamOptions)
    """What requests have in common. Key, signal, thinking level, session id and idle time limit
    are set for each of them."""
    idle_timeout_s: float = 300.0
    auto_compaction: bool = True
    auto_retry: bool = True
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    branch_reserve_tokens: int = 16_384
    resources: Resources = field(default_factory=Resources)
    """Context files, skills, templates and prompt files of the project and the person."""
    roles: MessageRoles = field(default_factory=default_roles)
    """The roles that messages can have, and how each reads to a model."""

    def require_model(self) -> Model:
        """The model to ask; refuses when there is none or nothing to sign in with."""
        if self.model is None:
            raise HarnessError("modelRequired", _NO_MODEL)
        if not self.authenticated(self.model):
            raise HarnessError(
                "authRequired", self.unusable(self.model), provider=self.model.provider
            )
        return self.model

    @property
    def retry(self) -> RetrySettings:
        """How failed replies are retried."""
        return self.retries if self.auto_retry else replace(self.retries, enabled=False)

    @property
    def level(self) -> ThinkingLevel:
        """The thinking level as the model can do it."""
        return clamp_thinking_level(self.model, self.thinking_level) if self.model else "off"

    def usable_tools(self) -> list[AgentTool]:
        """The tools the model is told of: those named, or the mode's own, less what it refuses."""
        names = self.named_tools
        if names is None:
            # Without commands, files are looked for with the tools that are there for it.
            is_reading = self.permission_mode == "readonly"
            names = [name for name, tool in self.tools.items() if is_reading or not tool.on_request]
        return [
            tool
            for name in names
            if (tool := self.tools.get(name)) is not None and self.refusal(tool) is None
        ]

    def refusal(self, tool: AgentTool) -> str | None:
        """Why the permission mode forbids ``tool``, for the model to read; None: it may run."""
        if self.permission_mode == "readonly" and tool.kind != "read":
            return (
                f"The tool {tool.name} was refused: this session is read-only. It can be allowed"
                " with session/configure and another permissionMode, or --permission-mode."
            )
        return None

    def require_writes_allowed(self, what: str) -> None:
        """Refuses in a read-only session; ``what`` happens only with another mode."""
        if self.permission_mode == "readonly":
            raise HarnessError(
                "permissionDenied",
                f"this session is read-only: {what} with session/configure and another"
                " permissionMode, or --permission-mode",
            )

    def activate(self, names: Sequence[str]) -> None:
        """Choose the tools the model is told of; unknown names are refused."""
        self.named_tools = self.known_tools(names)

    def known_tools(self, names: Sequence[str], *, path: str = "tools") -> list[str]:
        """``names``, each once; refuses those of no tool, and blames ``path`` for them."""
        unknown = [name for name in names if name not in self.tools]
        if unknown:
            raise HarnessError(
                "invalidParams",
                f"unknown tools: {', '.join(unknown)}; known are: {', '.join(self.tools)}",
                path=path,
            )
        return list(dict.fromkeys(names))

    def unrecorded(self, context: SessionContext) -> list[Callable[..., Any]]:
        """Makers of entries for choices that the session file does not hold yet."""
        makers: list[Callable[..., Any]] = []
        model = self.model
        if model is not None and context.model != (model.provider, model.id):
            makers.append(model_change(model))
        if context.thinking_level != self.level:
            makers.append(thinking_level_change(self.level))
        if self.chosen_tools is not None and context.active_tools != self.chosen_tools:
            makers.append(active_tools_change(self.chosen_tools))
        return makers


def model_change(model: Model) -> Callable[..., Any]:
    """Makes the entry that records the choice of a model."""
    return lambda entry_id, parent_id, timestamp: ModelChangeEntry(
        id=entry_id,
        parent_id=parent_id,
        timestamp=timestamp,
        provider=model.provider,
        model_id=model.id,
    )


def thinking_level_change(level: ThinkingLevel) -> Callable[..., Any]:
    """Makes the entry that records the choice of a thinking level."""
    return lambda entry_id, parent_id, timestamp: ThinkingLevelChangeEntry(
        id=entry_id, parent_id=parent_id, timestamp=timestamp, thinking_level=level
    )


def active_tools_change(names: list[str]) -> Callable[..., Any]:
    """Makes the entry that records which tools the model is told of."""
    return lambda entry_id, parent_id, timestamp: ActiveToolsChangeEntry(
        id=entry_id, parent_id=parent_id, timestamp=timestamp, active_tool_names=names
    )


def context_edit(target_id: str) -> Callable[..., Any]:
    """Makes the entry that hides a message from the model; the file keeps the message."""
    return lambda entry_id, parent_id, timestamp: ContextEditEntry(
        id=entry_id, parent_id=parent_id, timestamp=timestamp, target_id=target_id, replacement=None
    )


def label_entry(target_id: str, label: str | None) -> Callable[..., Any]:
    """Makes the entry that labels another; without ``label`` it takes the label off."""
    return lambda entry_id, parent_id, timestamp: LabelEntry(
        id=entry_id,
        parent_id=parent_id,
        timestamp=timestamp,
        target_id=target_id,
        label=label or UNSET,
    )


def custom_entry(custom_type: str) -> Callable[..., Any]:
    """Makes an entry that means something to its author alone."""
    return lambda entry_id, parent_id, timestamp: CustomEntry(
        id=entry_id, parent_id=parent_id, timestamp=timestamp, custom_type=custom_type
    )


def session_info(name: str) -> Callable[..., Any]:
    """Makes the entry that records the session's name; empty clears it."""
    return lambda entry_id, parent_id, timestamp: SessionInfoEntry(
        id=entry_id, parent_id=parent_id, timestamp=timestamp, name=name
    )
