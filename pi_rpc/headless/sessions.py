"""``pi-rpc sessions``: what is stored, without running anything.

Exit codes: 0 done, 1 it could not be read or written, 2 usage, such as a session that is not
there. Exporting is
``pi_rpc.headless.export``'s.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.paths import agent_dir, chosen_sessions_dir
from pi_rpc.harness.settings import load_settings
from pi_rpc.headless._table import in_a_shell, in_columns
from pi_rpc.headless.exit_codes import ExitCode
from pi_rpc.headless.job import exit_code_of
from pi_rpc.host.storage import existing_directory, names_a_file, session_file, storage_failure
from pi_rpc.protocol.encode import encode
from pi_rpc.session.repo import JsonlSessionRepo
from pi_rpc.session.storage import SessionError

if TYPE_CHECKING:
    from argparse import Namespace

    from pi_rpc.session.listing import StoredSession

__all__ = ["run_sessions"]

_BRIEF = 60


def run_sessions(arguments: "Namespace") -> int:
    """Do it; returns the exit code."""
    if arguments.action == "export":
        from pi_rpc.headless.export import run_export

        return run_export(arguments)
    actions = {"list": _list, "show": _show, "delete": _delete}
    try:
        anyio.run(actions[arguments.action], arguments, _repo())
    except HarnessError as error:
        sys.stderr.write(f"pi-rpc sessions: {in_a_shell(error.message)}\n")
        return exit_code_of(error)
    return ExitCode.DONE


def _repo() -> JsonlSessionRepo:
    folder = agent_dir(os.environ)
    settings, _ = load_settings(folder)
    return JsonlSessionRepo(folder, session_dir=chosen_sessions_dir(settings))


async def _list(arguments: "Namespace", repo: JsonlSessionRepo) -> None:
    cwd = None
    if arguments.cwd is not None:
        cwd = existing_directory(Path(os.path.abspath(arguments.cwd)), "--cwd")  # noqa: ASYNC240, PTH100
    page = await repo.list(cwd=cwd, query=arguments.query, limit=arguments.limit)
    if arguments.json:
        for each in page.sessions:
            sys.stdout.buffer.write(encode(_record(each)) + b"\n")
        return
    for line in in_columns([_row(each) for each in page.sessions]) if page.sessions else ():
        sys.stdout.write(f"{line}\n")
    if page.next_cursor is not None:
        sys.stderr.write(f"pi-rpc sessions: there are more than {arguments.limit}; see --limit\n")


def _record(session: "StoredSession") -> dict[str, object]:
    return {
        "sessionId": session.session_id,
        "path": str(session.path),
        "cwd": session.cwd,
        "name": session.name,
        "created": session.created,
        "modified": session.modified,
        "messageCount": session.message_count,
        "firstMessage": session.first_message,
    }


def _row(session: "StoredSession") -> list[str]:
    said = " ".join((session.name or session.first_message).split())
    brief = said if len(said) <= _BRIEF else f"{said[: _BRIEF - 1]}…"
    when = session.modified[:16].replace("T", " ")
    return [session.session_id, when, f"{session.message_count} messages", session.cwd, brief]


async def _show(arguments: "Namespace", repo: JsonlSessionRepo) -> None:
    from pi_rpc.host.export_markdown import markdown_page

    try:
        session = await repo.open(_named(arguments.session), read_only=True)
    except SessionError as error:
        raise storage_failure(error) from None
    try:
        if arguments.json:
            for stored in session.branch():
                sys.stdout.write(stored.json.decode() + "\n")
        else:
            for text in markdown_page(session):
                sys.stdout.write(text)
    finally:
        await session.aclose()


async def _delete(arguments: "Namespace", repo: JsonlSessionRepo) -> None:
    """All of them, or those before the first that cannot be."""
    for name in arguments.session:
        try:
            await repo.delete(_named(name))
        except SessionError as error:
            raise storage_failure(error) from None
        sys.stdout.write(f"{name} is in the trash\n")


def _named(text: str) -> str | Path:
    return session_file(Path(text), Path.cwd(), "SESSION") if names_a_file(text) else text
