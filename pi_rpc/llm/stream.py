"""A streaming reply: the growing message, its events, and its end.

Owns ``MessageBuilder`` (what a provider fills) and ``AssistantMessageStream`` (what a caller
reads). The stream turns whatever a provider does into a well-formed event sequence and never
raises for a provider's or the network's failure. It does not retry.

A failure keeps what had arrived: blocks that were open stay as far as they came and get no ``end``
event; a tool call among them keeps the arguments that could be read.

Cost: deltas are kept as lists of pieces and joined when somebody looks, so a long reply is linear
in its length; events come in batches, one per network read, with no task switch for each.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, Literal

import anyio
from msgspec import UNSET, UnsetType

from pi_rpc.chance import elapsed_s
from pi_rpc.llm._lenient_json import with_whole_characters
from pi_rpc.llm.abort import AbortSignal
from pi_rpc.llm.errors import MalformedStreamError, ProviderError
from pi_rpc.llm.events import (
    AssistantMessageEvent,
    Done,
    Failed,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from pi_rpc.llm.messages import (
    AssistantContent,
    AssistantMessage,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    now_ms,
)
from pi_rpc.llm.models import Model, priced
from pi_rpc.llm.partial_json import parse_arguments, parse_partial

__all__ = ["AssistantMessageStream", "MessageBuilder"]

_log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 1.0
_ABORTED = "Request was aborted"
_LONGEST_REPLY = 8 * 1024 * 1024
"""Characters. No model says as much; a server that never stops ends here, and as JSON it still
fits into one frame of the protocol, however it is escaped."""


class _Block:
    """A content block while it grows."""

    __slots__ = (
        "_half",
        "_joined",
        "done",
        "id",
        "kind",
        "name",
        "pieces",
        "redacted",
        "signature",
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.signature: str | UnsetType = UNSET
        self.redacted = False
        self.id = ""
        self.name = ""
        self.done: AssistantContent | None = None
        self._joined = ""
        self._half = ""

    def whole(self, delta: str) -> str:
        """``delta`` without a half of a character at its end, which waits for the other half."""
        delta = self._half + delta
        self._half = delta[-1:] if "\ud800" <= delta[-1:] <= "\udbff" else ""
        return with_whole_characters(delta.removesuffix(self._half))

    def text(self) -> str:
        if self.pieces:
            self._joined += "".join(self.pieces)
            self.pieces.clear()
        return self._joined

    def snapshot(self) -> AssistantContent:
        if self.done is not None:
            return self.done
        if self.kind == "text":
            return TextBlock(text=self.text(), text_signature=self.signature)
        if self.kind == "thinking":
            return ThinkingBlock(
                thinking=self.text(),
                thinking_signature=self.signature,
                redacted=True if self.redacted else UNSET,
            )
        return ToolCall(
            id=self.id,
            name=self.name,
            arguments=parse_partial(self.text()),
            thought_signature=self.signature,
        )


class MessageBuilder:
    """The message a provider is producing. Its methods return the events that say what changed.

    Those that add to a block raise ``ProviderError`` for a reply that is longer than any can be.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._blocks: list[_Block] = []
        self._call_ids: set[str] = set()
        self._started_at = elapsed_s()
        self._timestamp = now_ms()
        self.usage: Usage = Usage.ZERO
        """Set by the provider whenever it learns more; cost is filled in here."""
        self.price_factor = 1.0
        """Set by the provider where a request is served at another price than the usual."""
        self.stop_reason: StopReason = "pending"
        """Set by the provider when the reply is complete."""
        self.raw_stop_reason: str | UnsetType = UNSET
        self.response_id: str | UnsetType = UNSET
        self.response_model: str | UnsetType = UNSET
        self.provider_thinking_level: str | UnsetType = UNSET
        self.diagnostics: Any | UnsetType = UNSET
        self._halves = False
        self._room = _LONGEST_REPLY

    def expect_halves(self) -> None:
        """From now on text may come with a character cut in two; it is put together again.

        A half that the other never follows becomes U+FFFD, or nothing at the end of its block.
        """
        self._halves = True

    def begin(self) -> None:
        """Start the clock: the request is about to be sent."""
        self._started_at = elapsed_s()
        self._timestamp = now_ms()

    @property
    def block_count(self) -> int:
        """How many blocks were opened; the next one's index."""
        return len(self._blocks)

    def start_text(self) -> TextStart:
        """Open a text block."""
        self._blocks.append(_Block("text"))
        return TextStart(content_index=len(self._blocks) - 1)

    def start_thinking(self, *, redacted: bool = False) -> ThinkingStart:
        """Open a thinking block."""
        block = _Block("thinking")
        block.redacted = redacted
        self._blocks.append(block)
        return ThinkingStart(content_index=len(self._blocks) - 1)

    def start_tool_call(self, call_id: str, name: str) -> ToolCallStart:
        """Open a tool call. An id that this message already used is made unique."""
        unique, suffix = call_id, 2
        while unique in self._call_ids:
            unique, suffix = f"{call_id}_{suffix}", suffix + 1
        self._call_ids.add(unique)
        block = _Block("toolCall")
        block.id = unique
        block.name = name
        self._blocks.append(block)
        return ToolCallStart(content_index=len(self._blocks) - 1, id=unique, tool_name=name)

    def text(self, index: int, delta: str) -> TextDelta:
        """Add to a text block."""
        block = self._blocks[index]
        self._take_room(len(delta))
        if self._halves:
            delta = block.whole(delta)
        block.pieces.append(delta)
        return TextDelta(content_index=index, delta=delta)

    def texts(self, index: int, deltas: Sequence[str]) -> list[TextDelta]:
        """Add several pieces to a text block: as ``text`` for each, for less."""
        block = self._blocks[index]
        self._take_room(sum(map(len, deltas)))
        if self._halves:
            deltas = [block.whole(delta) for delta in deltas]
        block.pieces.extend(deltas)
        return [TextDelta(content_index=index, delta=delta) for delta in deltas]

    def thinking(self, index: int, delta: str) -> ThinkingDelta:
        """Add to a thinking block."""
        block = self._blocks[index]
        self._take_room(len(delta))
        if self._halves:
            delta = block.whole(delta)
        block.pieces.append(delta)
        return ThinkingDelta(content_index=index, delta=delta)

    def arguments(self, index: int, delta: str) -> ToolCallDelta:
        """Add to a tool call's argument text."""
        block = self._blocks[index]
        self._take_room(len(delta))
        if self._halves:
            delta = block.whole(delta)
        block.pieces.append(delta)
        return ToolCallDelta(content_index=index, delta=delta)

    def sign(self, index: int, signature: str) -> None:
        """Append to a block's opaque replay data."""
        block = self._blocks[index]
        self._take_room(len(signature))
        block.signature = (block.signature or "") + signature

    def _take_room(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise ProviderError(
                f"{self._model.provider} sent a reply of more than {_LONGEST_REPLY} characters; "
                "the rest of it was not read"
            )

    def is_unsigned(self, index: int) -> bool:
        """The block has no replay data yet."""
        return self._blocks[index].signature is UNSET

    def is_open(self, index: int) -> bool:
        """The block was opened and not ended."""
        return index < len(self._blocks) and self._blocks[index].done is None

    def end(self, index: int) -> TextEnd | ThinkingEnd | ToolCallEnd:
        """Close a block; what it holds is final."""
        block = self._blocks[index]
        if block.kind == "toolCall":
            arguments, problem = parse_arguments(block.text())
            call = ToolCall(
                id=block.id,
                name=block.name,
                arguments=arguments,
                thought_signature=block.signature,
                arguments_error=problem or UNSET,
            )
            block.done = call
            return ToolCallEnd(content_index=index, tool_call=call)
        block.done = block.snapshot()
        if block.kind == "text":
            return TextEnd(content_index=index, content=block.text())
        return ThinkingEnd(content_index=index, content=block.text())

    def end_open(self) -> list[TextEnd | ThinkingEnd | ToolCallEnd]:
        """Close every block that is still open, in order."""
        return [self.end(index) for index, block in enumerate(self._blocks) if block.done is None]

    def snapshot(
        self,
        stop_reason: StopReason | None = None,
        error_message: str | UnsetType = UNSET,
        *,
        final: bool = False,
    ) -> AssistantMessage:
        """The message as it stands now."""
        elapsed = round((elapsed_s() - self._started_at) * 1000, 3)
        return AssistantMessage(
            content=[block.snapshot() for block in self._blocks],
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=priced(self._model, self.usage, self.price_factor),
            stop_reason=stop_reason or self.stop_reason,
            timestamp=self._timestamp,
            response_model=self.response_model,
            response_id=self.response_id,
            provider_thinking_level=self.provider_thinking_level,
            diagnostics=self.diagnostics,
            error_message=error_message,
            raw_stop_reason=self.raw_stop_reason,
            duration_ms=elapsed if final else UNSET,
        )


class AssistantMessageStream:
    """One reply being streamed.

    Read it with ``async for event in stream``, or batch by batch with ``next_batch``; then
    ``await stream.result()`` for the final message. ``result`` alone reads to the end. One reader;
    who stops reading early calls ``aclose``.
    """

    def __init__(
        self,
        model: Model,
        produce: Callable[[MessageBuilder], AsyncIterator[list[AssistantMessageEvent]]],
        signal: AbortSignal,
    ) -> None:
        self._model = model
        self._produce = produce
        self._signal = signal
        self._builder = MessageBuilder(model)
        self._source: AsyncIterator[list[AssistantMessageEvent]] | None = None
        self._reading: anyio.CancelScope | None = None
        self._result: AssistantMessage | None = None
        self._started = False
        self.error: ProviderError | None = None
        """The typed failure behind a final message with ``stopReason`` ``error``."""
        self.observer: Callable[[Sequence[AssistantMessageEvent]], None] | None = None
        """Is shown every batch before it is read; must be quick and must not fail."""

    @property
    def partial(self) -> AssistantMessage:
        """The message as it stands now; the final one after the end. Built when asked for."""
        return self._result or self._builder.snapshot()

    @property
    def usage(self) -> Usage:
        """Tokens known so far, priced."""
        return priced(self._model, self._builder.usage, self._builder.price_factor)

    async def result(self) -> AssistantMessage:
        """The final message; reads the stream to its end first."""
        while self._result is None:
            await self.next_batch()
        return self._result

    async def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        while (batch := await self.next_batch()) is not None:
            for event in batch:
                yield event

    async def aclose(self) -> None:
        """Stop reading and close the connection, within a second even when cancelled.

        The result of a stream that had not ended is then an aborted message. A read that is under
        way in another task returns with the final ``error`` event.
        """
        if self._result is not None:
            return
        if self._reading is not None:
            self._reading.cancel()
            return
        self._fail("aborted", _ABORTED)
        await self._close_source()

    async def next_batch(self) -> Sequence[AssistantMessageEvent] | None:
        """The next events, at least one; None after the end.

        An abort of the signal cuts the wait short and becomes a final ``error`` event with reason
        ``aborted``; a cancellation from outside is passed on after the connection was closed.
        """
        while self._result is None:
            events = await self._read()
            if events and not self._started and not isinstance(events[-1], Failed):
                self._started = True
                events = [Start(), *events]
            if events:
                if self.observer is not None:
                    self.observer(events)
                return events
        return None

    async def _read(self) -> list[AssistantMessageEvent]:
        """One batch of the source, or the final event; may be empty."""
        if self._signal.aborted:
            await self._close_source()
            return [self._fail("aborted", _ABORTED)]
        batch: list[AssistantMessageEvent] | None = None
        try:
            with self._signal.cancel_scope() as scope:
                self._reading = scope
                if self._source is None:
                    self._builder.begin()
                    self._source = self._produce(self._builder)
                batch = await anext(self._source, None)
        except ProviderError as error:
            self.error = error
            return [self._fail("error", error.message, error.retry_after_ms)]
        except RecursionError:
            _log.debug("reading the reply of %s", self._model.ref, exc_info=True)
            self.error = MalformedStreamError(
                f"{self._model.provider} sent an event that is nested too deeply"
            )
            return [self._fail("error", self.error.message)]
        except Exception as error:  # noqa: BLE001 - the boundary: a bug there is a failed reply
            _log.exception("the provider of %s failed unexpectedly", self._model.ref)
            self.error = ProviderError(f"{type(error).__name__}: {error}")
            return [self._fail("error", self.error.message)]
        except BaseException:
            self._fail("aborted", _ABORTED)
            await self._close_source()
            raise
        finally:
            self._reading = None
        if scope.cancelled_caught:
            await self._close_source()
            return [self._fail("aborted", _ABORTED)]
        return self._finish() if batch is None else batch

    def _finish(self) -> list[AssistantMessageEvent]:
        reason = self._builder.stop_reason
        if reason not in {"stop", "length", "toolUse", "deferred"}:
            self.error = MalformedStreamError("the reply ended without saying why")
            return [self._fail("error", self.error.message)]
        ended: list[AssistantMessageEvent] = list(self._builder.end_open())
        self._result = self._builder.snapshot(final=True)
        return [*ended, Done(reason=reason, message=self._result)]

    def _fail(
        self, reason: Literal["error", "aborted"], message: str, retry_after_ms: int | None = None
    ) -> Failed:
        self._result = self._builder.snapshot(reason, message, final=True)
        return Failed(
            reason=reason,
            error=self._result,
            retry_after_ms=UNSET if retry_after_ms is None else retry_after_ms,
        )

    async def _close_source(self) -> None:
        """Let the provider's generator close its connection; what it says meanwhile is lost."""
        source = self._source
        if not isinstance(source, AsyncGenerator):
            return
        with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True):
            try:
                await source.aclose()
            except Exception:  # noqa: BLE001 - the reply has its end already; this is for the log
                _log.warning("closing the reply of %s failed", self._model.ref, exc_info=True)
