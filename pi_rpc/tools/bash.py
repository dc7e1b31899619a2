"""The ``bash`` tool: runs a command of the shell and tells the model what came of it.

Owns the arguments and the words around the output. Does not own how commands run and their output
is kept and shown (``pi_rpc.tools.command_runs``).
"""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from pi_rpc.agent.ports import CommandExit, ToolContext
from pi_rpc.agent.tool import AgentTool, OnUpdate, ToolDescription, ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.tools._command_output import FULL_OUTPUT_LIMIT, CommandOutput
from pi_rpc.tools._freshness import unsaved_note
from pi_rpc.tools._steps import port_failures
from pi_rpc.tools._truncate import MAX_BYTES, MAX_LINES, Truncation, format_size
from pi_rpc.tools.command_runs import run_command

__all__ = ["bash_tool"]

_MAX_TIMEOUT_S = 2_147_483.647
_MAX_TITLE = 120
_MORE_TIME = "Set timeout (in seconds, 0 for no limit) to allow more."

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "What the shell is to run"},
        "timeout": {
            "type": "number",
            "minimum": 0,
            "description": "Time limit in seconds; 0 for none. Leave it out for the usual limit",
        },
    },
    "required": ["command"],
    "additionalProperties": False,
}


ABORT_GRACE_S = 2.0
"""After an abort, the time to end a command's whole tree and give back what it had printed."""


def bash_tool() -> AgentTool:
    """The ``bash`` tool. Details: ``{truncation?, fullOutputPath?}``.

    Structured content: ``{output, truncated, full_output_path?, exit_code, wall_time_seconds}``;
    ``exit_code`` is null when the command was ended by a time limit or an abort.
    """
    return AgentTool(
        name="bash",
        label="Bash",
        description=(
            "Run a command with bash in the working directory. Returns standard output and error "
            f"together, the last {MAX_LINES} lines or {format_size(MAX_BYTES)} of them, whichever "
            "is less; longer output is also written to a file, which the result names. There is "
            "no input and no terminal. Each call is a new shell. A command that runs longer than "
            "the time limit is ended with all it started; background processes (&) of a command "
            "that has finished keep running until the session closes."
        ),
        parameters=_PARAMETERS,
        execute=_execute,
        kind="execute",
        abort_grace_s=ABORT_GRACE_S,
        describe=_describe,
        snippet="Run shell commands",
    )


async def _execute(
    tool_call_id: str,
    params: dict[str, Any],
    signal: AbortSignal,
    on_update: OnUpdate,
    context: ToolContext,
) -> ToolResult:
    timeout_s = _time_limit(params.get("timeout"), context.command_timeout_s)

    def on_live(delta: str, omitted_bytes: int) -> None:
        omitted = omitted_bytes or UNSET
        on_update(ToolResult(content=[], delta=delta, omitted_bytes=omitted))

    on_update(ToolResult(content=[], delta=""))
    unsaved = await context.files.unsaved()
    note = unsaved_note(unsaved, context.cwd) if unsaved else None
    with port_failures():
        async with context.changes.around_command(context.cwd, tool_call_id):
            run = await run_command(
                context.shell,
                params["command"],
                cwd=context.cwd,
                env=context.environment,
                timeout_s=timeout_s,
                signal=signal,
                on_live=on_live,
            )
    return _result(run.output, run.exit, timeout_s, note)


def _time_limit(asked: Any, usual: float | None) -> float | None:
    """The limit in seconds, None for none."""
    if asked is None:
        return usual or None
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        raise ToolFailure("timeout must be a number of seconds.")
    if not math.isfinite(asked) or asked < 0:
        raise ToolFailure("timeout must be a positive number of seconds, or 0 for no limit.")
    if asked > _MAX_TIMEOUT_S:
        raise ToolFailure(f"timeout may be at most {_MAX_TIMEOUT_S} seconds; use 0 for no limit.")
    return float(asked) or None


def _result(
    output: CommandOutput, end: CommandExit, timeout_s: float | None, unsaved: str | None
) -> ToolResult:
    shown = output.shown()
    outcome = _outcome(end, timeout_s)
    notes = [_note(shown, output)] if shown.truncated else []
    if outcome is not None:
        notes.append(outcome)
    if unsaved is not None:
        notes.append(unsaved)
    content = shown.content or "(no output)"
    if notes:
        content = "\n\n".join([content.removesuffix("\n"), *notes])
    text, left_out = output.for_programs()
    details: dict[str, Any] = {"truncation": shown.details()} if shown.truncated else {}
    structured: dict[str, Any] = {"output": text, "truncated": left_out}
    if output.file_path is not None:
        details["fullOutputPath"] = structured["full_output_path"] = str(output.file_path)
    structured["exit_code"] = end.exit_code if end.reason == "exited" else None
    structured["wall_time_seconds"] = round(end.duration_s, 3)
    return ToolResult.of_text(
        content,
        details=details,
        structured_content=structured,
        is_error=UNSET if outcome is None else True,
    )


def _outcome(end: CommandExit, timeout_s: float | None) -> str | None:
    """What is to be said of a command that did not end well."""
    if end.reason == "exited":
        return f"Command exited with code {end.exit_code}" if end.exit_code else None
    timed_out = end.reason == "timed_out"
    text = f"Command timed out after {timeout_s:.15g} seconds" if timed_out else "Command aborted"
    if end.exit_code is not None:
        text += (
            f" (the shell itself had exited with code {end.exit_code}; "
            "what it left in the background was still writing output)"
        )
    return f"{text}. {_MORE_TIME}" if timed_out else text


def _note(shown: Truncation, output: CommandOutput) -> str:
    """Which part of the output this is, and where to find the rest."""
    last = shown.total_lines
    if shown.last_line_partial:
        what = (
            f"Showing the last {format_size(shown.output_bytes)} of line {last}, "
            f"which has {format_size(output.last_line_bytes)}"
        )
    else:
        what = f"Showing lines {last - shown.output_lines + 1}-{last} of {last}"
        if shown.truncated_by == "bytes":
            what += f" ({format_size(MAX_BYTES)} limit)"
    if output.file_path is None:
        return f"[{what}. The full output was not kept: {output.file_error}]"
    if not output.file_complete:
        megabytes = FULL_OUTPUT_LIMIT // 1_000_000
        return f"[{what}. The first {megabytes} MB of the output: {output.file_path}]"
    return f"[{what}. Full output: {output.file_path}]"


def _describe(params: Mapping[str, Any], context: ToolContext | None) -> ToolDescription:
    del context
    title = "$ " + " ".join(str(params.get("command", "")).split())
    if len(title) > _MAX_TITLE:
        title = title[: _MAX_TITLE - 1] + "…"
    return ToolDescription(title=title)
