"""The dialect ``anthropic-messages``: Anthropic's Messages API and servers that speak it.

Owns reading the streamed answer. What is sent is ``_anthropic_payload``. A server is asked at
``<base URL>/v1/messages``; a key goes into ``x-api-key`` unless the extra headers bring
``authorization``, an OAuth token into ``authorization``; without either no credential is sent.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from pi_rpc.llm._lenient_json import UNREADABLE, read_json
from pi_rpc.llm.errors import ContextOverflowError, MalformedStreamError, ProviderError
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.failures import failure_in_stream
from pi_rpc.llm.http import open_events
from pi_rpc.llm.messages import StopReason, Usage, UsageCost
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.providers._anthropic_compat import anthropic_compat_of
from pi_rpc.llm.providers._anthropic_payload import anthropic_payload, thinks_adaptively
from pi_rpc.llm.providers._request import event_request
from pi_rpc.llm.sse import SseEvent
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["request_headers", "stream"]

_VERSION = "2023-06-01"
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_OAUTH = "oauth-2025-04-20"
_OAUTH_PREFIX = "sk-ant-oat"
_STREAMED_INPUTS = "fine-grained-tool-streaming-2025-05-14"

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    # Only tools of the provider's own pause a turn, and we offer none: nothing is left to wait for.
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
}


class _CacheCreation(Struct, gc=False):
    ephemeral_1h_input_tokens: int | None = None


class _OutputDetails(Struct, gc=False):
    thinking_tokens: int | None = None


class _Usage(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


class _Block(Struct, gc=False):
    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: Any = None


class _Delta(Struct, gc=False):
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_details: Any = None


class _Event(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: Any = None
    usage: _Usage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Event)


async def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> AsyncIterator[list[AssistantMessageEvent]]:
    """Ask, and yield the answer's block events; see ``pi_rpc.llm.provider.Provider``."""
    payload, level = anthropic_payload(model, context, options)
    if level is not None:
        builder.provider_thinking_level = level
    base = model.base_url.rstrip("/").removesuffix("/v1")
    request = await event_request(
        model,
        options,
        url=f"{base}/v1/messages",
        payload=payload,
        headers=request_headers(model, options, payload),
    )
    reader = _Reader(model, builder)
    async with open_events(request) as response:
        while not reader.done and (events := await response.read()) is not None:
            batch = reader.read(events)
            response.complete = reader.stop_reason is not None
            if batch:
                yield batch
        reader.finish()
        await response.drain()


def request_headers(
    model: Model, options: StreamOptions, payload: dict[str, Any]
) -> dict[str, str]:
    """The headers of the dialect: version, credential, betas that ``payload`` needs, session."""
    headers = {"anthropic-version": _VERSION}
    betas: list[str] = []
    key = options.api_key
    if key and key.startswith(_OAUTH_PREFIX):
        headers["authorization"] = f"Bearer {key}"
        betas.append(_OAUTH)
    elif key and not _brings_authorization(model, options):
        headers["x-api-key"] = key
    compat = anthropic_compat_of(model)
    thinking = payload.get("thinking") or {}
    if thinking.get("type") == "enabled" and not thinks_adaptively(model):
        betas.append(_INTERLEAVED)
    if payload.get("tools") and not compat.supports_eager_tool_input_streaming:
        betas.append(_STREAMED_INPUTS)
    caches = options.cache_retention != "none"
    if compat.send_session_affinity_headers and options.session_id and caches:
        by_id = compat.session_affinity_format == "openrouter"
        headers["x-session-id" if by_id else "x-session-affinity"] = options.session_id
    if betas:
        headers["anthropic-beta"] = ",".join(betas)
    return headers


def _brings_authorization(model: Model, options: StreamOptions) -> bool:
    """A gateway's own credential is in the extra headers; the key is not for it to see."""
    extra = (*(model.headers or {}), *options.headers)
    return any(name.lower() == "authorization" for name in extra)


class _Reader:
    """Turns the events of one answer into block events."""

    def __init__(self, model: Model, builder: MessageBuilder) -> None:
        self._model = model
        self._builder = builder
        self._blocks: dict[int, int] = {}
        """Our block for each of the provider's; blocks of kinds we do not know have none."""
        self._whole_inputs: dict[int, str] = {}
        """Arguments that came with the start of a call; used if no deltas follow."""
        self._counts = _Usage()
        self._refusal = ""
        """Why the model declined, as far as it says."""
        self.stop_reason: str | None = None
        self.done = False
        """The closing event came."""

    def read(self, events: list[SseEvent]) -> list[AssistantMessageEvent]:
        """The block events of one network read. Raises what the provider reports, or malformed."""
        out: list[AssistantMessageEvent] = []
        decode, add_text = _decoder.decode, self._builder.text
        for _, data in events:
            try:
                event = decode(data)
            except UNREADABLE:
                event = self._read_patiently(data)
            kind = event.type
            if kind == "content_block_delta":
                delta = event.delta
                if delta is not None and (ours := self._blocks.get(event.index)) is not None:
                    if delta.text:
                        out.append(add_text(ours, delta.text))
                    else:
                        self._read_delta(event.index, ours, delta, out)
            elif kind == "content_block_start":
                if event.content_block is not None:
                    self._start(event.index, event.content_block, out)
            elif kind == "content_block_stop":
                self._stop(event.index, out)
            elif kind == "message_start":
                self._note_message(event.message)
            elif kind == "message_delta":
                self._note_end(event)
            elif kind == "message_stop":
                self.done = True
                break
            elif kind == "error" or event.error:
                raise failure_in_stream(event.error, self._model.provider)
        return out

    def _read_patiently(self, data: bytes) -> _Event:
        """An event that is no plain JSON; one without a meaning where it does not matter."""
        if data == b"[DONE]":
            return _Event()
        try:
            return read_json(_decoder, data, self._builder.expect_halves)
        except msgspec.DecodeError as error:
            if self.stop_reason is not None:
                return _Event()
            raise MalformedStreamError(
                f"{self._model.provider} sent an event that cannot be read: {error}"
            ) from error

    def finish(self) -> None:
        """Say why the reply ended. Raises when it did not end as agreed."""
        provider, reason = self._model.provider, self.stop_reason
        if reason is None:
            if not self.done:
                raise MalformedStreamError(f"{provider}: the stream ended before message_stop")
            raise MalformedStreamError(f"{provider}: the stream ended without stop_reason")
        self._builder.raw_stop_reason = reason
        stop = _STOP_REASONS.get(reason)
        if stop is not None:
            self._builder.stop_reason = stop
        elif reason == "refusal":
            raise ProviderError(
                f"{provider}: the model declined to answer ({self._refusal or 'refusal'})"
            )
        elif reason == "model_context_window_exceeded":
            raise ContextOverflowError(f"{provider}: {reason}")
        else:
            raise ProviderError(f"{provider} ended the reply with stop_reason {reason[:80]!r}")

    def _start(self, index: int, block: _Block, out: list[AssistantMessageEvent]) -> None:
        builder = self._builder
        if block.type == "text":
            out.append(builder.start_text())
        elif block.type == "thinking":
            out.append(builder.start_thinking())
        elif block.type == "redacted_thinking":
            out.append(builder.start_thinking(redacted=True))
        elif block.type == "tool_use":
            out.append(builder.start_tool_call(block.id or f"call_{index}", block.name or ""))
        else:
            return
        ours = self._blocks[index] = builder.block_count - 1
        if block.text and block.type == "text":
            out.append(builder.text(ours, block.text))
        if block.thinking and block.type == "thinking":
            out.append(builder.thinking(ours, block.thinking))
        signature = block.data or block.signature
        if signature:
            builder.sign(ours, signature)
        if block.input and block.type == "tool_use":
            self._whole_inputs[index] = msgspec.json.encode(block.input).decode()

    def _read_delta(
        self, index: int, ours: int, delta: _Delta, out: list[AssistantMessageEvent]
    ) -> None:
        if delta.partial_json:
            self._whole_inputs.pop(index, None)
            out.append(self._builder.arguments(ours, delta.partial_json))
        elif delta.thinking:
            out.append(self._builder.thinking(ours, delta.thinking))
        elif delta.signature:
            self._builder.sign(ours, delta.signature)

    def _stop(self, index: int, out: list[AssistantMessageEvent]) -> None:
        ours = self._blocks.pop(index, None)
        if ours is None:
            return
        whole = self._whole_inputs.pop(index, None)
        if whole is not None:
            out.append(self._builder.arguments(ours, whole))
        out.append(self._builder.end(ours))

    def _note_message(self, message: Any) -> None:
        try:
            noted = msgspec.convert(message, _Message)
        except msgspec.ValidationError as error:
            raise MalformedStreamError(
                f"{self._model.provider} began its reply in an unknown form: {error}"
            ) from error
        if noted.id:
            self._builder.response_id = noted.id
        if noted.model and noted.model != self._model.id:
            self._builder.response_model = noted.model
        if noted.usage is not None:
            self._note_usage(noted.usage)

    def _note_end(self, event: _Event) -> None:
        if event.usage is not None:
            self._note_usage(event.usage)
        if event.delta is not None and event.delta.stop_reason:
            self.stop_reason = event.delta.stop_reason
            details = event.delta.stop_details
            if isinstance(details, dict):
                said = [details.get("category"), details.get("explanation")]
                self._refusal = ": ".join(["refusal", *(str(each)[:500] for each in said if each)])

    def _note_usage(self, usage: _Usage) -> None:
        """Later numbers replace earlier ones; those that are absent then leave them."""
        for name in _Usage.__struct_fields__:
            value = getattr(usage, name)
            if value is not None:
                setattr(self._counts, name, value)
        counts = self._counts
        fresh, output = counts.input_tokens or 0, counts.output_tokens or 0
        read = counts.cache_read_input_tokens or 0
        written = counts.cache_creation_input_tokens or 0
        creation = counts.cache_creation
        details = counts.output_tokens_details
        for_an_hour = creation.ephemeral_1h_input_tokens if creation is not None else None
        self._builder.usage = Usage(
            input=fresh,
            output=output,
            cache_read=read,
            cache_write=written,
            total_tokens=fresh + output + read + written,
            cost=UsageCost.ZERO,
            cache_write_1h=for_an_hour or UNSET,
            reasoning=(details.thinking_tokens if details is not None else None) or UNSET,
        )
