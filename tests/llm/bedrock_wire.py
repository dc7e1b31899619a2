"""Answers of Bedrock as bytes: events encoded as frames of AWS's event stream.

The streams are written by hand in the shape AWS documents for ConverseStream and encoded here; they
were not recorded from AWS's server. ``tests/data/eventstream`` holds their bytes, so that a change
of this encoder shows.
"""

import base64
import os
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

__all__ = [
    "BEGUN",
    "CONTENT_TYPE",
    "STREAMS",
    "call",
    "delta",
    "encoded",
    "ended",
    "failure",
    "forget_aws",
    "frame",
    "recorded",
    "stop",
]

CONTENT_TYPE = "application/vnd.amazon.eventstream"
DATA = Path(__file__).parent.parent / "data" / "eventstream"

Event = tuple[str, dict[str, Any]]


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One frame; header values are strings, the only kind this service sends."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value
        for name, value in ((name, value.encode()) for name, value in headers.items())
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    prelude += struct.pack(">I", crc32(prelude))
    message = prelude + head + payload
    return message + struct.pack(">I", crc32(message))


def encoded(*events: Event) -> bytes:
    """The frames of events: name and payload each."""
    return b"".join(
        frame(
            {
                ":event-type": name,
                ":content-type": "application/json",
                ":message-type": "event",
            },
            msgspec.json.encode(payload),
        )
        for name, payload in events
    )


def failure(kind: str, **payload: Any) -> bytes:
    """The frame of an exception inside a stream."""
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, msgspec.json.encode(payload))


def delta(index: int, **content: Any) -> Event:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": content, "p": "abcdefgh"}


def stop(index: int) -> Event:
    return "contentBlockStop", {"contentBlockIndex": index, "p": "abc"}


def call(index: int, call_id: str, name: str) -> Event:
    start = {"toolUse": {"toolUseId": call_id, "name": name}}
    return "contentBlockStart", {"contentBlockIndex": index, "start": start, "p": "abcd"}


def ended(reason: str, usage: dict[str, Any], **metadata: Any) -> list[Event]:
    return [
        ("messageStop", {"stopReason": reason, "p": "abcdefghijklmn"}),
        ("metadata", {"usage": usage, "metrics": {"latencyMs": 812}, "p": "ab", **metadata}),
    ]


def withheld(data: bytes) -> dict[str, Any]:
    return {"redactedContent": base64.b64encode(data).decode()}


BEGUN: Event = ("messageStart", {"role": "assistant", "p": "abcdefghijkl"})
STREAMS: dict[str, list[Event]] = {
    "text": [
        BEGUN,
        delta(0, reasoningContent={"text": "The person wants "}),
        delta(0, reasoningContent={"text": "one sentence."}),
        delta(0, reasoningContent={"signature": "EqQBCkYIBxgCKkD"}),
        delta(0, reasoningContent={"signature": "xQ9vT=="}),
        stop(0),
        delta(1, text="The sea \u2013 \u6d77, "),
        delta(1, text=""),
        delta(1, text='la mer, \U0001f30a \u2013 is "blue".'),
        stop(1),
        *ended(
            "end_turn",
            {
                "inputTokens": 12,
                "outputTokens": 61,
                "totalTokens": 4273,
                "cacheReadInputTokens": 3000,
                "cacheWriteInputTokens": 1200,
                "cacheDetails": [
                    {"ttl": "1h", "inputTokens": 1000},
                    {"ttl": "5m", "inputTokens": 200},
                ],
            },
        ),
    ],
    "tool": [
        BEGUN,
        delta(0, text="Reading both."),
        stop(0),
        call(1, "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q", "read"),
        delta(1, toolUse={"input": ""}),
        delta(1, toolUse={"input": '{"path": "READ'}),
        delta(1, toolUse={"input": 'ME.md", "deep": {"caf\u00e9": [1, 2.5, null, true]}}'}),
        stop(1),
        call(2, "tooluse_2", "ls"),
        delta(2, toolUse={"input": ""}),
        stop(2),
        *ended("tool_use", {"inputTokens": 410, "outputTokens": 83, "totalTokens": 493}),
    ],
    "redacted": [
        BEGUN,
        delta(0, reasoningContent=withheld(b"\x00\xffsealed")),
        delta(0, reasoningContent=withheld(b", in two pieces")),
        stop(0),
        delta(1, text="Done."),
        stop(1),
        *ended(
            "max_tokens",
            {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12},
            trace={"promptRouter": {"invokedModelId": "arn:aws:bedrock:us-east-1::m/real-one"}},
        ),
    ],
}


def recorded(name: str) -> bytes:
    """The bytes of a stream, as they are kept."""
    return (DATA / f"{name}.bin").read_bytes()


def forget_aws(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nothing of this machine's AWS configuration counts; ``folder`` has ``config``, if anything.

    Nor is the instance asked for credentials.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
