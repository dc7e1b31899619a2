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
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from msgspec import Struct

from pi_rpc._os.threads import from_any_thread
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.messages import ReadsAs
from pi_rpc.agent.ports import Asker, Choice, NoticeLevel
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness._extension_checks import check_command, check_tool
from pi_rpc.harness._extension_modules import (
    ExtensionSource,
    LoadedModule,
    find_extensions,
    installed_extensions,
)
from pi_rpc.harness._hook_results import check_messages
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.hook_payloads import HookType, On
from pi_rpc.harness.hooks import (
    Hooks,
    asked,
    checked_limit,
    described,
    shortened,
    time_stands_still,
)
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
Severity: TypeAlias = Literal["error", "warning", "info"]
_COMMAND = re.compile(r"/(?P<name>\S+)(?:\s+(?P<arguments>.*))?", re.DOTALL)
_SEVERITIES = get_args(Severity)


class ExtensionCommand(Struct, frozen=True, kw_only=True):
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
        self._notify = from_any_thread(lambda *shown: asker().notify(*shown))
        self._status = from_any_thread(lambda *shown: asker().status(*shown))

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        with time_stands_still():
            return await self._asker().confirm(title, message, timeout_s=timeout_s)

    async def choose(
        self,
        title: str,
        options: Sequence[str | Choice],
        *,
        message: str = "",
        timeout_s: float | None = None,
    ) -> str | None:
        with time_stands_still():
            asker = self._asker()
            return await asker.choose(title, options, message=message, timeout_s=timeout_s)

    async def enter(
        self,
        title: str,
        placeholder: str = "",
        *,
        message: str = "",
        prefill: str = "",
        secret: bool = False,
        timeout_s: float | None = None,
    ) -> str | None:
        with time_stands_still():
            return await self._asker().enter(
                title,
                placeholder,
                message=message,
                prefill=prefill,
                secret=secret,
                timeout_s=timeout_s,
            )

    async def edit(
        self, title: str, text: str = "", *, message: str = "", timeout_s: float | None = None
    ) -> str | None:
        with time_stands_still():
            asker = self._asker()
            return await asker.edit(title, text, message=message, timeout_s=timeout_s)

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        self._notify(message, level)

    def status(self, key: str, text: str | None) -> None:
        self._status(key, text)


class ExtensionApi:
    """What an extension's ``setup`` is given.

    Everything but the questions of ``ui`` works in any thread.
    """

    def __init__(self, extensions: "Extensions", source: str) -> None:
        self._extensions = extensions
        self._staged: list[_Change] | None = []
        self._undo: list[Callable[[], None]] = []
        self._closed = False
        self.source = source
        """The extension's file or entry point."""
        self.on: On = cast(On, self._on)
        """Adds a hook; see ``pi_rpc.harness.hook_payloads``."""
        self.ui: Asker = _Ui(extensions.asker)
        """Asks the person, in coroutine functions, and shows them something."""
        self.cwd: Path = extensions.configuration.cwd
        """The session's working directory."""
        self.session_id: str = extensions.session_id
        self._tell = from_any_thread(extensions.report)
        self._changed = from_any_thread(extensions.commands_changed)

    def notify(self, message: str, severity: Severity = "info") -> None:
        """Tell the person something, as a ``diagnostic``."""
        if not self._closed:
            known = severity if severity in _SEVERITIES else "info"
            text = shortened(str(message))
            self._tell(Diagnostic(severity=known, message=text, source=self.source))

    def tool(self, tool: AgentTool) -> None:
        """Add a tool. Raises ``TypeError`` or ``ValueError`` for one that cannot be used.

        So does adding what exists already; within ``setup`` only when that has returned.
        """
        check_tool(tool)
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

        Raises as ``tool``.
        """
        check_command(name, description, handler)
        command = ExtensionCommand(
            name=name,
            description=description,
            handler=handler,
            time_limit_s=checked_limit(time_limit_s),
            source=self.source,
        )
        self._do(partial(self._extensions.add_command, command))
        if self._staged is None and not self._closed:
            self._changed()

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

        def register() -> Callable[[], None]:
            if wanted:
                removals.append(self._extensions.add_hook(type, handler, time_limit_s, self.source))
            return remove

        def remove() -> None:
            nonlocal wanted
            wanted = False
            for each in removals:
                each()

        self._do(register)
        return remove

    def _do(self, change: "_Change") -> None:
        """Now, or with everything else when ``setup`` has returned."""
        if self._closed:
            return
        if self._staged is not None:
            self._staged.append(change)
        else:
            self._undo.append(change())

    def commit(self) -> None:
        """``setup`` has returned: what it added takes effect. Raises what is wrong with it."""
        staged, self._staged = self._staged or [], None
        for change in staged:
            self._undo.append(change())

    def close(self) -> None:
        """Nothing that the extension still does has an effect."""
        self._closed = True

    def take_back(self) -> None:
        """What it has added is gone."""
        while self._undo:
            self._undo.pop()()


_Change: TypeAlias = Callable[[], Callable[[], None]]
"""Adds something, and gives what takes it back."""


class Extensions:
    """The extensions of one session."""

    def __init__(
        self,
        hooks: Hooks,
        configuration: SessionConfiguration,
        session_id: str,
        asker: Callable[[], Asker],
        report: Callable[[Diagnostic], None],
        *,
        commands_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """``commands_changed``: one has added a command later than in its ``setup``."""
        self.configuration = configuration
        self.commands_changed = commands_changed
        self.session_id = session_id
        self.asker = asker
        self._hooks = hooks
        self._told = report
        self._early: list[Diagnostic] | None = None
        self._loaded: list[tuple[LoadedModule, ExtensionApi]] = []
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

    async def change(self, sources: Sequence[ExtensionSource]) -> list[Diagnostic]:
        """Have these: unload what is not among them, load what is new; what there is to tell."""
        wanted = {source.name for source in sources}
        for module, api in list(self._loaded):
            if api.source not in wanted:
                self._forget(module, api)
        loaded = {api.source for _, api in self._loaded}
        return await self.load([each for each in sources if each.name not in loaded])

    async def _load_one(self, source: ExtensionSource) -> str | None:
        """Why it could not be loaded; None: it was."""
        module, api = LoadedModule(), ExtensionApi(self, source.name)
        self._loaded.append((module, api))
        limit = self._hooks.time_limit_s
        loaded = await asked(self._hooks.threads, source.load, (module,), limit)
        failure = loaded.failure
        if failure is None:
            setup = _setup_of(loaded.value)
            if setup is None:
                failure = "it has no function setup(api)"
            else:
                failure = (await asked(self._hooks.threads, setup, (api,), limit)).failure
        if failure is None:
            try:
                api.commit()
                return None
            except (ValueError, TypeError) as error:
                failure = shortened(str(error))
        self._forget(module, api)
        return failure

    def _forget(self, module: LoadedModule, api: ExtensionApi) -> None:
        self._loaded.remove((module, api))
        api.close()
        api.take_back()
        module.forget()

    def report(self, diagnostic: Diagnostic) -> None:
        """Tell it, or keep it for who loads the extensions."""
        if self._early is not None:
            self._early.append(diagnostic)
        else:
            self._told(diagnostic)

    def close(self) -> None:
        """The session ends: forget the code."""
        for module, api in self._loaded:
            api.close()
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
        return self._hooks.register(type, handler, time_limit_s=time_limit_s, source=source)

    def add_tool(self, tool: AgentTool) -> Callable[[], None]:
        """The session could use it from now on, until what is returned is called."""
        configuration = self.configuration
        if tool.name in configuration.tools:
            raise ValueError(f"there is a tool {tool.name!r} already")
        configuration.tools = {**configuration.tools, tool.name: tool}

        def remove() -> None:
            kept = configuration.tools.items()
            configuration.tools = {name: each for name, each in kept if each is not tool}

        return remove

    def add_command(self, command: ExtensionCommand) -> Callable[[], None]:
        """A prompt can call it from now on, until what is returned is called."""
        if command.name in self._commands:
            other = self._commands[command.name].source
            raise ValueError(f"there is a command {command.name!r} already, of {other}")
        self._commands[command.name] = command
        return lambda: self._commands.__delitem__(command.name)

    def add_role(
        self, struct: type[Struct], reads_as: ReadsAs | None, source: str
    ) -> Callable[[], None]:
        """Messages can have the role from now on, until what is returned is called."""
        roles = self.configuration.roles
        written: Any = struct  # By people, so it may be anything.
        if not (isinstance(written, type) and issubclass(written, Struct)):
            raise TypeError(f"a role is a msgspec Struct, not {struct!r}")
        name = struct.__struct_config__.tag
        if name in roles:
            raise ValueError(f"there is a role {name!r} already")

        def guarded(message: Any) -> list[Any]:
            try:
                read = list(reads_as(message)) if reads_as is not None else []
                check_messages(read)
                return read
            except BaseException as error:  # noqa: BLE001 - nothing of ours is awaited here
                text = f"{source}: a message of the role {name!r} cannot be read:"
                text = f"{text} {described(error)}"
                self.report(Diagnostic(severity="error", message=text, source=source))
                return []

        roles.register(struct, guarded if reads_as is not None else None)
        return lambda: roles.remove(str(name))


def _setup_of(loaded: Any) -> Callable[[ExtensionApi], Any] | None:
    """``setup`` of a module or other object, or a function that is one itself."""
    try:
        setup = loaded if inspect.isroutine(loaded) else getattr(loaded, "setup", None)
    except BaseException:  # noqa: BLE001 - a module's own __getattr__
        return None
    return setup if callable(setup) else None
