"""The live line: what a run is doing right now, for whoever watches it in a terminal.

Owns what the line says. Works on wire events (plain JSON objects).
"""

import shutil
import time
from collections.abc import Mapping
from typing import Any

import anyio

from pi_rpc.headless.console import Notes

__all__ = ["Progress"]

_TICK_S = 0.25
_NARROWEST = 20


class Progress:
    """Turn, tool, tokens, cost and time of a run."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._began = time.monotonic()
        self._turn = 0
        self._tools: dict[str, str] = {}
        self._tokens = 0
        self._cost = 0.0
        self._writing = False

    async def tick(self) -> None:
        """Keep the line up to date; until cancelled."""
        while True:
            if not self._writing:
                self._notes.show(self.line())
            await anyio.sleep(_TICK_S)

    def take(self, event: Mapping[str, Any]) -> None:
        """Note one event."""
        match event["type"]:
            case "turn_start":
                self._turn += 1
            case "tool_execution_start":
                self._tools[event["toolCallId"]] = event["toolName"]
            case "tool_execution_end":
                self._tools.pop(event["toolCallId"], None)
            case "message_update":
                # The answer is being written where the line would be.
                kind = event["assistantMessageEvent"]["type"]
                self._writing = kind in {"text_start", "text_delta"}
            case "message_end":
                self._writing = False
                usage = event["message"].get("usage") or {}
                self._tokens += usage.get("totalTokens", 0)
                self._cost += (usage.get("cost") or {}).get("total", 0.0)
            case _:
                pass

    def line(self) -> str:
        """The line, no wider than the terminal."""
        seconds = int(time.monotonic() - self._began)
        doing = ", ".join(dict.fromkeys(self._tools.values())) or "thinking"
        width = max(shutil.get_terminal_size().columns - 1, _NARROWEST)
        return (
            f"turn {max(self._turn, 1)} · {doing} · {self._tokens:,} tokens · ${self._cost:.4f}"
            f" · {seconds // 60}:{seconds % 60:02}"
        )[:width]
