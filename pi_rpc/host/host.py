"""The host: all sessions of this process, shared by the front doors.

Owns the registry of open sessions, and how one is created, opened, found, forked, closed and
deleted. What one begins with is ``pi_rpc.host.building``'s, those that are kept are
``pi_rpc.host.stored_sessions``'. Knows no wire: a front door subscribes to a session's harness and
converts what it hears.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.given_back import given_back
from pi_rpc.harness.model_registry import ModelRegistry
from pi_rpc.host.building import Choices, build, make_ready
from pi_rpc.host.hosted import HostedFork, HostedSession, SessionOptions
from pi_rpc.host.services import Services
from pi_rpc.host.storage import (
    existing_directories,
    existing_directory,
    session_file,
    storage_failure,
)
from pi_rpc.host.stored_sessions import StoredSessions
from pi_rpc.host.unloading import Unloaded, can_unload, look_every_s
from pi_rpc.session.repo import ForkPosition, MemorySessionRepo, SessionRepo
from pi_rpc.session.storage import SessionError, SessionStorage

__all__ = ["Host", "HostedFork", "HostedSession", "SessionOptions"]

_log = logging.getLogger("pi_rpc.host")

_CLOSE_DEADLINE_S = 0.6


class Host:
    """Every session of this process."""

    def __init__(
        self,
        services: Services,
        defaults: SessionOptions,
        cwd: Path,
        task_group: TaskGroup,
        *,
        repo: SessionRepo | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``defaults`` fill what a session's options leave open; ``task_group`` carries runs;
        ``repo`` keeps the sessions, None: files where pi looks for them. ``clock``, in seconds,
        says how long a session was idle."""
        self.services = services
        self.defaults = defaults
        self.cwd = cwd
        self.stored = StoredSessions(services, cwd, repo)
        self._task_group = task_group
        self._clock = clock
        self._sessions: dict[str, HostedSession] = {}
        self._unloaded: dict[str, Unloaded] = {}
        self._needed: list[Callable[[HostedSession], bool]] = []
        self._opening = anyio.Lock()
        self._first_opened = anyio.Event()
        self._stopped = False
        self._finishing = False
        self._on_open: list[Callable[[HostedSession], None]] = []
        self._on_close: list[Callable[[HostedSession], None]] = []

    @property
    def models(self) -> ModelRegistry:
        """The models there are."""
        return self.services.models

    @property
    def sessions(self) -> list[HostedSession]:
        """The open sessions that are in memory, the first loaded first."""
        return list(self._sessions.values())

    def on_open(self, listener: Callable[[HostedSession], None]) -> None:
        """Call ``listener`` with every session opened from now on, before its first event."""
        self._on_open.append(listener)

    def on_close(self, listener: Callable[[HostedSession], None]) -> None:
        """Call ``listener`` with every session that leaves the memory from now on, after its last
        event: closed, or unloaded. ``has`` tells which."""
        self._on_close.append(listener)

    def keep_while(self, needed: Callable[[HostedSession], bool]) -> None:
        """Unload no session as long as ``needed`` says so."""
        self._needed.append(needed)

    def has(self, session_id: str) -> bool:
        """The session is open, in memory or unloaded."""
        return session_id in self._sessions or session_id in self._unloaded

    async def get(self, session_id: str) -> HostedSession:
        """The open session with this id; loaded again, with another epoch, if it was unloaded.

        Raises, beside ``sessionNotFound``, what opening its file raises.
        """
        hosted = self._sessions.get(session_id)
        if hosted is None and session_id in self._unloaded:
            async with self._opening:
                hosted = self._sessions.get(session_id) or await self._load_again(session_id)
        if hosted is None:
            raise HarnessError(
                "sessionNotFound",
                f"no session {session_id!r} is open; session/open opens one from disk",
            )
        hosted.used = self._clock()
        return hosted

    # --- sessions come and go --------------------------------------------------------------------

    async def create(self, options: SessionOptions) -> HostedSession:
        """Start a new session."""
        cwd = await self._checked(options)
        ephemeral = options.ephemeral or self.defaults.ephemeral
        parent = await self._parent(options.parent_session)
        session = await (MemorySessionRepo() if ephemeral else self.stored.repo).create(
            cwd, parent_session=parent
        )
        return await self._adopt(session, replace(options, cwd=cwd, ephemeral=ephemeral))

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
                path = await run_blocking(session_file, path, self.cwd, "path")
            for hosted in self._sessions.values():
                if hosted.id == session_id or (path and _resolved(hosted) == path):
                    return hosted
            for known, unloaded in self._unloaded.items():
                if known == session_id or (path and unloaded.path.resolve() == path):
                    again = await self._load_again(known)
                    assert again is not None
                    return again
            if cwd is not None:
                cwd = await run_blocking(existing_directory, cwd, "cwd")
            if (named := path or session_id) is None:
                raise HarnessError("invalidParams", "name a session by sessionId or path")
            session = await self.stored.load(named, cwd, read_only=read_only)
            if session.session_id in self._sessions:
                await session.aclose()
                return self._sessions[session.session_id]
            return await self._adopt(session, SessionOptions(cwd=cwd))

    @asynccontextmanager
    async def visit(
        self, session_id: str, *, read_only: bool = False
    ) -> AsyncIterator[HostedSession]:
        """The session of an id: as it is open here, else from disk, open for the moment only.

        Nobody is told of one that was not open, it loads no extensions, and nothing must be run in
        it. Raises what ``open`` raises.
        """
        if (hosted := self._sessions.get(session_id)) is not None:
            yield hosted
            return
        async with self._opening, self._visit(session_id, read_only=read_only) as hosted:
            yield hosted

    async def fork(
        self,
        session_id: str,
        entry_id: str | None = None,
        *,
        position: ForkPosition | None = None,
    ) -> HostedFork:
        """A new session, open, with the path of another to an entry; without one, its clone.

        ``position`` as in ``SessionRepo.fork``; None: ``before`` an entry, ``at`` the leaf. The
        source may be closed, running, or written by another process: what it holds now counts. Of
        one that is open here its choices are taken over, and that it is ephemeral.
        """
        position = position or ("at" if entry_id is None else "before")
        async with self._opening, self._visit(session_id, read_only=True) as source:
            session = source.harness.session
            repo = MemorySessionRepo() if source.ephemeral else self.stored.repo
            cwd = source.harness.configuration.cwd
            # A run may move the leaf meanwhile.
            entry_id = session.leaf_id if entry_id is None else entry_id
            try:
                target = session.entry(entry_id) if entry_id and position == "before" else None
                written = None if target is None else given_back(session, target)
                fork = await repo.fork(session, entry_id, position=position, cwd=cwd)
            except SessionError as error:
                raise storage_failure(error) from None
            options = SessionOptions(cwd=cwd, ephemeral=source.ephemeral)
            try:
                like = Choices.of(source.harness)
                hosted = await self._adopt(fork.session, options, like=like)
            except BaseException:
                # Nobody has been told of it.
                with anyio.CancelScope(shield=True), suppress(SessionError):
                    await repo.delete(fork.session.path or fork.session.session_id)
                raise
        return HostedFork(hosted, written)

    @asynccontextmanager
    async def reading(self, session_id: str) -> AsyncIterator[SessionStorage]:
        """What a session holds, to be read only; it need not be open, and another process may be
        writing it."""
        if (hosted := self._sessions.get(session_id)) is not None:
            yield hosted.harness.session
            return
        unloaded = self._unloaded.get(session_id)
        session = await self.stored.load(
            unloaded.path if unloaded else session_id, None, read_only=True
        )
        try:
            yield session
        finally:
            with anyio.CancelScope(shield=True):
                await session.aclose()

    async def delete(self, session_id: str) -> None:
        """Throw a session away, as ``SessionRepo.delete`` does; an open one is closed first."""
        hosted = self._sessions.get(session_id)
        if hosted is None:
            async with self._opening:
                unloaded = self._unloaded.get(session_id)
                await self.stored.throw_away(unloaded.path if unloaded else session_id)
                self._unloaded.pop(session_id, None)
            await self._forget(session_id)
            return
        session = hosted.harness.session
        if session.read_only:
            # Perhaps because another process writes it. Then it stays, and stays open.
            await self.stored.throw_away(session.path or session_id)
        await self.close(session_id)
        if not (session.read_only or hosted.ephemeral):
            # Its file begins with its first entry.
            await self.stored.throw_away(session.path or session_id, missing_ok=True)
        await self._forget(session_id)

    async def _forget(self, session_id: str) -> None:
        """Nothing is kept of a session that was thrown away."""
        await run_blocking(self.services.checkpoints.forget, session_id)

    async def close(self, session_id: str) -> None:
        """End what the session does and let go of it."""
        if self._unloaded.pop(session_id, None) is not None:
            return
        hosted = await self.get(session_id)
        del self._sessions[session_id]
        hosted.harness.stop()
        await self._let_go(hosted)

    async def unload_idle(self) -> None:
        """Take out of memory what has been idle for long enough; for the settings' time."""
        idle_s = self.services.settings.idle_unload_s
        for hosted in self.sessions if idle_s else ():
            if not self._is_idle(hosted):
                hosted.used = self._clock()
            elif self._clock() - hosted.used >= idle_s:
                async with self._opening:
                    await self._unload(hosted)

    def _is_idle(self, hosted: HostedSession) -> bool:
        return can_unload(hosted) and not any(needed(hosted) for needed in self._needed)

    async def _unload(self, hosted: HostedSession) -> None:
        path = hosted.harness.session.path
        # A session without entries has no file to come back from.
        there = path is not None and await run_blocking(path.exists)
        if not there or self._sessions.get(hosted.id) is not hosted or not self._is_idle(hosted):
            return
        self._unloaded[hosted.id] = Unloaded.of(hosted)
        del self._sessions[hosted.id]
        _log.info("session %s is idle and was unloaded", hosted.id)
        await self._let_go(hosted)

    async def _let_go(self, hosted: HostedSession) -> None:
        """Whoever is cancelled meanwhile: what has begun to close is closed, and it is told."""
        with anyio.CancelScope(shield=True):
            await hosted.harness.aclose()
            for listener in self._on_close:
                listener(hosted)

    async def _load_again(self, session_id: str) -> HostedSession | None:
        """An unloaded session, in memory again; None when it was closed meanwhile."""
        unloaded = self._unloaded.get(session_id)
        if unloaded is None:
            return None
        session = await self.stored.load(unloaded.path, unloaded.cwd, read_only=unloaded.read_only)
        if session.session_id != session_id:
            await session.aclose()
            text = f"{unloaded.path} holds another session now"
            raise HarnessError("sessionNotFound", text)
        options = SessionOptions(cwd=unloaded.cwd)
        hosted = await self._adopt(session, options, like=unloaded.choices, is_news=True)
        hosted.harness.permissions.keep(unloaded.permitted)
        return hosted

    async def watch_for_idle(self) -> None:
        """Call ``unload_idle`` now and then, unless it is turned off; until cancelled."""
        await self._first_opened.wait()
        while idle_s := self.services.settings.idle_unload_s:
            await anyio.sleep(look_every_s(idle_s))
            await self.unload_idle()

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

    # --- making one ------------------------------------------------------------------------------

    async def _checked(self, options: SessionOptions) -> Path:
        """The working directory that ``options`` name; refuses directories that are none."""

        def check() -> Path:
            existing_directories(options.additional_directories, "additionalDirectories")
            return existing_directory(options.cwd or self.defaults.cwd or self.cwd, "cwd")

        return await run_blocking(check)

    async def _parent(self, named: str | None) -> str | None:
        """What the header of a new session says of the one it comes from."""
        if named is None:
            return None
        hosted = self._sessions.get(named)
        return await self.stored.as_parent(named) if hosted is None else _place(hosted)

    @asynccontextmanager
    async def _visit(self, session_id: str, *, read_only: bool) -> AsyncIterator[HostedSession]:
        hosted = self._sessions.get(session_id) or await self._load_again(session_id)
        if hosted is not None:
            hosted.used = self._clock()
            yield hosted
            return
        session = await self.stored.load(session_id, None, read_only=read_only)
        hosted = await self._build(session, SessionOptions())
        try:
            yield hosted
        finally:
            with anyio.CancelScope(shield=True):
                await hosted.harness.aclose()

    async def _build(self, session: SessionStorage, options: SessionOptions) -> HostedSession:
        return await build(self.services, self.defaults, options, session, self._task_group)

    async def _adopt(
        self,
        session: SessionStorage,
        options: SessionOptions,
        *,
        like: Choices | None = None,
        is_news: bool = False,
    ) -> HostedSession:
        """``session`` is open from now on, with the choices ``like`` another; ``is_news``: it was
        before, with another epoch."""
        hosted = await self._build(session, options)
        tools = options.tools if options.tools is not None else self.defaults.tools
        told = await make_ready(hosted, self.services, tools, like)
        harness = hosted.harness
        if self._stopped:
            harness.stop()
        if self._finishing:
            harness.finish()
        self._sessions[session.session_id] = hosted
        self._unloaded.pop(session.session_id, None)
        hosted.used = self._clock()
        for listener in self._on_open:
            listener(hosted)
        if is_news:
            harness.changed(epoch=hosted.epoch)
        self._first_opened.set()
        for diagnostic in told:
            harness.report(diagnostic)
        if options.name:
            try:
                await harness.rename(options.name)
            except BaseException:
                await self.close(hosted.id)
                raise
        return hosted


def _resolved(hosted: HostedSession) -> Path | None:
    path = hosted.harness.session.path
    return path.resolve() if path is not None else None


def _place(hosted: HostedSession) -> str:
    session = hosted.harness.session
    return str(session.path or session.session_id)
