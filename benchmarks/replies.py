"""What a provider sends in each dialect, as frames of bytes: a long text, or a call of a tool.

Owns the shapes, which are those of the vendors' own servers, with all the fields nobody reads. Does
not own how the frames are sent; that is ``reply_server``.
"""

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any
from zlib import crc32

WORD = "lorem "
TOOL = "write"
PIECE = "dolor sit amet, 12\\n"
"""A piece of the text of an argument: 20 bytes of JSON."""

Frames = Iterator[bytes]
Events = Iterator[dict[str, Any]]

_HEAD = '{"path":"notes.txt","content":"'
_FOOT = '"}'


def _pieces(count: int) -> Iterator[str]:
    """The text of a tool's arguments in ``count`` pieces."""
    yield _HEAD
    for _ in range(count - 2):
        yield PIECE
    yield _FOOT


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _completions_chunk(delta: dict[str, Any], finish: str | None, **more: Any) -> bytes:
    body = {
        "id": "chatcmpl-CqXr0a1kVbXyZ9wN3dQeF5hJ7mTuB",
        "object": "chat.completion.chunk",
        "created": 1770000000,
        "model": "benchmark",
        "service_tier": "default",
        "system_fingerprint": "fp_a1b2c3d4e5",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
        **more,
    }
    return b"data: " + _json(body) + b"\n\n"


def _completions(deltas: int, *, call: bool) -> Frames:
    yield _completions_chunk({"role": "assistant", "content": "", "refusal": None}, None)
    if call:
        function = {"name": TOOL, "arguments": ""}
        start = {"index": 0, "id": "call_a1B2c3D4", "type": "function", "function": function}
        yield _completions_chunk({"tool_calls": [start]}, None)
        for piece in _pieces(deltas):
            more = {"index": 0, "function": {"arguments": piece}}
            yield _completions_chunk({"tool_calls": [more]}, None)
    else:
        yield from [_completions_chunk({"content": WORD}, None)] * deltas
    yield _completions_chunk({}, "tool_calls" if call else "stop")
    usage = {"prompt_tokens": 10, "completion_tokens": deltas, "total_tokens": deltas + 10}
    yield _completions_chunk({}, None, choices=[], usage=usage)
    yield b"data: [DONE]\n\n"


def _mistral_chunk(delta: dict[str, Any], finish: str | None, **more: Any) -> bytes:
    body = {
        "id": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "object": "chat.completion.chunk",
        "created": 1770000000,
        "model": "benchmark",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        "p": "abcdefghijklmnopq",
        **more,
    }
    return b"data: " + _json(body) + b"\n\n"


def _mistral(deltas: int, *, call: bool) -> Frames:
    yield _mistral_chunk({"role": "assistant", "content": ""}, None)
    if call:
        for number, piece in enumerate(_pieces(deltas)):
            function = {"name": "" if number else TOOL, "arguments": piece}
            more = {"id": "null" if number else "a1B2c3D4e", "function": function, "index": 0}
            yield _mistral_chunk({"tool_calls": [more]}, None)
    else:
        yield from [_mistral_chunk({"content": WORD}, None)] * deltas
    usage = {"prompt_tokens": 10, "completion_tokens": deltas, "total_tokens": deltas + 10}
    yield _mistral_chunk({"content": ""}, "tool_calls" if call else "stop", usage=usage)
    yield b"data: [DONE]\n\n"


def _named(events: Events) -> Frames:
    for event in events:
        yield b"event: " + event["type"].encode() + b"\ndata: " + _json(event) + b"\n\n"


def _responses(deltas: int, *, call: bool) -> Frames:
    return _named(
        {**event, "sequence_number": number}
        for number, event in enumerate(_responses_events(deltas, call=call))
    )


def _responses_events(deltas: int, *, call: bool) -> Events:
    response = {"id": "resp_0a1b2c3d", "object": "response", "model": "benchmark", "output": []}
    running = {**response, "status": "in_progress"}
    yield {"type": "response.created", "response": running}
    yield {"type": "response.in_progress", "response": running}
    yield from _call_item(deltas) if call else _text_item(deltas)
    usage = {"input_tokens": 10, "output_tokens": deltas, "total_tokens": deltas + 10}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "usage": usage},
    }


def _text_item(deltas: int) -> Events:
    item: dict[str, Any] = {"id": "msg_0a1b2c3d", "type": "message", "role": "assistant"}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**item, "status": "in_progress", "content": []},
    }
    yield {"type": "response.content_part.added", **place, "part": part}
    delta = {"delta": WORD, "logprobs": [], "obfuscation": "a1B2c3D4e5"}
    yield from [{"type": "response.output_text.delta", **place, **delta}] * deltas
    part = {**part, "text": WORD * deltas}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}
    yield {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {**item, "status": "completed", "content": [part]},
    }


def _call_item(deltas: int) -> Events:
    item = {"id": "fc_0a1b2c3d", "type": "function_call", "call_id": "call_a1B2", "name": TOOL}
    place = {"item_id": item["id"], "output_index": 0}
    arguments = "".join(_pieces(deltas))
    yield {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**item, "status": "in_progress", "arguments": ""},
    }
    for piece in _pieces(deltas):
        delta = {"delta": piece, "obfuscation": "a1B2c3D4e5"}
        yield {"type": "response.function_call_arguments.delta", **place, **delta}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments}
    yield {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {**item, "status": "completed", "arguments": arguments},
    }


def _anthropic(deltas: int, *, call: bool) -> Frames:
    return _named(_anthropic_events(deltas, call=call))


def _anthropic_events(deltas: int, *, call: bool) -> Events:
    usage = {"input_tokens": 10, "output_tokens": 1, "service_tier": "standard"}
    message = {"id": "msg_01AbCdEf", "type": "message", "role": "assistant", "content": []}
    yield {"type": "message_start", "message": {**message, "model": "benchmark", "usage": usage}}
    start: dict[str, Any] = {"type": "text", "text": ""}
    if call:
        start = {"type": "tool_use", "id": "toolu_01AbCdEf", "name": TOOL, "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": start}
    yield {"type": "ping"}
    if call:
        for piece in _pieces(deltas):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
    else:
        delta = {"type": "text_delta", "text": WORD}
        yield from [{"type": "content_block_delta", "index": 0, "delta": delta}] * deltas
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": deltas}}
    yield {"type": "message_stop"}


def _google_chunk(part: dict[str, Any], number: int, **more: Any) -> bytes:
    prompt = [{"modality": "TEXT", "tokenCount": 10}]
    counts = {"promptTokenCount": 10, "candidatesTokenCount": number, "totalTokenCount": number}
    body = {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0, **more}],
        "usageMetadata": {**counts, "promptTokensDetails": prompt},
        "modelVersion": "benchmark",
        "responseId": "a1B2c3D4e5F6",
    }
    return b"data: " + _json(body) + b"\r\n\r\n"


def _google(deltas: int, *, call: bool) -> Frames:
    """Google sends a call whole: the arguments are one value, in one event."""
    if call:
        arguments = json.loads("".join(_pieces(deltas)))
        yield _google_chunk({"functionCall": {"name": TOOL, "args": arguments}}, 1)
    else:
        for number in range(deltas):
            yield _google_chunk({"text": WORD}, number)
    yield _google_chunk({"text": ""}, deltas, finishReason="STOP")


def _frame(name: str, payload: dict[str, Any]) -> bytes:
    """A frame of AWS's event stream."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    head = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in headers.items()
    )
    body = _json(payload)
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack(">I", crc32(prelude)) + head + body
    return message + struct.pack(">I", crc32(message))


def _bedrock(deltas: int, *, call: bool) -> Frames:
    padding = {"p": "abcdefghijklmnop"}
    place = {"contentBlockIndex": 0, **padding}
    yield _frame("messageStart", {"role": "assistant", **padding})
    if call:
        start = {"toolUse": {"toolUseId": "tooluse_a1B2c3D4", "name": TOOL}}
        yield _frame("contentBlockStart", {"start": start, **place})
        for piece in _pieces(deltas):
            yield _frame("contentBlockDelta", {"delta": {"toolUse": {"input": piece}}, **place})
    else:
        yield from [_frame("contentBlockDelta", {"delta": {"text": WORD}, **place})] * deltas
    yield _frame("contentBlockStop", place)
    yield _frame("messageStop", {"stopReason": "tool_use" if call else "end_turn", **padding})
    usage = {"inputTokens": 10, "outputTokens": deltas, "totalTokens": deltas + 10}
    yield _frame("metadata", {"usage": usage, "metrics": {"latencyMs": 9}, **padding})


_DIALECTS: dict[str, Callable[..., Frames]] = {
    "openai-completions": _completions,
    "openai-responses": _responses,
    "azure-openai-responses": _responses,
    "anthropic-messages": _anthropic,
    "google-generative-ai": _google,
    "mistral-conversations": _mistral,
    "bedrock-converse-stream": _bedrock,
}
APIS = tuple(_DIALECTS)


def text_frames(api: str, deltas: int) -> list[bytes]:
    """A reply of ``deltas`` words."""
    return list(_DIALECTS[api](deltas, call=False))


def call_frames(api: str, deltas: int) -> list[bytes]:
    """A call whose arguments come in ``deltas`` pieces of 20 bytes, or whole where they must."""
    return list(_DIALECTS[api](deltas, call=True))


def argument_bytes(deltas: int) -> int:
    """How long the text of these arguments is."""
    return sum(map(len, _pieces(deltas)))
