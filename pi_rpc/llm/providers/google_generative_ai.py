"""The dialect ``google-generative-ai``: Google's Gemini API.

Owns reading the streamed answer. What is sent is ``_google_payload``. A server is asked at
``<base URL>/models/<id>:streamGenerateContent?alt=sse``, where the base URL ends in the version
(``/v1beta``); a key goes into ``x-goog-api-key`` unless the extra headers bring ``authorization``.

Written from Google's documentation and its SDK, and compared with that SDK on the same streams; it
was never run against Google's own server.
"""

import uuid
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from pi_rpc.llm._lenient_json import read_json
from pi_rpc.llm.errors import BadRequestError, MalformedStreamError, ProviderError
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.failures import failure_in_stream
from pi_rpc.llm.http import open_events
from pi_rpc.llm.messages import StopReason, Usage, UsageCost
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.providers._google_payload import google_payload
from pi_rpc.llm.providers._request import event_request
from pi_rpc.llm.sse import SseEvent
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["stream"]

_STOP_REASONS: dict[str, StopReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    # A limit of the request was reached; going on is the caller's to decide.
    "CONTINUATION": "length",
    # No word of Google's: some gateways and stand-ins end a reply with calls by it.
    "FUNCTION_CALL": "stop",
}
_WITHHELD = frozenset(
    {
        "BLOCKLIST",
        "ESCALATION",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "MODEL_ARMOR",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "SAFETY",
        "SPII",
    }
)
_GARBLED = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
"""The model wrote something that is no reply; asked again, it mostly writes one."""
_MAX_SAID = 300


class _FunctionCall(Struct, gc=False):
    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None


class _Part(Struct, rename="camel", gc=False):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(Struct, gc=False):
    parts: list[_Part] | None = None


class _Candidate(Struct, rename="camel", gc=False):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Counts(Struct, rename="camel", gc=False):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class _Feedback(Struct, rename="camel", gc=False):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Chunk(Struct, rename="camel", gc=False):
    candidates: list[_Candidate] | None = None
    usage_metadata: _Counts | None = None
    prompt_feedback: _Feedback | None = None
    response_id: str | None = None
    model_version: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Chunk)
_any_decoder = msgspec.json.Decoder()


async def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> AsyncIterator[list[AssistantMessageEvent]]:
    """Ask, and yield the answer's block events; see ``pi_rpc.llm.provider.Provider``."""
    payload, level = google_payload(model, context, options)
    if level is not None:
        builder.provider_thinking_level = level
    name = quote(model.id if "/" in model.id else f"models/{model.id}", safe="/")
    headers = {}
    extra = (*(model.headers or {}), *options.headers)
    if options.api_key and not any(each.lower() == "authorization" for each in extra):
        headers["x-goog-api-key"] = options.api_key
    request = await event_request(
        model,
        options,
        url=f"{model.base_url.rstrip('/')}/{name}:streamGenerateContent?alt=sse",
        payload=payload,
        headers=headers,
    )
    reader = _Reader(model, builder)
    async with open_events(request) as response:
        while (events := await response.read()) is not None:
            batch = reader.read(events)
            response.complete = reader.finish_reason is not None
            if batch:
                yield batch
        reader.finish()


class _Reader:
    """Turns the chunks of one answer into block events."""

    def __init__(self, model: Model, builder: MessageBuilder) -> None:
        self._model = model
        self._builder = builder
        self._kind = ""
        """Of the open text or thinking block."""
        self._block = -1
        self._has_calls = False
        self._named = False
        self._counts = _Counts()
        self._finish_message = ""
        self.finish_reason: str | None = None

    def read(self, events: list[SseEvent]) -> list[AssistantMessageEvent]:
        """The block events of one network read. Raises what the provider reports, or malformed."""
        out: list[AssistantMessageEvent] = []
        counted = False
        for _, data in events:
            try:
                chunk = read_json(_decoder, data, self._builder.expect_halves)
            except msgspec.DecodeError as error:
                if self.finish_reason is not None:
                    continue
                raise self._unreadable(data, error) from error
            if not self._named:
                self._note_names(chunk)
            if chunk.candidates:
                self._read_candidate(chunk.candidates[0], out)
            elif chunk.error or chunk.prompt_feedback is not None:
                self._note_refusal(chunk)
            if chunk.usage_metadata is not None:
                self._note_counts(chunk.usage_metadata)
                counted = True
        if counted:
            # Every chunk counts anew; only what a read leaves can be seen.
            self._builder.usage = _usage_of(self._counts)
        return out

    def finish(self) -> None:
        """Say why the reply ended. Raises when it did not end as agreed."""
        provider, reason = self._model.provider, self.finish_reason
        if reason is None:
            raise MalformedStreamError(f"{provider}: the stream ended without finishReason")
        self._builder.raw_stop_reason = reason
        stop = _STOP_REASONS.get(reason)
        if stop is not None:
            self._builder.stop_reason = "toolUse" if stop == "stop" and self._has_calls else stop
            return
        said = f": {self._finish_message}" if self._finish_message else ""
        if reason in _WITHHELD:
            raise ProviderError(f"{provider} withheld the rest of the reply ({reason}){said}")
        if reason in _GARBLED:
            raise MalformedStreamError(
                f"{provider}: the model wrote a reply that cannot be read ({reason}){said}"
            )
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise BadRequestError(f"{provider} refused the conversation ({reason}){said}")
        raise ProviderError(f"{provider} ended the reply with finishReason {reason[:80]!r}{said}")

    def _read_candidate(self, candidate: _Candidate, out: list[AssistantMessageEvent]) -> None:
        content = candidate.content
        if content is not None and content.parts:
            for part in content.parts:
                if part.function_call is not None:
                    self._read_call(part.function_call, part.thought_signature, out)
                elif part.text or part.thought_signature:
                    kind = "thinking" if part.thought else "text"
                    self._read_text(kind, part.text or "", part.thought_signature, out)
        if candidate.finish_reason:
            self.finish_reason = candidate.finish_reason
            self._finish_message = _bounded(candidate.finish_message)

    def _read_text(
        self, kind: str, text: str, signature: str | None, out: list[AssistantMessageEvent]
    ) -> None:
        builder = self._builder
        # Two parts with a signature each must be sent back as two.
        is_another = bool(signature) and self._kind == kind and not builder.is_unsigned(self._block)
        if self._kind != kind or is_another:
            self._close_block(out)
            out.append(builder.start_text() if kind == "text" else builder.start_thinking())
            self._kind, self._block = kind, builder.block_count - 1
        if text:
            out.append(
                builder.text(self._block, text)
                if kind == "text"
                else builder.thinking(self._block, text)
            )
        if signature:
            builder.sign(self._block, signature)

    def _read_call(
        self, call: _FunctionCall, signature: str | None, out: list[AssistantMessageEvent]
    ) -> None:
        """A call comes whole: its arguments are one delta."""
        self._close_block(out)
        self._has_calls = True
        builder = self._builder
        call_id = call.id or f"call_{uuid.uuid4().hex[:24]}"
        out.append(builder.start_tool_call(call_id, call.name or ""))
        block = builder.block_count - 1
        if signature:
            builder.sign(block, signature)
        arguments = msgspec.json.encode(call.args or {}).decode()
        out.append(builder.arguments(block, arguments))
        out.append(builder.end(block))

    def _close_block(self, out: list[AssistantMessageEvent]) -> None:
        if self._kind:
            out.append(self._builder.end(self._block))
            self._kind, self._block = "", -1

    def _note_names(self, chunk: _Chunk) -> None:
        self._named = bool(chunk.response_id and chunk.model_version)
        if chunk.response_id:
            self._builder.response_id = chunk.response_id
        if chunk.model_version and chunk.model_version != self._model.id.rpartition("/")[2]:
            self._builder.response_model = chunk.model_version

    def _note_refusal(self, chunk: _Chunk) -> None:
        provider, feedback = self._model.provider, chunk.prompt_feedback
        if chunk.error:
            raise failure_in_stream(chunk.error, provider)
        if feedback is not None and feedback.block_reason:
            message = _bounded(feedback.block_reason_message)
            said = f": {message}" if message else ""
            reason = feedback.block_reason[:80]
            raise ProviderError(f"{provider} refused the prompt ({reason}){said}")

    def _note_counts(self, counts: _Counts) -> None:
        """Later numbers replace earlier ones; those that are absent then leave them."""
        if counts.candidates_token_count is None or counts.prompt_token_count is None:
            for name in _Counts.__struct_fields__:
                value = getattr(counts, name)
                if value is not None:
                    setattr(self._counts, name, value)
        else:
            self._counts = counts

    def _unreadable(self, data: bytes, error: Exception) -> ProviderError:
        try:
            value = read_json(_any_decoder, data)
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict) and value.get("error"):
            return failure_in_stream(value["error"], self._model.provider)
        return MalformedStreamError(
            f"{self._model.provider} sent an event that cannot be read: {error}"
        )


def _bounded(text: str | None) -> str:
    return " ".join((text or "").split())[:_MAX_SAID]


def _usage_of(counts: _Counts) -> Usage:
    """Thinking is counted beside the answer; both are output. The prompt includes what was cached;
    nothing is charged for writing the implicit cache."""
    prompt = (counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0)
    thought = counts.thoughts_token_count or 0
    output = (counts.candidates_token_count or 0) + thought
    read = min(counts.cached_content_token_count or 0, prompt)
    return Usage(
        input=prompt - read,
        output=output,
        cache_read=read,
        cache_write=0,
        total_tokens=prompt + output,
        cost=UsageCost.ZERO,
        reasoning=thought or UNSET,
    )
