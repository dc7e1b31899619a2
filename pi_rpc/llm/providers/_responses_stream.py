"""The answer of the dialects ``openai-responses`` and ``azure-openai-responses``.

Owns asking and reading the streamed answer: one block for each output item, in the order of the
items. Does not own what is asked (``_responses_payload``), nor where.
"""

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from pi_rpc.llm._lenient_json import UNREADABLE, read_json
from pi_rpc.llm.errors import MalformedStreamError, ProviderError
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.failures import failure_in_stream
from pi_rpc.llm.http import open_events
from pi_rpc.llm.messages import Usage, UsageCost
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, EventBatches, StreamOptions
from pi_rpc.llm.providers._request import event_request
from pi_rpc.llm.providers._responses_payload import (
    reasoning_signature,
    responses_payload,
    text_signature,
)
from pi_rpc.llm.sse import SseEvent
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["respond"]

_KINDS = {"message": "text", "reasoning": "thinking", "function_call": "call"}
_KIND_OF_DELTA = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
    "response.function_call_arguments.delta": "call",
}
_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_PRICE_FACTORS = {"flex": 0.5, "priority": 2.0}
"""Of service tiers, where the model's ``compat.serviceTierFactors`` does not say."""


class _InputDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    input_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(Struct, gc=False):
    reason: str | None = None


class _Response(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    output: Any = None
    service_tier: str | None = None
    usage: _Usage | None = None


class _Event(Struct, gc=False):
    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    delta: Any = None
    summary_index: int | None = None
    content_index: int | None = None
    item: Any = None
    response: _Response | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_decoder = msgspec.json.Decoder(_Event)


async def respond(
    model: Model,
    context: Context,
    options: StreamOptions,
    builder: MessageBuilder,
    *,
    url: str,
    headers: Mapping[str, str],
    name: str | None = None,
) -> EventBatches:
    """Ask at ``url``, and yield the answer's block events; ``name`` is the model's name there."""
    payload, level = responses_payload(model, context, options, name=name)
    if level is not None:
        builder.provider_thinking_level = level
    request = await event_request(model, options, url=url, payload=payload, headers=dict(headers))
    reader = _Reader(model, builder)
    async with open_events(request) as response:
        while not reader.ended and (events := await response.read()) is not None:
            batch = reader.read(events)
            response.complete = reader.ended
            if batch:
                yield batch
        reader.finish()
        await response.drain()


class _Item:
    """An output item while it streams."""

    __slots__ = ("block", "kind", "part", "sent")

    def __init__(self, kind: str, block: int) -> None:
        self.kind = kind
        self.block = block
        self.part: int | None = None
        """Of its summary or text, the part that came last."""
        self.sent = 0
        """How many characters came in deltas."""


class _Reader:
    """Turns the events of one answer into block events."""

    def __init__(self, model: Model, builder: MessageBuilder) -> None:
        self._model = model
        self._builder = builder
        self._open: dict[int | str, _Item] = {}
        self._started: set[int | str] = set()
        self._has_calls = False
        self._status = ""
        self._reason = ""
        self.ended = False
        """The terminal event came."""

    def read(self, events: list[SseEvent]) -> list[AssistantMessageEvent]:
        """The block events of one network read. Raises what the provider reports, or malformed."""
        out: list[AssistantMessageEvent] = []
        decode = _decoder.decode
        for name, data in events:
            try:
                event = decode(data)
            except UNREADABLE:
                event = self._read_patiently(data)
            kind = event.type or name
            delta_of = _KIND_OF_DELTA.get(kind)
            if delta_of is not None:
                self._read_delta(delta_of, event, out)
            elif kind == "response.output_item.added":
                if isinstance(event.item, dict):
                    self._start(_key(event), event.item, out)
            elif kind == "response.output_item.done":
                if isinstance(event.item, dict):
                    self._finish_item(_key(event), event.item, out)
            elif kind in _ENDS:
                self._end(_ENDS[kind], event, out)
                break
            elif kind == "response.created":
                self._note(event.response or _Response())
            elif kind == "error" or event.error:
                raise self._reported(event)
        return out

    def _read_patiently(self, data: bytes) -> _Event:
        """An event that is no plain JSON."""
        if data.startswith(b"[DONE]"):
            return _Event(type="[DONE]")
        try:
            return read_json(_decoder, data, self._builder.expect_halves)
        except msgspec.DecodeError as error:
            raise MalformedStreamError(
                f"{self._model.provider} sent an event that cannot be read: {error}"
            ) from error

    def finish(self) -> None:
        """Say why the reply ended. Raises when it did not end as agreed."""
        provider, reason = self._model.provider, self._reason
        if not self.ended:
            raise MalformedStreamError(f"{provider}: the stream ended before a terminal event")
        if self._status == "completed":
            self._builder.stop_reason = "toolUse" if self._has_calls else "stop"
        elif self._status == "incomplete" and reason == "max_output_tokens":
            self._builder.stop_reason = "length"
        elif self._status == "incomplete" and reason == "content_filter":
            raise ProviderError(f"{provider} withheld the rest of the reply (content_filter)")
        elif self._status == "incomplete":
            raise ProviderError(
                f"{provider} left the reply incomplete ({reason[:80] or 'without saying why'})"
            )
        else:
            why = f" ({reason[:80]})" if reason else ""
            raise ProviderError(f"{provider} ended the reply with status {self._status[:80]}{why}")

    def _read_delta(self, kind: str, event: _Event, out: list[AssistantMessageEvent]) -> None:
        delta = event.delta
        if not delta or not isinstance(delta, str):
            return
        key = _key(event) if event.output_index is None else event.output_index
        item = self._open.get(key)
        if item is None or item.kind != kind:
            if kind == "call" or item is not None or key in self._started:
                # Without its name a call cannot begin; it comes whole with its last event.
                return
            kinds = {"text": "message", "thinking": "reasoning"}
            item = self._start(key, {"type": kinds[kind]}, out)
            if item is None:
                return
        if kind == "text":
            out.append(self._builder.text(item.block, delta))
        elif kind == "call":
            out.append(self._builder.arguments(item.block, delta))
        else:
            part = event.content_index if event.summary_index is None else event.summary_index
            if part != item.part:
                if item.sent:
                    delta = f"\n\n{delta}"
                item.part = part
            out.append(self._builder.thinking(item.block, delta))
        item.sent += len(delta)

    def _start(
        self, key: int | str, item: dict[str, Any], out: list[AssistantMessageEvent]
    ) -> _Item | None:
        kind = _KINDS.get(str(item.get("type")))
        if key in self._open:
            raise MalformedStreamError(
                f"{self._model.provider} began an item before it finished the one before"
            )
        if kind is None or (key != "" and key in self._started):
            return None
        builder = self._builder
        if kind == "text":
            out.append(builder.start_text())
        elif kind == "thinking":
            out.append(builder.start_thinking())
        else:
            self._has_calls = True
            out.append(builder.start_tool_call(_call_id(item), str(item.get("name") or "")))
        self._started.add(key)
        started = self._open[key] = _Item(kind, builder.block_count - 1)
        return started

    def _finish_item(
        self, key: int | str, item: dict[str, Any], out: list[AssistantMessageEvent]
    ) -> None:
        """Add what the deltas left out, sign the block for its replay, and end it."""
        kind = _KINDS.get(str(item.get("type")))
        open_item = self._open.get(key) or self._start(key, item, out)
        if open_item is None or open_item.kind != kind:
            return
        del self._open[key]
        builder, block = self._builder, open_item.block
        rest = _unsent(open_item, item)
        if kind == "call":
            if rest:
                out.append(builder.arguments(block, rest))
        elif kind == "text":
            if rest:
                out.append(builder.text(block, rest))
            if isinstance(item.get("id"), str):
                phase = item.get("phase")
                builder.sign(
                    block, text_signature(item["id"], phase if isinstance(phase, str) else None)
                )
        else:
            if rest:
                out.append(builder.thinking(block, rest))
            signature = reasoning_signature(item)
            if signature is not None:
                builder.sign(block, signature)
        out.append(builder.end(block))

    def _end(self, status: str, event: _Event, out: list[AssistantMessageEvent]) -> None:
        response = event.response or _Response()
        self.ended = True
        self._note(response)
        # Some servers call every end completed; the response itself knows better.
        is_known = response.status in _ENDS.values()
        self._status = str(response.status) if status == "completed" and is_known else status
        details = response.incomplete_details
        self._reason = (details and details.reason) or ""
        words = filter(None, (self._status, self._reason))
        self._builder.raw_stop_reason = ".".join(words)
        if response.error:
            raise failure_in_stream(response.error, self._model.provider)
        self._complete(response.output, out)

    def _complete(self, output: Any, out: list[AssistantMessageEvent]) -> None:
        """Take from the whole response the items whose own events did not come."""
        missing = not self._started
        for index, item in enumerate(output if isinstance(output, list) else []):
            if not isinstance(item, dict):
                continue
            names = (index, str(item.get("id")), str(item.get("call_id")))
            key = next((each for each in names if each in self._open), None)
            if key is not None or missing:
                self._finish_item(index if key is None else key, item, out)
        if self._status == "completed" and any(each.kind == "call" for each in self._open.values()):
            # Its arguments may be cut off or another's.
            raise MalformedStreamError(
                f"{self._model.provider} completed the reply without finishing a tool call"
            )

    def _note(self, response: _Response) -> None:
        builder = self._builder
        if response.id:
            builder.response_id = response.id
        if response.model and response.model != self._model.id:
            builder.response_model = response.model
        if response.usage is not None:
            builder.usage = _usage_of(response.usage)
        if response.service_tier:
            builder.price_factor = _price_factor(self._model, response.service_tier)

    def _reported(self, event: _Event) -> ProviderError:
        # Documented is the flat form; servers send the other one.
        error = event.error or {"code": event.code, "message": event.message}
        return failure_in_stream(error, self._model.provider)


def _key(event: _Event) -> int | str:
    """What tells the items of a response apart.

    The index does, and not the id, which some servers change with every event; others leave the
    index out.
    """
    if event.output_index is not None:
        return event.output_index
    if event.item_id is None and isinstance(event.item, dict):
        return str(event.item.get("id") or event.item.get("call_id") or "")
    return event.item_id or ""


def _call_id(item: dict[str, Any]) -> str:
    call_id, item_id = item.get("call_id"), item.get("id")
    call_id = call_id if isinstance(call_id, str) and call_id else f"call_{uuid.uuid4().hex[:24]}"
    return f"{call_id}|{item_id}" if isinstance(item_id, str) and item_id else call_id


def _unsent(item: _Item, whole: dict[str, Any]) -> str:
    """What a finished item holds beyond its deltas, which servers may leave out."""
    if item.kind == "call":
        arguments = whole.get("arguments")
        return arguments[item.sent :] if isinstance(arguments, str) else ""
    if item.kind == "text":
        return "".join(_texts(whole.get("content"), "text", "refusal"))[item.sent :]
    if item.sent:
        # The deltas may have been of the summary or of the reasoning itself.
        return ""
    return "\n\n".join(_texts(whole.get("summary"), "text") or _texts(whole.get("content"), "text"))


def _texts(parts: Any, *names: str) -> list[str]:
    return [
        part[name]
        for part in (parts if isinstance(parts, list) else [])
        if isinstance(part, dict)
        for name in names
        if isinstance(part.get(name), str)
    ]


def _price_factor(model: Model, tier: str) -> float:
    own = (model.compat or {}).get("serviceTierFactors")
    factor = own.get(tier) if isinstance(own, dict) else None
    if isinstance(factor, (int, float)) and not isinstance(factor, bool):
        return float(factor)
    return _PRICE_FACTORS.get(tier, 1.0)


def _usage_of(usage: _Usage) -> Usage:
    prompt, output = usage.input_tokens or 0, usage.output_tokens or 0
    details = usage.input_tokens_details
    read = (details and details.cached_tokens) or 0
    written = (details and details.cache_write_tokens) or 0
    thought = usage.output_tokens_details and usage.output_tokens_details.reasoning_tokens
    return Usage(
        input=max(0, prompt - read - written),
        output=output,
        cache_read=read,
        cache_write=written,
        total_tokens=max(prompt, read + written) + output,
        cost=UsageCost.ZERO,
        reasoning=thought or UNSET,
    )
