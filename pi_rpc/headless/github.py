"""GitHub Actions: the summary of a step, its outputs and annotations.

Owns the runner's file and line formats, and that nothing a model says is taken for a command by
the runner. Does not own what is reported (``pi_rpc.headless.result``).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import UNSET

from pi_rpc.headless.exit_codes import MEANINGS, ExitCode
from pi_rpc.headless.result import RunResult, report

__all__ = ["annotations", "quoted", "quoted_json", "write_files"]

_MAX_SUMMARY = 1024 * 1024 - 1024
"""Bytes of a step's summary that the runner takes."""
_COMMAND = re.compile(r"(?:^|(?<=\r))(\s*):(?=:)|##(?=\[)", re.MULTILINE)
"""For the runner a lone CR ends a line, too."""


def quoted(text: str) -> str:
    """``text`` for a log in which lines that begin with ``::`` and ``##[`` anywhere are commands of
    the runner: they begin otherwise here."""
    return _COMMAND.sub(lambda found: f"{found[1]}: " if found[1] is not None else "# #", text)


def quoted_json(line: bytes) -> bytes:
    """A line of JSON for such a log; it stands for the same."""
    return line.replace(b"##[", b"#\\u0023[")


def annotations(result: RunResult) -> str:
    """The lines that the runner makes annotations of; empty where all is well."""
    lines = []
    if result.exit_code is not ExitCode.DONE:
        level = "warning" if result.exit_code is ExitCode.REFUSED else "error"
        said = result.error_message or MEANINGS[result.exit_code]
        lines.append(_line(level, f"pi-rpc: exit code {int(result.exit_code)}", said))
    lines += [
        _line("warning", f"pi-rpc: {each.tool_name} was not permitted", each.reason)
        for each in result.refusals[:10]  # The runner shows no more of a step.
    ]
    return "".join(lines)


def write_files(result: RunResult, environ: Mapping[str, str] = os.environ) -> None:
    """Write summary and outputs where ``environ`` says; raises ``OSError``. Blocks."""
    if summary := environ.get("GITHUB_STEP_SUMMARY"):
        text = report(result).encode("utf-8", "replace")
        if len(text) > _MAX_SUMMARY:
            text = text[:_MAX_SUMMARY].decode("utf-8", "ignore").encode() + b"\n\n[...]\n"
        _add(Path(summary), text)
    if outputs := environ.get("GITHUB_OUTPUT"):
        parts = [_output(name, value) for name, value in _outputs(result).items()]
        _add(Path(outputs), "".join(parts).encode("utf-8", "replace"))


def _outputs(result: RunResult) -> dict[str, str]:
    said = {
        "answer": result.text,
        "exit-code": str(int(result.exit_code)),
        "stop-reason": result.stop_reason,
        "session-id": result.session_id,
        "cost": f"{result.usage.cost.total:.6f}",
    }
    if result.output is not UNSET:
        said["output"] = msgspec.json.encode(result.output).decode()
    return said


def _output(name: str, value: str) -> str:
    # What the model says must not end the value, so nobody may guess what does.
    end = f"end_{os.urandom(16).hex()}"
    return f"{name}<<{end}\n{value}\n{end}\n"


def _line(level: str, title: str, message: str) -> str:
    return f"::{level} title={_property(title)}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
