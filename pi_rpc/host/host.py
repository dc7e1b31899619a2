"""The host: all sessions of this process, shared by the front doors.

Owns the registry of open sessions, how one is created, opened, found and closed, and what they
share (settings, models, credentials, the embedded model). Knows no wire: a front door subscribes
to a session's harness and converts what it hears.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.ports import ToolContext
from pi_rpc.harness.configuration import PermissionMode, SessionConfiguration
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.harness import AgentHarness
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.model_registry import ModelRegistry
from pi_rpc.harness.paths import sessions_dir
from pi_rpc.harness.resources import ResourceError
from pi_rpc.harness.runs import Limits
from pi_rpc.host.project import ProjectSetup, load_project
from pi_rpc.host.services import Services
from pi_rpc.host.storage import storage_failure
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import THINKING_LEVELS
from pi_rpc.session.context import build_context
from pi_rpc.session.listing import SessionPage, SummaryCache, find_session, list_sessions
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.storage import SessionError, SessionStorage
from pi_rpc.session.store import JsonlSession

__all__ = ["Host", "HostedSession", "SessionOptions"]

_CLOSE_DEADLINE_S = 0.6


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a new session is to be like; None takes the host's default."""

    cwd: Path | None = None
    additional_directories: tuple[str, ...] = ()
    name: str | None = None
    model: str | None = None
    thinking_level: ThinkingLevel | None = None
    permission_mode: PermissionMode | None = None
    tools: tuple[str, ...] | None = None
    system_prompt: str | None = None
    append_system_prompt: str = ""
    ephemeral: bool = False
    parent_session: str | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(eq=False, slots=True)
class HostedSession:
    """A session that is open here."""

    harness: AgentHarness
    epoch: str = field(default_factory=lambda: secrets.token_hex(8))
    """Changes whenever event numbers start over."""
    pressure: Callable[[], Awaitable[None]] | None = None
    """Returns when the session's receiver can take more; set by a front door."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.harness.session.session_id

    async def expanded(self, prompt: PromptInput) -> PromptInput:
        """``prompt``, with ``/template`` or ``/skill:name`` replaced by what its file says."""
        if not isinstance(prompt.content, str) or not prompt.content.startswith("/"):
            return prompt
        resources = self.harness.configuration.resources
        try:
            expansion = await run_blocking(resources.expand, prompt.content)
        except ResourceError as error:
            raise HarnessError("invalidParams", str(error), path="message") from None
        return prompt if expansion is None else replace(prompt, content=expansion.text)


class Host:
    """Every session of this process."""

    def __init__(
        self, services: Services, defaults: SessionOptions, cwd: Path, task_group: TaskGroup
    ) -> None:
        """``defaults`` fill what a session's options leave open; ``task_group`` carries runs."""
        self.services = services
        self.defaults = defaults
        self.cwd = cwd
        self._task_group = task_group
        self._sessions: dict[str, HostedSession] = {}
        self._opening = anyio.Lock()
        self._stopped = False
        self._finishing = False
        self._summaries: SummaryCache = {}
        self._on_open: list[Callable[[HostedSession], None]] = []
        self._on_close: list[Callable[[HostedSession], None]] = []

    @property
    def models(self) -> ModelRegistry:
        """The models there are."""
        return self.services.models

    @property
    def sessions(self) -> list[HostedSession]:
        """The open sessions, oldest first."""
        return list(self._sessions.values())

    def on_open(self, listener: Callable[[HostedSession], None]) -> None:
        """Call ``listener`` with every session opened from now on, before its first event."""
        self._on_open.append(listener)

    def on_close(self, listener: Callable[[HostedSession], None]) -> None:
        """Call ``listener`` with every session that is closed from now on, after its last event."""
        self._on_close.append(listener)

    def get(self, session_id: str) -> HostedSession:
        """The open session with this id."""
        if session_id not in self._sessions:
            raise HarnessError(
                "sessionNotFound",
                f"no session {session_id!r} is open; session/open opens one from disk",
            )
        return self._sessions[session_id]

    async def create(self, options: SessionOptions) -> HostedSession:
        """Start a new session."""
        cwd = self._directory(options.cwd or self.defaults.cwd or self.cwd)
        session: SessionStorage
        if options.ephemeral or self.defaults.ephemeral:
            session = MemorySession(cwd=str(cwd), parent_session=options.parent_session)
        else:
            session = await JsonlSession.create(
                self._folder(cwd),
                str(cwd),
                parent_session=options.parent_session,
            )
        return await self._adopt(session, options)

    async def open(
        self,
        *,
        session_id: str | None = None,
        path: Path | None = None,
        cwd: Path | None = None,
        read_only: bool = False,
    ) -> HostedSession:
        """Open a session from disk by id or path; one that is open already is returned as it is."""
        async with self._opening:
            if path is not None:
                path = (self.cwd / path).resolve()
            for hosted in self._sessions.values():
                if hosted.id == session_id or (path and _resolved(hosted) == path):
                    return hosted
            session = await self._load(session_id, path, cwd, read_only=read_only)
            if session.session_id in self._sessions:
                await session.aclose()
                return self._sessions[session.session_id]
            return await self._adopt(session, SessionOptions(cwd=cwd))

    def folders(self) -> list[Path]:
        """Where session files are looked for: the folder of all, and the one in use."""
        return [self._folder(self.cwd), self.services.folder / "sessions"]

    async def list_sessions(
        self, *, cwd: str | None, query: str | None, limit: int, cursor: str | None
    ) -> SessionPage:
        """A page of the sessions on disk, the one used last first."""
        try:
            return await list_sessions(
                self.folders(),
                cwd=cwd,
                query=query,
                limit=limit,
                cursor=cursor,
                cache=self._summaries,
            )
        except ValueError as error:
            raise HarnessError("invalidParams", str(error), path="cursor") from None

    async def close(self, session_id: str) -> None:
        """End what the session does and let go of it."""
        hosted = self.get(session_id)
        del self._sessions[session_id]
        hosted.harness.stop()
        await hosted.harness.aclose()
        for listener in self._on_close:
            listener(hosted)

    def stop_all(self) -> None:
        """Tell every run to stop, and every later one as it starts; returns at once."""
        self._stopped = True
        for hosted in self._sessions.values():
            hosted.harness.stop()

    @property
    def is_running(self) -> bool:
        """Some session has a run."""
        return any(hosted.harness.is_streaming for hosted in self._sessions.values())

    def finish_all(self) -> None:
        """Nobody will start another run: sessions end what they have begun; returns at once."""
        self._finishing = True
        for hosted in self._sessions.values():
            hosted.harness.finish()

    async def settled(self) -> None:
        """Return once no session has a run, and none has started one meanwhile."""
        while runs := [each.harness.run for each in self._sessions.values() if each.harness.run]:
            for run in runs:
                await run.wait()

    async def aclose(self) -> None:
        """End everything, children included; bounded."""
        with anyio.move_on_after(_CLOSE_DEADLINE_S, shield=True):
            async with anyio.create_task_group() as closing:
                for hosted in self._sessions.values():
                    closing.start_soon(hosted.harness.aclose)
        self._sessions.clear()
        with anyio.move_on_after(_CLOSE_DEADLINE_S, shield=True):
            await self.services.aclose()

    async def _load(
        self, session_id: str | None, path: Path | None, cwd: Path | None, *, read_only: bool
    ) -> SessionStorage:
        try:
            if path is None:
                if session_id is None:
                    raise HarnessError("invalidParams", "name a session by sessionId or path")
                path = await find_session(self.folders(), session_id)
            elif path.suffix != ".jsonl":
                raise HarnessError(
                    "invalidParams", f"a session file ends in .jsonl: {path}", path="path"
                )
            return await JsonlSession.open(path, read_only=read_only, cwd=cwd or self.cwd)
        except SessionError as error:
            raise storage_failure(error) from None

    def _folder(self, cwd: Path) -> Path:
        services = self.services
        return sessions_dir(services.settings, cwd, folder=services.folder)

    def _directory(self, cwd: Path) -> Path:
        if not cwd.is_absolute():
            raise HarnessError("invalidParams", f"cwd is not absolute: {cwd}", path="cwd")
        try:
            if cwd.is_dir():
                return cwd.resolve()
        except (OSError, ValueError):
            pass  # A name too long, a NUL: no directory either.
        raise HarnessError("invalidParams", f"cwd is not a directory: {cwd}", path="cwd")

    async def _adopt(self, session: SessionStorage, options: SessionOptions) -> HostedSession:
        try:
            project = await run_blocking(load_project, self.services.folder, Path(session.cwd))
            configuration = self._configuration(session, options, project)
        except BaseException:
            await session.aclose()
            raise
        hosted: HostedSession

        async def pressure() -> None:
            if hosted.pressure is not None:
                await hosted.pressure()

        harness = AgentHarness(
            session=session,
            configuration=configuration,
            stream_fn=self.services.stream,
            tool_context=self._tool_context(session, configuration),
            task_group=self._task_group,
            pressure=pressure,
        )
        try:
            sources = (*project.extensions, *await run_blocking(self.services.extensions))
            told = await harness.extensions.load(sources)
            wanted = options.tools if options.tools is not None else self.defaults.tools
            if wanted is not None:
                configuration.activate(list(wanted))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await harness.aclose()
            raise
        harness.queue.modes["steer"] = project.settings.steering_mode
        harness.queue.modes["followUp"] = project.settings.follow_up_mode
        if self._stopped:
            harness.stop()
        if self._finishing:
            harness.finish()
        hosted = HostedSession(harness)
        self._sessions[session.session_id] = hosted
        for listener in self._on_open:
            listener(hosted)
        problems = dict.fromkeys([*self.services.problems, *project.problems, *session.notes])
        for problem in problems:
            harness.report(Diagnostic(severity="warning", message=problem))
        for diagnostic in told:
            harness.report(diagnostic)
        if options.name:
            try:
                await harness.rename(options.name)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self.close(hosted.id)
                raise
        return hosted

    def _configuration(
        self, session: SessionStorage, options: SessionOptions, project: ProjectSetup
    ) -> SessionConfiguration:
        defaults = self.defaults
        services = self.services
        branch = session.branch()
        context = build_context(branch)
        model, level = services.choose_model(options.model or defaults.model, context.model)
        mode = options.permission_mode or defaults.permission_mode or "ask"
        tools = services.tools()
        return SessionConfiguration(
            cwd=Path(session.cwd),
            tools=tools,
            model=model,
            thinking_level=(
                options.thinking_level
                or level
                or defaults.thinking_level
                or _known_level(context.thinking_level if branch else None)
                or project.settings.default_thinking_level
            ),
            permission_mode=mode,
            limits=options.limits,
            system_prompt=options.system_prompt or defaults.system_prompt,
            append_system_prompt=options.append_system_prompt or defaults.append_system_prompt,
            additional_directories=list(options.additional_directories),
            name=session.name,
            authenticated=services.models.authenticated,
            idle_timeout_s=project.settings.http_idle_timeout_ms / 1000,
            auto_compaction=project.settings.compaction.enabled,
            auto_retry=project.settings.retry.enabled,
            compaction=project.settings.compaction,
            retries=project.settings.retry,
            branch_reserve_tokens=project.settings.branch_summary.reserve_tokens,
            resources=project.resources,
        )

    def _tool_context(
        self, session: SessionStorage, configuration: SessionConfiguration
    ) -> ToolContext:
        environment = {"PI_SESSION_ID": session.session_id}
        if session.path is not None:
            environment["PI_SESSION_FILE"] = str(session.path)
        return self.services.tool_context(configuration.cwd, environment)


def _resolved(hosted: HostedSession) -> Path | None:
    path = hosted.harness.session.path
    return path.resolve() if path is not None else None


def _known_level(recorded: str | None) -> ThinkingLevel | None:
    """A level from a session file, which may hold anything."""
    return next((level for level in THINKING_LEVELS if level == recorded), None)
