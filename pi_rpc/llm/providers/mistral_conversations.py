"""The dialect ``mistral-conversations``: Mistral's chat completions, by Mistral's own rules.

Owns reading the streamed answer. What is sent is ``_mistral_payload``. The name is pi's; a server
is asked at ``<base URL>/v1/chat/completions``, with the key as bearer. It is a dialect of its own
because thinking comes and goes back as parts of the content, with signatures, and because ids of
calls, stop reasons, images in results and the counting of the cache are Mistral's.

Written from Mistral's documentation and its SDK, and compared with that SDK on the same streams; it
was never run against Mistral's own server.
"""

import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct

from pi_rpc.llm.errors import MalformedStreamError, ProviderError, ServerError
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.failures import failure_in_stream
from pi_rpc.llm.http import open_events
from pi_rpc.llm.messages import StopReason, Usage, UsageCost
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.providers._chunks import CallDelta, ChunkReader, Function
from pi_rpc.llm.providers._mistral_payload import mistral_payload
from pi_rpc.llm.providers._request import event_request
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["stream"]

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    # The model's window is full.
    "model_length": "length",
    "tool_calls": "toolUse",
}
_NO_ID = "null"
"""What stands for an id that was not given."""


class _Delta(Struct, gc=False):
    content: str | list[Any] | None = None
    tool_calls: list[CallDelta] | None = None


class _Choice(Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None


class _CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Counts(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_token_details: _PromptDetails | None = None
    num_cached_tokens: int | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Counts | None = None
    id: str | None = None
    model: str | None = None
    object: Any = None
    error: Any = None
    message: Any = None
    detail: Any = None
    type: Any = None
    code: Any = None


class _WordsDelta(Struct, gc=False):
    content: Annotated[str, Meta(min_length=1)]
    tool_calls: None = None


class _WordsChoice(Struct, gc=False):
    delta: _WordsDelta
    finish_reason: None = None


class _Words(Struct, gc=False):
    """A chunk that brings more of a text and nothing else, as nearly all do."""

    choices: tuple[_WordsChoice]
    usage: None = None


async def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> AsyncIterator[list[AssistantMessageEvent]]:
    """Ask, and yield the answer's block events; see ``pi_rpc.llm.provider.Provider``."""
    payload, level = mistral_payload(model, context, options)
    if level is not None:
        builder.provider_thinking_level = level
    headers = {"authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    base = model.base_url.rstrip("/").removesuffix("/v1")
    request = await event_request(
        model, options, url=f"{base}/v1/chat/completions", payload=payload, headers=headers
    )
    reader = _Reader(model, builder)
    async with open_events(request) as response:
        while not reader.done and (events := await response.read()) is not None:
            batch = reader.read(events)
            response.complete = reader.finish_reason is not None
            if batch:
                yield batch
        reader.finish()
        await response.drain()


class _OpenCall:
    """A tool call while it streams."""

    __slots__ = ("block", "id", "name")

    def __init__(self, block: int, call_id: str, name: str) -> None:
        self.block = block
        self.id = call_id
        self.name = name


class _Reader(ChunkReader[_Chunk]):
    """Turns the chunks of one answer into block events."""

    chunks = msgspec.json.Decoder(_Chunk)
    words = msgspec.json.Decoder(_Words)

    def __init__(self, model: Model, builder: MessageBuilder) -> None:
        super().__init__(model, builder)
        self._calls: dict[int, _OpenCall] = {}
        """The latest call of each index."""

    def _take(self, chunk: _Chunk, out: list[AssistantMessageEvent]) -> None:
        if chunk.usage is not None:
            self._builder.usage = _usage_of(chunk.usage)
        if not chunk.choices:
            self._note_failure(chunk)
            return
        if not self._named:
            self._note_names(chunk.id, chunk.model)
        choice = chunk.choices[0]
        if choice.delta is not None:
            self._read_delta(choice.delta, out)
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason

    def finish(self) -> None:
        """Say why the reply ended. Raises when it did not end as agreed."""
        provider, reason = self._model.provider, self.finish_reason
        if reason is None:
            raise MalformedStreamError(f"{provider}: the stream ended without finish_reason")
        self._builder.raw_stop_reason = reason
        stop = _STOP_REASONS.get(reason)
        if stop is not None:
            self._builder.stop_reason = "toolUse" if stop == "stop" and self._calls else stop
        elif reason == "error":
            raise ServerError(f"{provider} ended the reply with finish_reason error")
        else:
            raise ProviderError(f"{provider} ended the reply with finish_reason {reason[:80]!r}")

    def _read_delta(self, delta: _Delta, out: list[AssistantMessageEvent]) -> None:
        if isinstance(delta.content, str):
            self._read_text(delta.content, out)
        else:
            for part in delta.content or []:
                self._read_part(part, out)
        for call in delta.tool_calls or []:
            self._read_call(call, out)

    def _read_part(self, part: Any, out: list[AssistantMessageEvent]) -> None:
        """One part of a content in parts; kinds we do not know (references, files) are left out."""
        if isinstance(part, str):
            self._read_text(part, out)
        if not isinstance(part, dict):
            return
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            self._read_text(part["text"], out)
        if part.get("type") != "thinking":
            return
        thoughts = part.get("thinking")
        for thought in thoughts if isinstance(thoughts, list) else [{"text": thoughts}]:
            text = thought.get("text") if isinstance(thought, dict) else None
            if isinstance(text, str) and text:
                self._open_block("thinking", out)
                out.append(self._builder.thinking(self._block, text))
        signature = part.get("signature")
        if isinstance(signature, str) and signature:
            self._open_block("thinking", out)
            if self._builder.is_unsigned(self._block):
                self._builder.sign(self._block, signature)

    def _read_text(self, text: str, out: list[AssistantMessageEvent]) -> None:
        if text:
            self._open_block("text", out)
            out.append(self._builder.text(self._block, text))

    def _read_call(self, delta: CallDelta, out: list[AssistantMessageEvent]) -> None:
        """Calls mostly come whole; what is cut is told by its index."""
        builder = self._builder
        function = delta.function or Function()
        given = "" if delta.id == _NO_ID else delta.id or ""
        index = delta.index or 0
        call = self._calls.get(index)
        if call is None or self._is_another(call, given, function.name, delta.index):
            self._close_block(out)
            # Nine letters or digits, as Mistral wants them back.
            call_id = given or uuid.uuid4().hex[:9]
            out.append(builder.start_tool_call(call_id, function.name or ""))
            call = _OpenCall(builder.block_count - 1, given, function.name or "")
            self._calls[index] = call
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        if arguments:
            out.append(builder.arguments(call.block, arguments))

    @staticmethod
    def _is_another(call: _OpenCall, given: str, name: str | None, index: int | None) -> bool:
        """A delta begins a call of its own although its index was used: some number all calls 0."""
        if given and given != call.id:
            return True
        return index is None and not given and bool(name)

    def _note_failure(self, chunk: _Chunk) -> None:
        provider = self._model.provider
        if chunk.error:
            raise failure_in_stream(chunk.error, provider)
        if chunk.object == "error" or chunk.message or chunk.detail:
            said = {
                "message": chunk.message or chunk.detail,
                "type": chunk.type,
                "code": chunk.code,
            }
            raise failure_in_stream(said, provider)


def _usage_of(counts: _Counts) -> Usage:
    """The prompt includes what was cached, whose place differs; writing it costs nothing."""
    prompt, output = counts.prompt_tokens or 0, counts.completion_tokens or 0
    details = counts.prompt_tokens_details or counts.prompt_token_details
    cached = (details and details.cached_tokens) or counts.num_cached_tokens or 0
    read = max(0, min(cached, prompt))
    thought = counts.completion_tokens_details and counts.completion_tokens_details.reasoning_tokens
    return Usage(
        input=prompt - read,
        output=output,
        cache_read=read,
        cache_write=0,
        total_tokens=prompt + output,
        cost=UsageCost.ZERO,
        reasoning=thought or UNSET,
    )
