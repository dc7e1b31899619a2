"""What a session of a host is asked to be like, and what it is while it is open.

Owns the values only. Which sessions there are is ``pi_rpc.host.host``'s.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from msgspec import Struct, field

from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import ToolDescription, ToolKind
from pi_rpc.agent.tool_calls import describe_call
from pi_rpc.chance import random_hex
from pi_rpc.harness.configuration import PermissionMode
from pi_rpc.harness.given_back import GivenBack
from pi_rpc.harness.harness import AgentHarness
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Limits
from pi_rpc.host.edited_files import EditedFiles
from pi_rpc.host.project import ProjectSetup
from pi_rpc.host.questions import FrontDoorAsker
from pi_rpc.host.shells import FrontDoorShell
from pi_rpc.llm.messages import ThinkingLevel, ToolCall

__all__ = ["HostedFork", "HostedSession", "SessionOptions"]


class SessionOptions(Struct, frozen=True):
    """What a new session is to be like; None takes the host's default."""

    cwd: Path | None = None
    additional_directories: tuple[str, ...] = ()
    """Absolute paths of directories that exist."""
    name: str | None = None
    model: str | None = None
    thinking_level: ThinkingLevel | None = None
    permission_mode: PermissionMode | None = None
    tools: tuple[str, ...] | None = None
    system_prompt: str | None = None
    append_system_prompt: str = ""
    ephemeral: bool = False
    parent_session: str | None = None
    """The session it comes from: its id, or its file."""
    limits: Limits = field(default_factory=Limits)


class HostedSession(Struct, eq=False):
    """A session that is open here."""

    harness: AgentHarness
    files: EditedFiles
    """What its tools read and write; a front door puts an editor behind it."""
    shell: FrontDoorShell
    """What its tools run commands with; a front door may put another behind it."""
    epoch: str = field(default_factory=lambda: random_hex(8))
    """Changes whenever event numbers start over."""
    pressure: Callable[[], Awaitable[None]] | None = None
    """Returns when the session's receiver can take more; set by a front door."""
    ephemeral: bool = False
    """It is kept nowhere, and ends when it is closed."""
    asker: FrontDoorAsker = field(default_factory=FrontDoorAsker)
    """Asks the person; a front door puts itself behind it."""
    project: ProjectSetup = field(default_factory=ProjectSetup)
    """What its directory brought along when it was looked at last."""
    used: float = 0.0
    """When something went on in it last, by the host's clock."""
    loading: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while that is looked at anew."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.harness.session.session_id

    def described(self, call: ToolCall) -> tuple[ToolKind, ToolDescription]:
        """An earlier call as it is shown to a person: as when it ran, where its tool is known."""
        configuration = self.harness.configuration
        tool = configuration.tools.get(call.name)
        context = ToolContext(cwd=configuration.cwd, files=self.files, shell=self.shell)
        kind: ToolKind = "other" if tool is None else tool.kind
        return kind, describe_call(tool, call, context)

    async def expanded(self, prompt: PromptInput) -> PromptInput:
        """``prompt``, with ``/template`` or ``/skill:name`` replaced by what its file says."""
        return await self.harness.expanded(prompt)


class HostedFork(Struct, frozen=True):
    """A new session, open, that begins as another one did."""

    hosted: HostedSession
    written: GivenBack | None
    """What the person had said where it forks, to be said otherwise; None after ``at``."""
