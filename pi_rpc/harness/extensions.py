"""Extensions: Python code of people that adds to a session.

Owns what an extension is given (``ExtensionApi``), running each one's ``setup`` once per session,
and the commands they add. Does not own which there are (``pi_rpc.host``), how their code is loaded
(``_extension_modules``) nor hooks (``pi_rpc.harness.hooks``).

An extension takes effect as a whole when its ``setup`` has returned; one that raises, hangs or adds
what cannot be added is reported as a ``diagnostic`` that names it, and nothing of it stays.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from pi_rpc._os.threads import from_any_thread
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.messages import ReadsAs
from pi_rpc.agent.ports import Asker
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness._extension_modules import (
    ExtensionSource,
    LoadedModule,
    find_extensions,
    installed_extensions,
)
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.hook_payloads import HookType, On
from pi_rpc.harness.hooks import Hooks, asked, time_stands_still
from pi_rpc.llm.abort import AbortSignal

__all__ = [
    "ExtensionApi",
    "ExtensionCommand",
    "ExtensionSource",
    "Extensions",
    "find_extensions",
    "installed_extensions",
]

COMMAND_TIME_LIMIT_S = 60.0
_COMMAND = re.compile(r"/(?P<name>\S+)(?:\s+(?P<arguments>.*))?", re.DOTALL)
_COMMAND_NAME = re.compile(r"[^\s/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionCommand:
    """Something that ``/name arguments`` at the beginning of a prompt runs."""

    name: str
    description: str
    handler: Callable[[str], Any]
    """Gets the arguments as they were written."""
    time_limit_s: float
    source: str
    """The extension it is from."""


class _Ui:
    """Asks the person. Time limits stand still meanwhile."""

    def __init__(self, asker: Callable[[], Asker]) -> None:
        self._asker = asker

    async def confirm(self, title: str, message: str) -> bool:
        with time_stands_still():
            return await self._asker().confirm(title, message)

    async def choose(self, title: str, options: list[str]) -> str | None:
        with time_stands_still():
            return await self._asker().choose(title, options)

    async def enter(self, title: str, placeholder: str = "") -> str | None:
        with time_stands_still():
            return await self._asker().enter(title, placeholder)


class ExtensionApi:
    """What an extension's ``setup`` is given. Everything but ``ui`` works in any thread."""

    def __init__(self, extensions: "Extensions", source: str) -> None:
        self._extensions = extensions
        self._staged: list[Callable[[], Any]] | None = []
        self._closed = False
        self.source = source
        """The extension's file or entry point."""
        self.on: On = cast(On, self._on)
        """Adds a hook; see ``pi_rpc.harness.hook_payloads``."""
        self.ui: Asker = _Ui(extensions.asker)
        """Asks the person; for coroutine functions."""
        self.cwd: Path = extensions.configuration.cwd
        """The session's working directory."""
        self.session_id: str = extensions.session_id
        self._tell = from_any_thread(extensions.report)

    def notify(self, message: str, severity: Literal["error", "warning", "info"] = "info") -> None:
        """Tell the person something, as a ``diagnostic``."""
        if not self._closed:
            self._tell(Diagnostic(severity=severity, message=message, source=self.source))

    def tool(self, tool: AgentTool) -> None:
        """Add a tool. Raises ``ValueError`` when there is one of that name."""
        self._do(partial(self._extensions.add_tool, tool))

    def command(
        self,
        name: str,
        description: str,
        handler: Callable[[str], Any],
        *,
        time_limit_s: float = COMMAND_TIME_LIMIT_S,
    ) -> None:
        """Have ``/name arguments`` in a prompt call ``handler(arguments)``.

        Raises ``ValueError`` when the name is none or taken.
        """
        command = ExtensionCommand(
            name=name,
            description=description,
            handler=handler,
            time_limit_s=time_limit_s,
            source=self.source,
        )
        self._do(partial(self._extensions.add_command, command))

    def role(self, struct: type[Struct], reads_as: ReadsAs | None = None) -> None:
        """Add a role of messages and how it reads to a model (None: it is not shown any).

        Raises ``ValueError`` for a struct that is not tagged by ``role``, or whose role exists.
        """
        self._do(partial(self._extensions.add_role, struct, reads_as, self.source))

    def _on(
        self, type: HookType, handler: Callable[[Any], Any], *, time_limit_s: float | None = None
    ) -> Callable[[], None]:
        removals: list[Callable[[], None]] = []
        wanted = True

        def register() -> None:
            if wanted:
                removals.append(self._extensions.add_hook(type, handler, time_limit_s, self.source))

        def remove() -> None:
            nonlocal wanted
            wanted = False
            for each in removals:
                each()

        self._do(register)
        return remove

    def _do(self, change: Callable[[], Any]) -> None:
        """Now, or with everything else when ``setup`` has returned."""
        if self._closed:
            return
        if self._staged is not None:
            self._staged.append(change)
        else:
            change()

    def commit(self) -> None:
        """``setup`` has returned: what it added takes effect. Raises what is wrong with it."""
        staged, self._staged = self._staged or [], None
        for change in staged:
            change()

    def close(self) -> None:
        """Nothing that the extension still does has an effect."""
        self._closed = True


class Extensions:
    """The extensions of one session."""

    def __init__(
        self,
        hooks: Hooks,
        configuration: SessionConfiguration,
        session_id: str,
        asker: Callable[[], Asker],
        report: Callable[[Diagnostic], None],
    ) -> None:
        self.configuration = configuration
        self.session_id = session_id
        self.asker = asker
        self._hooks = hooks
        self._told = report
        self._early: list[Diagnostic] | None = None
        self._undo: list[Callable[[], None]] = []
        """How to take back what the extension that is being loaded has added."""
        self._modules: list[LoadedModule] = []
        self._apis: list[ExtensionApi] = []
        self._commands: dict[str, ExtensionCommand] = {}

    def commands(self) -> list[ExtensionCommand]:
        """What a client may offer."""
        return list(self._commands.values())

    async def load(self, sources: Sequence[ExtensionSource]) -> list[Diagnostic]:
        """Run the ``setup`` of each, one after the other; what there is to tell of it."""
        early: list[Diagnostic] = []
        self._early = early
        try:
            for source in sources:
                failure = await self._load_one(source)
                if failure is not None:
                    message = f"{source.name}: the extension was skipped: {failure}"
                    early.append(Diagnostic(severity="error", message=message, source=source.name))
        finally:
            self._early = None
        return early

    async def _load_one(self, source: ExtensionSource) -> str | None:
        """Why it could not be loaded; None: it was."""
        module, api = LoadedModule(), ExtensionApi(self, source.name)
        self._modules.append(module)
        self._apis.append(api)
        limit = self._hooks.time_limit_s
        loaded = await asked(self._hooks.threads, source.load, (module,), limit)
        failure = loaded.failure
        if failure is None:
            setup = getattr(loaded.value, "setup", None)
            if setup is None and inspect.isroutine(loaded.value):
                setup = loaded.value
            if callable(setup):
                failure = (await asked(self._hooks.threads, setup, (api,), limit)).failure
            else:
                failure = "it has no function setup(api)"
        if failure is None:
            self._undo.clear()
            try:
                api.commit()
                return None
            except (ValueError, TypeError) as error:
                failure = str(error)
                for undo in reversed(self._undo):
                    undo()
            finally:
                self._undo.clear()
        api.close()
        module.forget()
        return failure

    def report(self, diagnostic: Diagnostic) -> None:
        """Tell it, or keep it for who loads the extensions."""
        if self._early is not None:
            self._early.append(diagnostic)
        else:
            self._told(diagnostic)

    def close(self) -> None:
        """The session ends: forget the code."""
        for api in self._apis:
            api.close()
        for module in self._modules:
            module.forget()

    # --- commands --------------------------------------------------------------------------------

    def command(self, text: str) -> tuple[ExtensionCommand, str] | None:
        """The command that a prompt calls, and its arguments; None: it is a prompt."""
        found = _COMMAND.fullmatch(text) if self._commands else None
        command = self._commands.get(found["name"]) if found is not None else None
        if found is None or command is None:
            return None
        return command, found["arguments"] or ""

    async def run(
        self, command: ExtensionCommand, arguments: str, signal: AbortSignal
    ) -> str | None:
        """Run it; what went wrong, in words, which is reported as well."""
        threads, limit = self._hooks.threads, command.time_limit_s
        answer = await asked(threads, command.handler, (arguments,), limit, signal=signal)
        if answer.aborted:
            return f"the command /{command.name} was stopped"
        if answer.failure is None:
            return None
        failure = f"the command /{command.name} failed: {answer.failure}"
        message = f"{command.source}: {failure}"
        self.report(Diagnostic(severity="error", message=message, source=command.source))
        return failure

    # --- what extensions add ---------------------------------------------------------------------

    def add_hook(
        self,
        type: HookType,
        handler: Callable[[Any], Any],
        time_limit_s: float | None,
        source: str,
    ) -> Callable[[], None]:
        """As ``Hooks.on``."""
        remove = self._hooks.register(type, handler, time_limit_s=time_limit_s, source=source)
        self._undo.append(remove)
        return remove

    def add_tool(self, tool: AgentTool) -> None:
        """The session could use it from now on."""
        configuration = self.configuration
        if not isinstance(tool, AgentTool):
            raise TypeError(f"a tool is an AgentTool, not {type(tool).__name__}")
        if tool.name in configuration.tools:
            raise ValueError(f"there is a tool {tool.name!r} already")
        before = configuration.tools
        configuration.tools = {**before, tool.name: tool}
        self._undo.append(lambda: setattr(configuration, "tools", before))

    def add_command(self, command: ExtensionCommand) -> None:
        """A prompt can call it from now on."""
        if not _COMMAND_NAME.fullmatch(command.name):
            raise ValueError(f"{command.name!r} is no name of a command: no spaces, no slashes")
        if command.name in self._commands:
            other = self._commands[command.name].source
            raise ValueError(f"there is a command {command.name!r} already, of {other}")
        self._commands[command.name] = command
        self._undo.append(lambda: self._commands.__delitem__(command.name))

    def add_role(self, struct: type[Struct], reads_as: ReadsAs | None, source: str) -> None:
        """Messages can have the role from now on."""
        roles = self.configuration.roles
        written: Any = struct  # By people, so it may be anything.
        if not (isinstance(written, type) and issubclass(written, Struct)):
            raise TypeError(f"a role is a msgspec Struct, not {struct!r}")
        name = struct.__struct_config__.tag
        if name in roles:
            raise ValueError(f"there is a role {name!r} already")

        def guarded(message: Any) -> list[Any]:
            try:
                return list(reads_as(message)) if reads_as is not None else []
            except Exception as error:  # noqa: BLE001 - a request must not fail for one message
                text = f"{source}: a message of the role {name!r} cannot be read: {error}"
                self.report(Diagnostic(severity="error", message=text, source=source))
                return []

        roles.register(struct, guarded if reads_as is not None else None)
        self._undo.append(lambda: roles.remove(str(name)))
