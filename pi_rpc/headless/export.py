"""``pi-rpc export``: a session as a file to read or to pass on.

Exit codes: 0 written, 1 it could not be read or written, 2 usage, such as a session that is not
there.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.paths import agent_dir, chosen_sessions_dir
from pi_rpc.harness.settings import load_settings
from pi_rpc.headless._table import in_a_shell
from pi_rpc.headless.exit_codes import ExitCode
from pi_rpc.headless.job import exit_code_of
from pi_rpc.host.export import ExportFormat, export_session
from pi_rpc.host.storage import names_a_file, session_file, storage_failure
from pi_rpc.session.repo import JsonlSessionRepo
from pi_rpc.session.storage import SessionError

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_export"]

_FORMATS: dict[str, ExportFormat] = {".md": "markdown", ".markdown": "markdown", ".jsonl": "jsonl"}


def run_export(arguments: "Namespace") -> int:
    """Write it and print where; returns the exit code."""
    output = Path(arguments.output) if arguments.output else None
    format = arguments.format or _FORMATS.get(output.suffix if output else "", "html")
    try:
        path = anyio.run(_export, arguments.session, format, output, arguments.overwrite)
    except HarnessError as error:
        hint = "; --overwrite replaces it" if "overwrite" in error.message else ""
        sys.stderr.write(f"pi-rpc export: {in_a_shell(error.message)}{hint}\n")
        return exit_code_of(error)
    sys.stdout.write(f"{path}\n")
    return ExitCode.DONE


async def _export(named: str, format: ExportFormat, output: Path | None, overwrite: bool) -> Path:
    folder = agent_dir(os.environ)
    settings, _ = load_settings(folder)
    repo = JsonlSessionRepo(folder, session_dir=chosen_sessions_dir(settings))
    cwd = Path.cwd()
    wanted: str | Path = named
    if names_a_file(named):
        wanted = session_file(Path(named), cwd, "SESSION")
    try:
        session = await repo.open(wanted, read_only=True)
    except SessionError as error:
        raise storage_failure(error) from None
    try:
        return await export_session(session, format, output, cwd, overwrite=overwrite)
    finally:
        await session.aclose()
