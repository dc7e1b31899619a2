"""Answers that stream as chunks with choices: what the dialects of that family read alike.

Owns the way from the events of one network read to chunks, the open block, and what is told of an
event that cannot be read. Does not own what a dialect's chunks look like nor what they mean.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.json import Decoder

from pi_rpc.llm._lenient_json import UNREADABLE, read_json
from pi_rpc.llm.errors import MalformedStreamError, ProviderError
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.failures import failure_in_stream
from pi_rpc.llm.models import Model
from pi_rpc.llm.sse import SseEvent
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["CallDelta", "ChunkReader", "Function"]


class Function(Struct, gc=False):
    """What a tool call calls."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(Struct, gc=False):
    """More of a tool call."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


_any_decoder = Decoder()

ChunkT = TypeVar("ChunkT", bound=Struct)


class ChunkReader(ABC, Generic[ChunkT]):
    """Turns the chunks of one answer into block events."""

    chunks: ClassVar[Decoder[Any]]
    """Reads any chunk, as ``ChunkT``; all of its fields may be left out."""
    words: ClassVar[Decoder[Any]]
    """Reads a chunk that brings more of a text and nothing else, as nearly all do."""

    def __init__(self, model: Model, builder: MessageBuilder) -> None:
        self._model = model
        self._builder = builder
        self._kind = ""
        """Of the open text or thinking block."""
        self._block = -1
        self._named = False
        self.finish_reason: str | None = None
        self.done = False
        """The closing marker came."""

    @abstractmethod
    def _take(self, chunk: ChunkT, out: list[AssistantMessageEvent]) -> None:
        """What one chunk says. Raises the failure that it reports."""

    def read(self, events: list[SseEvent]) -> list[AssistantMessageEvent]:
        """The block events of one network read. Raises what the provider reports, or malformed."""
        out: list[AssistantMessageEvent] = []
        words: list[str] = []
        decode_words = self.words.decode
        is_plain = True
        for _, data in events:
            if is_plain and self._kind == "text" and self._named:
                try:
                    words.append(decode_words(data).choices[0].delta.content)
                    continue
                except UNREADABLE:
                    # It is of another kind, and so is what comes with it, mostly.
                    is_plain = False
                    self._flush(words, out)
            if not self._read_chunk(data, out):
                self.done = True
                break
        self._flush(words, out)
        return out

    def _flush(self, words: list[str], out: list[AssistantMessageEvent]) -> None:
        if words:
            out += self._builder.texts(self._block, words)
            words.clear()

    def _read_chunk(self, data: bytes, out: list[AssistantMessageEvent]) -> bool:
        """Read a chunk of any kind; False for the closing marker."""
        try:
            chunk = self.chunks.decode(data)
        except UNREADABLE:
            if data.startswith(b"[DONE]"):
                return False
            chunk = self._read_patiently(data)
        self._take(chunk, out)
        return True

    def _read_patiently(self, data: bytes) -> Any:
        """A chunk that is no plain JSON; an empty one where it does not matter any more."""
        try:
            return read_json(self.chunks, data, self._builder.expect_halves)
        except msgspec.DecodeError as error:
            if self.finish_reason is not None:
                return self.chunks.decode(b"{}")
            raise self._unreadable(data, error) from error

    def _unreadable(self, data: bytes, error: Exception) -> ProviderError:
        provider = self._model.provider
        try:
            value = read_json(_any_decoder, data)
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict) and value.get("error"):
            return failure_in_stream(value["error"], provider)
        return MalformedStreamError(f"{provider} sent an event that cannot be read: {error}")

    def _note_names(self, answer_id: str | None, model: str | None) -> None:
        self._named = bool(answer_id or model)
        if answer_id:
            self._builder.response_id = answer_id
        if model and model != self._model.id:
            self._builder.response_model = model

    def _open_block(self, kind: str, out: list[AssistantMessageEvent]) -> None:
        if self._kind == kind:
            return
        self._close_block(out)
        builder = self._builder
        out.append(builder.start_text() if kind == "text" else builder.start_thinking())
        self._kind, self._block = kind, builder.block_count - 1

    def _close_block(self, out: list[AssistantMessageEvent]) -> None:
        if self._kind:
            out.append(self._builder.end(self._block))
            self._kind, self._block = "", -1
