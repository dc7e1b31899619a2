"""The sessions that are kept: found, read and thrown away, whether they are open or not.

Owns what a front door is told where that fails. Where they are kept is a ``SessionRepo``'s, and
which of them are open is ``pi_rpc.host.host``'s.
"""

from pathlib import Path

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.paths import chosen_sessions_dir
from pi_rpc.host.services import Services
from pi_rpc.host.storage import names_a_file, session_file, storage_failure
from pi_rpc.session.listing import SessionPage
from pi_rpc.session.repo import JsonlSessionRepo, SessionRepo
from pi_rpc.session.storage import SessionError, SessionNotFoundError, SessionStorage

__all__ = ["StoredSessions"]


class StoredSessions:
    """Every session that outlives its process."""

    def __init__(self, services: Services, cwd: Path, repo: SessionRepo | None) -> None:
        """``repo`` keeps them, None: files where pi looks for them; ``cwd``: of relative paths."""
        self._services = services
        self._cwd = cwd
        self._repo = repo

    @property
    def repo(self) -> SessionRepo:
        """Where they are kept; settings are read when it is asked for first."""
        if self._repo is None:
            services = self._services
            chosen = chosen_sessions_dir(services.settings)
            self._repo = JsonlSessionRepo(services.folder, session_dir=chosen)
        return self._repo

    async def load(self, named: str | Path, cwd: Path | None, *, read_only: bool) -> SessionStorage:
        """The session of an id or a file; ``cwd`` in place of a directory that is gone."""
        try:
            return await self.repo.open(named, read_only=read_only, cwd=cwd or self._cwd)
        except SessionError as error:
            raise storage_failure(error) from None

    async def throw_away(self, named: str | Path, *, missing_ok: bool = False) -> None:
        """As ``SessionRepo.delete``; with ``missing_ok`` also where there is nothing."""
        try:
            await self.repo.delete(named)
        except SessionError as error:
            if not (missing_ok and isinstance(error, SessionNotFoundError)):
                raise storage_failure(error) from None

    async def page(
        self, *, cwd: str | None, query: str | None, limit: int, cursor: str | None
    ) -> SessionPage:
        """A page of them, the one used last first."""
        try:
            return await self.repo.list(cwd=cwd, query=query, limit=limit, cursor=cursor)
        except ValueError as error:
            raise HarnessError("invalidParams", str(error), path="cursor") from None

    async def as_parent(self, named: str) -> str:
        """What the header of a new session says of the one it comes from: an id, or a file."""
        field = "parentSession"
        wanted: str | Path = named
        if names_a_file(named):
            wanted = await run_blocking(session_file, Path(named), self._cwd, field)
        try:
            session = await self.repo.open(wanted, read_only=True)
        except SessionError as error:
            message = f"{field}: {error.message}"
            raise HarnessError("invalidParams", message, path=field) from None
        await session.aclose()
        return str(session.path or session.session_id)
