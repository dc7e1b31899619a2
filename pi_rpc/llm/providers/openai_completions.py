"""The dialect ``openai-completions``: OpenAI's chat completions and the many servers that speak it.

Owns reading the streamed answer. What is sent is ``_completions_payload``; how servers differ is
``_completions_compat``. A server is asked at ``<base URL>/chat/completions``; without a key no
credential is sent, as local servers want it.
"""

import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct

from pi_rpc.llm.errors import (
    ContextOverflowError,
    MalformedStreamError,
    ProviderError,
    ServerError,
)
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.failures import failure_in_stream
from pi_rpc.llm.http import open_events
from pi_rpc.llm.messages import StopReason, Usage, UsageCost
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.providers._chunks import CallDelta, ChunkReader
from pi_rpc.llm.providers._completions_compat import Compat, compat_of
from pi_rpc.llm.providers._completions_payload import completions_payload
from pi_rpc.llm.providers._request import event_request, session_headers
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["stream"]

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}
_TRANSIENT_REASONS = {"error", "network_error", "abort", "insufficient_system_resource"}


class _Delta(Struct, gc=False):
    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    refusal: Any = None
    tool_calls: list[CallDelta] | None = None
    reasoning_details: Any = None


class _PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cost: Any = None
    """US dollars at some gateways, something else at others."""


class _Choice(Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    id: str | None = None
    model: str | None = None
    error: Any = None
    object: Any = None
    message: Any = None


class _WordsDelta(Struct, gc=False):
    content: Annotated[str, Meta(min_length=1)]
    reasoning_content: None = None
    reasoning: None = None
    reasoning_text: None = None
    tool_calls: None = None
    reasoning_details: None = None


class _WordsChoice(Struct, gc=False):
    delta: _WordsDelta
    finish_reason: None = None
    usage: None = None


class _Words(Struct, gc=False):
    """A chunk that brings more of a text and nothing else, as nearly all do."""

    choices: tuple[_WordsChoice]
    usage: None = None
    error: None = None


async def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> AsyncIterator[list[AssistantMessageEvent]]:
    """Ask, and yield the answer's block events; see ``pi_rpc.llm.provider.Provider``."""
    compat = compat_of(model)
    payload, builder_level = completions_payload(model, context, options, compat)
    if builder_level is not None:
        builder.provider_thinking_level = builder_level
    headers = {}
    if options.api_key:
        headers["authorization"] = f"Bearer {options.api_key}"
    if (
        compat.send_session_affinity_headers
        and options.session_id
        and options.cache_retention != "none"
    ):
        headers.update(session_headers(compat.session_affinity_format, options.session_id))
    request = await event_request(
        model,
        options,
        url=f"{model.base_url.rstrip('/')}/chat/completions",
        payload=payload,
        headers=headers,
    )
    reader = _Reader(model, compat, builder)
    async with open_events(request) as response:
        while not reader.done and (events := await response.read()) is not None:
            batch = reader.read(events)
            response.complete = reader.finish_reason is not None
            if batch:
                yield batch
        reader.finish()
        await response.drain()
    last = reader.last_events()
    if last:
        yield last


class _OpenCall:
    """A tool call while it streams; it is announced once its name is known."""

    __slots__ = ("block", "id", "name", "pending")

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.block = -1
        self.pending: list[str] = []


class _Reader(ChunkReader[_Chunk]):
    """Turns the chunks of one answer into block events."""

    chunks = msgspec.json.Decoder(_Chunk)
    words = msgspec.json.Decoder(_Words)

    def __init__(self, model: Model, compat: Compat, builder: MessageBuilder) -> None:
        super().__init__(model, builder)
        self._compat = compat
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int, _OpenCall] = {}
        self._signatures: dict[str, str] = {}
        self._last: list[AssistantMessageEvent] = []

    def _take(self, chunk: _Chunk, out: list[AssistantMessageEvent]) -> None:
        choices = chunk.choices
        if chunk.error or not choices or chunk.usage:
            self._note(chunk)
        if choices:
            if not self._named:
                self._note_names(chunk.id, chunk.model)
            self._read_choice(choices[0], out)

    def finish(self) -> None:
        """Say why the reply ended. Raises when it did not end as agreed."""
        reason = self.finish_reason
        if reason is None:
            if self._compat.supports_finish_reason:
                raise MalformedStreamError(
                    f"{self._model.provider}: the stream ended without finish_reason"
                )
            reason = "stop"
        else:
            self._builder.raw_stop_reason = reason
        stop = _STOP_REASONS.get(reason)
        if stop is None:
            raise self._failed(reason)
        self._close_all(self._last)
        # Some servers say "stop" although they asked for tools.
        self._builder.stop_reason = "toolUse" if stop == "stop" and self._calls else stop

    def last_events(self) -> list[AssistantMessageEvent]:
        """The ends of the blocks that were open at the end."""
        return self._last

    def _failed(self, reason: str) -> ProviderError:
        provider = self._model.provider
        if reason == "content_filter":
            return ProviderError(f"{provider} withheld the rest of the reply (content_filter)")
        if reason == "model_context_window_exceeded":
            return ContextOverflowError(f"{provider}: {reason}")
        if reason in _TRANSIENT_REASONS:
            return ServerError(f"{provider} ended the reply with finish_reason {reason}")
        return ProviderError(f"{provider} ended the reply with finish_reason {reason[:80]!r}")

    def _read_choice(self, choice: _Choice, out: list[AssistantMessageEvent]) -> None:
        delta = choice.delta
        if delta is not None:
            content = delta.content
            if delta.reasoning_content or delta.reasoning or delta.reasoning_text:
                self._read_thought(delta, out)
            if content:
                if self._kind == "text" and isinstance(content, str):
                    out.append(self._builder.text(self._block, content))
                else:
                    self._read_content(content, out)
            elif delta.refusal and isinstance(delta.refusal, str):
                self._read_content(delta.refusal, out)
            if delta.tool_calls:
                for position, call in enumerate(delta.tool_calls):
                    self._read_call(call, position, out)
            if delta.reasoning_details:
                self._note_signatures(delta.reasoning_details)
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
        if choice.usage is not None:
            self._builder.usage = _usage_of(choice.usage)

    def _read_thought(self, delta: _Delta, out: list[AssistantMessageEvent]) -> None:
        field, thought = _thought(delta)
        if not thought:
            return
        self._open_block("thinking", out)
        if self._builder.is_unsigned(self._block):
            # The field's name is what the reply needs when it is sent back.
            self._builder.sign(self._block, field)
        out.append(self._builder.thinking(self._block, thought))

    def _read_content(self, content: str | list[Any], out: list[AssistantMessageEvent]) -> None:
        if isinstance(content, str):
            if self._kind != "text":
                self._open_block("text", out)
            out.append(self._builder.text(self._block, content))
            return
        for part in content:
            if not isinstance(part, dict):
                continue
            if part.get("type") == "thinking":
                thoughts = part.get("thinking")
                for thought in thoughts if isinstance(thoughts, list) else [part]:
                    text = thought.get("text") if isinstance(thought, dict) else None
                    if isinstance(text, str) and text:
                        self._open_block("thinking", out)
                        out.append(self._builder.thinking(self._block, text))
            elif isinstance(part.get("text"), str) and part["text"]:
                self._read_content(part["text"], out)

    def _read_call(self, delta: CallDelta, position: int, out: list[AssistantMessageEvent]) -> None:
        name = (delta.function and delta.function.name) or ""
        call = self._call_of(delta, position, name)
        if name and not call.name:
            call.name = name
            self._close_block(out)
            start = self._builder.start_tool_call(call.id or _made_up_id(), name)
            call.block = start.content_index
            out.append(start)
            out.extend(self._builder.arguments(call.block, piece) for piece in call.pending)
        arguments = delta.function.arguments if delta.function else None
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        if arguments:
            if call.block < 0:
                call.pending.append(arguments)
            else:
                out.append(self._builder.arguments(call.block, arguments))

    def _call_of(self, delta: CallDelta, position: int, name: str) -> _OpenCall:
        """The call a delta belongs to. Some servers number all calls 0, some none at all."""
        call = None
        if delta.index is not None:
            call = self._by_index.get(delta.index)
        elif delta.id:
            call = next((each for each in self._calls if each.id == delta.id), None)
        elif self._calls and not name:
            call = self._calls[-1]
        is_another = call is not None and call.name and name and delta.id and delta.id != call.id
        if call is None or is_another:
            call = _OpenCall(delta.id or "")
            self._calls.append(call)
            self._by_index[len(self._calls) - 1 if delta.index is None else delta.index] = call
        elif delta.id and not call.id:
            call.id = delta.id
        return call

    def _close_all(self, out: list[AssistantMessageEvent]) -> None:
        self._close_block(out)
        for call in self._calls:
            if call.block < 0:
                start = self._builder.start_tool_call(call.id or _made_up_id(), "")
                call.block = start.content_index
                out.append(start)
                out.extend(self._builder.arguments(call.block, piece) for piece in call.pending)
            signature = self._signatures.get(call.id)
            if signature:
                self._builder.sign(call.block, signature)
            out.append(self._builder.end(call.block))

    def _note(self, chunk: _Chunk) -> None:
        if chunk.error:
            raise failure_in_stream(chunk.error, self._model.provider)
        if chunk.object == "error":
            raise failure_in_stream({"message": chunk.message}, self._model.provider)
        if chunk.usage is not None:
            self._builder.usage = _usage_of(chunk.usage)

    def _note_signatures(self, details: Any) -> None:
        for detail in details if isinstance(details, list) else []:
            if (
                isinstance(detail, dict)
                and detail.get("type") == "reasoning.encrypted"
                and isinstance(detail.get("id"), str)
                and detail.get("data")
            ):
                self._signatures[detail["id"]] = msgspec.json.encode(detail).decode()


def _thought(delta: _Delta) -> tuple[str, str]:
    """The field that holds thinking, and its text; some servers fill several with the same."""
    if delta.reasoning_content and isinstance(delta.reasoning_content, str):
        return "reasoning_content", delta.reasoning_content
    if delta.reasoning and isinstance(delta.reasoning, str):
        return "reasoning", delta.reasoning
    if delta.reasoning_text and isinstance(delta.reasoning_text, str):
        return "reasoning_text", delta.reasoning_text
    return "", ""


def _made_up_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _billed(cost: Any) -> UsageCost:
    if isinstance(cost, bool) or not isinstance(cost, (int, float)) or cost < 0:
        return UsageCost.ZERO
    return msgspec.structs.replace(UsageCost.ZERO, total_from_provider=float(cost))


def _usage_of(usage: _Usage) -> Usage:
    prompt, output = usage.prompt_tokens or 0, usage.completion_tokens or 0
    details = usage.prompt_tokens_details
    read = (
        (details and details.cached_tokens)
        or usage.prompt_cache_hit_tokens
        or usage.cached_tokens
        or 0
    )
    written = (details and details.cache_write_tokens) or 0
    thought = usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens
    return Usage(
        input=max(0, prompt - read - written),
        output=output,
        cache_read=read,
        cache_write=written,
        total_tokens=max(prompt, read + written) + output,
        cost=_billed(usage.cost),
        reasoning=thought or UNSET,
    )
