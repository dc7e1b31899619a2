"""A run as a person wants to see it in a terminal.

Owns the drawing of wire events (plain JSON objects, as in ``agent/event``) as text: the reply as it
streams, each tool call with its arguments and result in brief, usage and time at the end. Works on
what is sent, so it draws a daemon's run and a run of this process alike.
"""

import json
import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

from pi_rpc.headless._table import harmless, in_a_shell

__all__ = ["RunRenderer", "Writer"]

_BRIEF = 160
_RESULT_LINES = 6


class Writer(Protocol):
    """What is drawn on."""

    def write(self, text: str, /) -> int:
        """Write a text."""
        ...

    def flush(self) -> None:
        """Keep nothing back."""
        ...

    def isatty(self) -> bool:
        """Somebody is watching."""
        ...


class RunRenderer:
    """Draws one run, event by event."""

    def __init__(self, answer: Writer | None, notes: Writer) -> None:
        """The reply goes to ``answer``, None: nowhere; everything about it to ``notes``. They may
        be the same."""
        self._answer = answer
        self._notes = notes
        self._answer_is_terminal = answer is not None and answer.isatty()
        self._colour = notes.isatty() and "NO_COLOR" not in os.environ
        self._started = time.monotonic()
        self._line_open = False

    def draw(self, event: Mapping[str, Any]) -> None:
        """Draw one event; those that a person need not see draw nothing."""
        match event["type"]:
            case "message_update":
                self._draw_update(event["assistantMessageEvent"])
            case "message_end" if event["message"].get("role") == "assistant":
                self._end_line()
                if event["message"]["stopReason"] == "error":
                    self._note(f"error: {event['message'].get('errorMessage', 'unknown')}", "31")
            case "tool_execution_start":
                self._end_line()
                arguments = json.dumps(event["args"], ensure_ascii=False)
                self._note(f"-> {event['toolName']} {_brief(arguments)}", "36")
            case "tool_execution_end":
                self._draw_result(event)
            case "auto_retry_start":
                wait = event["delayMs"] / 1000
                tries = f"{event['attempt']} of {event['maxAttempts']}"
                self._note(f"trying again in {wait:g} s ({tries})", "33")
            case "compaction_start":
                self._note("shortening the conversation ...", "2")
            case "diagnostic":
                self._note(f"{event['severity']}: {in_a_shell(event['message'])}", "33")
            case "agent_settled":
                self._end_line()
                self._note(self._summary(event), "2")
            case _:
                pass

    def _draw_update(self, update: Mapping[str, Any]) -> None:
        match update["type"]:
            case "text_delta" if self._answer is not None:
                self._answer.write(self._shown(update["delta"]))
                self._answer.flush()
                self._line_open = not update["delta"].endswith("\n")
            case "text_end":
                # What comes next may take a while, and a live line would overwrite this one.
                self._end_line()
            case "thinking_start":
                self._note("thinking ...", "2")
            case _:
                pass

    def _shown(self, text: str) -> str:
        """What the model said, as it is for a file; a terminal it must not control."""
        return harmless(text) if self._answer_is_terminal else text

    def _draw_result(self, event: Mapping[str, Any]) -> None:
        blocks = event["result"]["content"]
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        lines = [line for line in text.splitlines() if line.strip()]
        mark, colour = ("<- failed", "31") if event["isError"] else ("<-", "2")
        for line in lines[:_RESULT_LINES]:
            self._note(f"{mark} {_brief(line)}", colour)
            mark = "  "
        if len(lines) > _RESULT_LINES:
            self._note(f"{mark} ... {len(lines) - _RESULT_LINES} more lines", colour)

    def _summary(self, event: Mapping[str, Any]) -> str:
        seconds = time.monotonic() - self._started
        usage = event.get("usage") or {}
        prompt = sum(usage.get(kind, 0) for kind in ("input", "cacheRead", "cacheWrite"))
        tokens = f"{prompt} tokens in, {usage.get('output', 0)} out"
        cost = f"${event.get('cost') or 0:.4f}"
        return f"[{event['stopReason']}: {tokens}, {cost}, {seconds:.1f} s]"

    def _end_line(self) -> None:
        if self._line_open and self._answer is not None:
            self._answer.write("\n")
            self._answer.flush()
            self._line_open = False

    def _note(self, text: str, colour: str) -> None:
        self._end_line()
        text = harmless(text)
        self._notes.write(f"\x1b[{colour}m{text}\x1b[0m\n" if self._colour else f"{text}\n")
        self._notes.flush()


def _brief(text: str) -> str:
    """``text`` on one line and safe to print."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return shown if len(shown) <= _BRIEF else f"{shown[: _BRIEF - 3]}..."
