"""How a run went: what scripts read at its end.

Owns the result record and the report for people. Does not own where they go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from pi_rpc.headless.exit_codes import MEANINGS, ExitCode
from pi_rpc.llm.messages import Usage

__all__ = ["Refusal", "RunResult", "report"]

_SHOWN_REFUSALS = 20
_BRIEF = 300


class Refusal(Struct, frozen=True):
    """A call that was not permitted."""

    tool_name: str
    reason: str


class RunResult(Struct):
    """Everything about a run that has ended."""

    session_id: str
    model: str = ""
    run_id: str = ""
    stop_reason: str = "stop"
    text: str = ""
    """The answer."""
    output: Any = UNSET
    """What the answer is as JSON, where a schema was given and it fits."""
    usage: Usage = Usage.ZERO
    turns: int = 0
    error_message: str = ""
    refusals: Sequence[Refusal] = ()
    duration_ms: float = 0.0
    handled: bool = False
    """A command of an extension ran, and no model was asked."""
    exit_code: ExitCode = field(default=ExitCode.DONE)

    def record(self) -> dict[str, Any]:
        """The record as a JSON object."""
        record: dict[str, Any] = {"type": "result", "sessionId": self.session_id}
        if self.handled:
            record["disposition"] = "handled"
        else:
            record |= {
                "runId": self.run_id,
                "text": self.text,
                "usage": self.usage,
                "cost": self.usage.cost.total,
                "turns": self.turns,
            }
        if self.output is not UNSET:
            record["output"] = self.output
        if self.refusals:
            record["refused"] = [
                {"toolName": each.tool_name, "reason": each.reason} for each in self.refusals
            ]
        if not self.handled or self.error_message:
            record["stopReason"] = self.stop_reason
        if self.error_message:
            record["errorMessage"] = self.error_message
        return record | {"durationMs": self.duration_ms, "exitCode": int(self.exit_code)}


def report(result: RunResult) -> str:
    """A run for people, in Markdown: the answer, then what is to be known about it."""
    parts = []
    if result.exit_code is not ExitCode.DONE:
        said = result.error_message or MEANINGS[result.exit_code]
        parts.append(f"> **Exit code {int(result.exit_code)}.** {_plain(said)}")
    if result.output is not UNSET:
        parts.append(_fenced(msgspec.json.format(msgspec.json.encode(result.output)).decode()))
    elif result.text.strip():
        parts.append(result.text.strip())
    if result.refusals:
        shown = result.refusals[:_SHOWN_REFUSALS]
        lines = [f"- `{_plain(each.tool_name)}`: {_plain(each.reason)}" for each in shown]
        parts.append("\n".join(["Not permitted:", "", *lines]))
    parts.append("\n".join(["| | |", "|---|---|", *(_row(row) for row in _facts(result).items())]))
    return "\n\n".join(parts) + "\n"


def _facts(result: RunResult) -> Mapping[str, str]:
    usage = result.usage
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "Model": _plain(result.model),
        "Turns": str(result.turns),
        "Tokens": f"{prompt:,} in, {usage.output:,} out",
        "Cost": f"${usage.cost.total:.4f}",
        "Time": f"{result.duration_ms / 1000:.1f} s",
        "Session": result.session_id,
    }


def _row(fact: tuple[str, str]) -> str:
    return f"| {fact[0]} | {fact[1]} |"


def _plain(text: str) -> str:
    """On one line, in brief, and nothing that Markdown or HTML would take for its own."""
    line = " ".join(text.split())
    line = line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"
    for char in "\\<>|[]*_`":
        line = line.replace(char, f"\\{char}")
    return line


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}json\n{text}\n{fence}"
