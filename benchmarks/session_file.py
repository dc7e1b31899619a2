"""A session file of any size, made up: the same for the same arguments.

Owns the shape of the file: turns of a prompt, replies with tool calls and their results, in the
proportions of real sessions, as pi and we write them.
"""

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["write_session"]

_WORDS = (
    "the file reads lines and returns an error when a path is missing so that callers see what "
    'happened def class self None "quoted" {braces} [list] é \\ \t for in while not is lambda'
)
_TURN = ("user", "assistant", "toolResult", "assistant", "toolResult", "assistant")


def write_session(
    path: Path, *, entries: int, size: int, cwd: str, since_compaction: int | None = None
) -> None:
    """Write about ``size`` bytes in ``entries`` lines to ``path``.

    ``since_compaction`` puts a compaction at about so many bytes before the end, which keeps the
    entry before it; None leaves the session without one.
    """
    header = {
        "type": "session",
        "version": 3,
        "id": path.stem,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": cwd,
    }
    compaction = None if since_compaction is None else entries - entries * since_compaction // size
    words = _text()
    with path.open("wb") as file:
        file.write(_line(header))
        parent: str | None = None
        for number in range(entries):
            entry_id = f"{number:08x}"
            if number == compaction:
                body = _compaction(parent or entry_id)
            else:
                body = _message(number, size // entries, words)
            file.write(_line({"type": body.pop("type"), **_place(entry_id, parent), **body}))
            parent = entry_id


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _place(entry_id: str, parent: str | None) -> dict[str, Any]:
    return {"id": entry_id, "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z"}


def _compaction(kept: str) -> dict[str, Any]:
    return {
        "type": "compaction",
        "summary": "What was done so far.",
        "firstKeptEntryId": kept,
        "tokensBefore": 150_000,
    }


def _message(number: int, average: int, words: str) -> dict[str, Any]:
    role = _TURN[number % len(_TURN)]
    share = {"user": 0.1, "assistant": 0.12, "toolResult": 1.9}[role]
    start = number * 7919 % (len(words) >> 1)
    text = words[start : start + int(average * share)]
    content = [{"type": "text", "text": text}]
    message: dict[str, Any] = {"role": role}
    if role == "toolResult":
        message |= {"toolCallId": f"call_{number - 1}", "toolName": "read"}
    message["content"] = content
    if role == "assistant":
        message |= {
            "content": [
                *content,
                {
                    "type": "toolCall",
                    "id": f"call_{number}",
                    "name": "read",
                    "arguments": {"path": f"src/module_{number}.py"},
                },
            ],
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": "claude-sonnet-4-5",
            "usage": {
                "input": 1200,
                "output": 350,
                "cacheRead": 90_000,
                "cacheWrite": 800,
                "totalTokens": 92_350,
                "cost": {
                    "input": 0.0036,
                    "output": 0.00525,
                    "cacheRead": 0.027,
                    "cacheWrite": 0.003,
                    "total": 0.03885,
                },
            },
            "stopReason": "toolUse",
        }
    elif role == "toolResult":
        if number % 4 == 0:
            message["details"] = {"truncation": {"lines": 2000, "of": number}}
        message["isError"] = False
    return {"type": "message", "message": {**message, "timestamp": 1_767_225_600_000 + number}}


@cache
def _text() -> str:
    return " ".join(_words(random.Random(1), 1 << 20))


def _words(draw: random.Random, length: int) -> Iterator[str]:
    words = _WORDS.split(" ")
    while length > 0:
        word = draw.choice(words) + ("\n" if draw.random() < 0.1 else "")
        length -= len(word) + 1
        yield word
