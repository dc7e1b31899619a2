"""The dialect ``bedrock-converse-stream``: Amazon Bedrock's ConverseStream.

Owns reading the streamed answer. What is sent is ``_bedrock_payload``, where and how it is signed
``_bedrock_auth``, the framing ``_bedrock_frames``. A server is asked at
``<base URL>/model/<id>/converse-stream``; a key goes into ``authorization`` as a bearer, without
one the request is signed with the credentials AWS's own tools would use, unless an extra header
authorizes it. Needs the extra ``bedrock`` (``pip install 'pi-rpc[bedrock]'``).

Written from AWS's documentation and the description of the service that botocore carries, and
compared with botocore's own client on the same streams; it was never run against AWS's own server.
"""

import base64
import binascii
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.llm._lenient_json import read_json
from pi_rpc.llm.errors import ContextOverflowError, MalformedStreamError, ProviderError
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.failures import failure_with
from pi_rpc.llm.http import EventRequest, open_events
from pi_rpc.llm.messages import StopReason, Usage, UsageCost
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.providers._bedrock_auth import needs_signature, place_of, signed
from pi_rpc.llm.providers._bedrock_frames import FAILURE, FrameDecoder
from pi_rpc.llm.providers._bedrock_payload import bedrock_payload
from pi_rpc.llm.providers._request import event_request
from pi_rpc.llm.sse import SseEvent
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["stream"]

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
}
_WITHHELD = frozenset({"content_filtered", "guardrail_intervened"})
_GARBLED = frozenset({"malformed_model_output", "malformed_tool_use"})
"""The model wrote something that is no reply; asked again, it mostly writes one."""
_STATUS_OF_EXCEPTION = {
    "accessDeniedException": 403,
    "internalServerException": 500,
    "modelErrorException": 424,
    "modelStreamErrorException": 424,
    "modelTimeoutException": 408,
    "resourceNotFoundException": 404,
    "serviceUnavailableException": 503,
    "throttlingException": 429,
    "validationException": 400,
}
_MAX_SAID = 500


class _ToolUse(Struct, rename="camel", gc=False):
    tool_use_id: str | None = None
    name: str | None = None
    input: str | None = None
    type: str | None = None


class _Start(Struct, rename="camel", gc=False):
    tool_use: _ToolUse | None = None


class _Reasoning(Struct, rename="camel", gc=False):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class _Delta(Struct, rename="camel", gc=False):
    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: _Reasoning | None = None


class _CacheDetail(Struct, rename="camel", gc=False):
    ttl: str | None = None
    input_tokens: int | None = None


class _Counts(Struct, rename="camel", gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    cache_details: list[_CacheDetail] | None = None


class _Router(Struct, rename="camel", gc=False):
    invoked_model_id: str | None = None


class _Trace(Struct, rename="camel", gc=False):
    prompt_router: _Router | None = None


class _Event(Struct, rename="camel", gc=False):
    content_block_index: int = 0
    start: _Start | None = None
    delta: _Delta | None = None
    stop_reason: str | None = None
    usage: _Counts | None = None
    trace: _Trace | None = None


_decoder = msgspec.json.Decoder(_Event)
_any_decoder = msgspec.json.Decoder()


async def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> AsyncIterator[list[AssistantMessageEvent]]:
    """Ask, and yield the answer's block events; see ``pi_rpc.llm.provider.Provider``."""
    request = await _request(model, context, options, builder)
    reader = _Reader(model, builder)
    async with open_events(request) as response:
        while not reader.done and (events := await response.read()) is not None:
            batch = reader.read(events)
            response.complete = reader.stop_reason is not None
            if batch:
                yield batch
        if last := reader.finish():
            yield last
        await response.drain()


async def _request(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> EventRequest:
    environ = {**os.environ, **options.environment}
    # Imports the library and may read the files of a profile.
    place = await run_blocking(place_of, model, environ, abandon_on_cancel=True)
    payload, level = bedrock_payload(model, context, options, place.region)
    if level is not None:
        builder.provider_thinking_level = level
    headers = {"accept": "application/vnd.amazon.eventstream"}
    if options.api_key:
        headers["authorization"] = f"Bearer {options.api_key}"

    async def note(status: int, received: Mapping[str, str]) -> None:
        request_id = received.get("x-amzn-requestid")
        if request_id:
            builder.response_id = request_id
        if options.on_response is not None:
            await options.on_response(status, received)

    request = await event_request(
        model,
        options,
        url=f"{place.base_url}/model/{quote(model.id, safe='')}/converse-stream",
        payload=payload,
        headers=headers,
    )
    request = replace(request, make_decoder=FrameDecoder, on_response=note)
    if needs_signature(request, environ):
        # May ask AWS for credentials, and wait for them.
        request = await run_blocking(
            signed, request, place.region, options.environment, abandon_on_cancel=True
        )
    return request


class _Reader:
    """Turns the events of one answer into block events."""

    def __init__(self, model: Model, builder: MessageBuilder) -> None:
        self._model = model
        self._builder = builder
        self._blocks: dict[int, int] = {}
        """Our block for each of the provider's that is open."""
        self._kinds: dict[int, str] = {}
        """What each of the provider's open blocks is; blocks we do not know are ``other``."""
        self._redacted: dict[int, bytearray] = {}
        """What was withheld, by our block: it comes in pieces that are base64 each."""
        self.stop_reason: str | None = None
        self.done = False
        """The numbers came, with which an answer closes."""

    def read(self, events: list[SseEvent]) -> list[AssistantMessageEvent]:
        """The block events of one network read. Raises what the provider reports, or malformed."""
        out: list[AssistantMessageEvent] = []
        for name, data in events:
            if name.startswith(FAILURE):
                raise self._failure(name.removeprefix(FAILURE), data)
            try:
                event = read_json(_decoder, data, self._builder.expect_halves)
            except msgspec.DecodeError as error:
                if self.stop_reason is not None:
                    continue
                raise MalformedStreamError(
                    f"{self._model.provider} sent an event that cannot be read: {error}"
                ) from error
            if name == "contentBlockDelta":
                if event.delta is not None:
                    self._read_delta(event.content_block_index, event.delta, out)
            elif name == "contentBlockStart":
                self._start(event.content_block_index, event.start, out)
            elif name == "contentBlockStop":
                self._stop(event.content_block_index, out)
            elif name == "messageStop":
                self.stop_reason = event.stop_reason or self.stop_reason
            elif name == "metadata":
                self._note_numbers(event)
                self.done = self.stop_reason is not None
        return out

    def finish(self) -> list[AssistantMessageEvent]:
        """Close what is open and say why the reply ended. Raises when it did not end as agreed."""
        provider, reason = self._model.provider, self.stop_reason
        if reason is None:
            raise MalformedStreamError(f"{provider}: the stream ended without messageStop")
        out: list[AssistantMessageEvent] = []
        for index in list(self._blocks):
            self._stop(index, out)
        self._builder.raw_stop_reason = reason
        stop = _STOP_REASONS.get(reason)
        if stop is not None:
            self._builder.stop_reason = stop
        elif reason in _WITHHELD:
            raise ProviderError(f"{provider} withheld the rest of the reply ({reason})")
        elif reason in _GARBLED:
            raise MalformedStreamError(
                f"{provider}: the model wrote a reply that cannot be read ({reason})"
            )
        elif reason == "model_context_window_exceeded":
            raise ContextOverflowError(f"{provider}: {reason}")
        else:
            raise ProviderError(f"{provider} ended the reply with stopReason {reason[:80]!r}")
        return out

    def _start(self, index: int, start: _Start | None, out: list[AssistantMessageEvent]) -> None:
        call = start.tool_use if start is not None else None
        if call is None:
            return  # Text and reasoning begin with their first delta.
        if call.type is not None:
            self._kinds[index] = "other"  # A tool of the provider's own, which it runs itself.
            return
        call_id = call.tool_use_id or f"call_{index}"
        out.append(self._builder.start_tool_call(call_id, call.name or ""))
        self._opened(index, "call")

    def _read_delta(self, index: int, delta: _Delta, out: list[AssistantMessageEvent]) -> None:
        kind = self._kinds.get(index)
        if delta.text:
            if kind is None:
                out.append(self._builder.start_text())
                kind = self._opened(index, "text")
            if kind == "text":
                out.append(self._builder.text(self._blocks[index], delta.text))
        elif delta.tool_use is not None:
            if kind == "call" and delta.tool_use.input:
                out.append(self._builder.arguments(self._blocks[index], delta.tool_use.input))
        elif delta.reasoning_content is not None:
            self._read_reasoning(index, delta.reasoning_content, out)

    def _read_reasoning(
        self, index: int, reasoning: _Reasoning, out: list[AssistantMessageEvent]
    ) -> None:
        builder = self._builder
        withheld = reasoning.redacted_content
        if not (withheld or reasoning.text or reasoning.signature):
            return
        wanted = "redacted" if withheld else "thinking"
        kind = self._kinds.get(index)
        if kind is None or (kind != wanted and kind in {"thinking", "redacted"}):
            # What is withheld is sent back in a block of its own.
            self._stop(index, out)
            out.append(builder.start_thinking(redacted=bool(withheld)))
            kind = self._opened(index, wanted)
        if kind != wanted:
            return
        ours = self._blocks[index]
        if withheld:
            self._redacted.setdefault(ours, bytearray()).extend(self._bytes_of(withheld))
        elif reasoning.text:
            out.append(builder.thinking(ours, reasoning.text))
        if reasoning.signature and not withheld:
            builder.sign(ours, reasoning.signature)

    def _bytes_of(self, withheld: str) -> bytes:
        try:
            return base64.b64decode(withheld, validate=True)
        except (binascii.Error, ValueError) as error:
            raise MalformedStreamError(
                f"{self._model.provider} sent reasoning that is not base64: {error}"
            ) from error

    def _opened(self, index: int, kind: str) -> str:
        self._blocks[index] = self._builder.block_count - 1
        self._kinds[index] = kind
        return kind

    def _stop(self, index: int, out: list[AssistantMessageEvent]) -> None:
        self._kinds.pop(index, None)
        ours = self._blocks.pop(index, None)
        if ours is None:
            return
        withheld = self._redacted.pop(ours, None)
        if withheld is not None:
            self._builder.sign(ours, base64.b64encode(withheld).decode())
        out.append(self._builder.end(ours))

    def _note_numbers(self, event: _Event) -> None:
        router = event.trace.prompt_router if event.trace is not None else None
        if router is not None and router.invoked_model_id:
            self._builder.response_model = router.invoked_model_id
        counts = event.usage
        if counts is None:
            return
        fresh, output = counts.input_tokens or 0, counts.output_tokens or 0
        read = counts.cache_read_input_tokens or 0
        written = counts.cache_write_input_tokens or 0
        for_an_hour = sum(
            each.input_tokens or 0 for each in counts.cache_details or [] if each.ttl == "1h"
        )
        self._builder.usage = Usage(
            input=fresh,
            output=output,
            cache_read=read,
            cache_write=written,
            total_tokens=fresh + output + read + written,
            cost=UsageCost.ZERO,
            cache_write_1h=for_an_hour or UNSET,
        )

    def _failure(self, kind: str, data: bytes) -> ProviderError:
        try:
            value: Any = read_json(_any_decoder, data)
        except msgspec.DecodeError:
            value = data.decode(errors="replace")
        said = value
        if isinstance(value, dict):
            said = value.get("message") or value.get("originalMessage") or ""
        text = " ".join(str(said).split())[:_MAX_SAID] or "(it said no more)"
        return failure_with(
            f"{self._model.provider} reported an error ({kind[:80]}): {text}",
            status=_STATUS_OF_EXCEPTION.get(kind[:1].lower() + kind[1:]),
        )
