"""Replies of models, recorded once and played again: tests without a key and without chance.

Owns the file and both directions. A recording is JSON lines: a head, then one line for each reply
with its events in the batches they came in. What was asked is kept as the beginning of the last
prompt and a digest of all of them, so that another question is noticed; of the model everything but
where and how it is reached. No credential gets in: requests are not recorded, and texts are masked.
Does not own when something is recorded (``pi_rpc.headless``).
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio.lowlevel
import msgspec
from msgspec import UNSET, UnsetType

from pi_rpc._os.files import read_regular
from pi_rpc.chance import now_ms
from pi_rpc.llm import errors
from pi_rpc.llm.errors import BadRequestError, ProviderError
from pi_rpc.llm.events import (
    AssistantMessageEvent,
    BlockEvent,
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
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    Wire,
    text_of,
)
from pi_rpc.llm.models import Model, cost_of
from pi_rpc.llm.provider import Context, StreamFn, StreamOptions
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder

__all__ = ["Recorder", "RecordingError", "Replay"]

_MAX_BYTES = 256 * 1024 * 1024
_SHOWN = 200
"""Characters of a prompt that are kept for people."""
_HERE = "<cwd>"


class RecordingError(Exception):
    """A recording cannot be read; the text is for people."""


class _Head(Wire, frozen=True, kw_only=True):
    type: Literal["recording"]
    version: Literal[1]
    recorded_at: int
    """Unix milliseconds."""


class _Failure(Wire, frozen=True, kw_only=True):
    kind: str
    message: str
    retryable: bool
    status: int | None = None
    retry_after_ms: int | None = None


class _Reply(Wire, frozen=True, kw_only=True):
    model: Model
    prompt: str
    digest: str
    batches: list[list[BlockEvent]]
    message: AssistantMessage
    failure: _Failure | UnsetType = UNSET


class Recorder:
    """A ``StreamFn`` that asks another one and keeps what comes."""

    def __init__(
        self, ask: StreamFn, path: Path, cwd: Path, masked: Callable[[bytes], bytes]
    ) -> None:
        """Begins the file ``path`` anew. ``cwd`` is no part of what was asked; ``masked`` takes
        credentials out of a line of JSON. Raises ``OSError``. Blocks."""
        self._ask = ask
        self._cwd = cwd
        self._masked = masked
        self._path = path
        self.problem = ""
        """Why the recording is not complete, for people."""
        head = _Head(type="recording", version=1, recorded_at=now_ms())
        path.write_bytes(msgspec.json.encode(head) + b"\n")

    def __call__(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Ask; the reply is written when it has ended, unless it was aborted."""
        stream = self._ask(model, context, options)
        batches: list[list[BlockEvent]] = []

        def observe(events: Sequence[AssistantMessageEvent]) -> None:
            batch = [each for each in events if not isinstance(each, Start | Done | Failed)]
            if batch:
                batches.append(batch)
            end = events[-1]
            if isinstance(end, Done):
                self._write(model, context, batches, end.message, None)
            elif isinstance(end, Failed) and end.reason == "error":
                self._write(model, context, batches, end.error, stream.error)

        stream.observer = observe
        return stream

    def _write(
        self,
        model: Model,
        context: Context,
        batches: list[list[BlockEvent]],
        message: AssistantMessage,
        error: ProviderError | None,
    ) -> None:
        raw = msgspec.json.encode(message)
        if (masked := self._masked(raw)) != raw:
            message = msgspec.json.decode(masked, type=AssistantMessage)
        said = _said(context.messages, self._cwd)
        reply = _Reply(
            model=msgspec.structs.replace(
                model, base_url="", headers=UNSET, sampling_params=UNSET, compat=UNSET
            ),
            prompt=said[-1][:_SHOWN] if said else "",
            digest=_digest(said),
            batches=batches if masked == raw else [_in_one_piece(message)],
            message=message,
            failure=UNSET if error is None else _failure(error),
        )
        try:
            with self._path.open("ab") as file:
                # The prompt, too, may hold one.
                file.write(self._masked(msgspec.json.encode(reply)) + b"\n")
        except OSError as failure:
            self.problem = f"{self._path} could not be written: {failure.strerror or failure}"


class Replay:
    """A ``StreamFn`` that gives recorded replies, in their order."""

    def __init__(self, path: Path, cwd: Path) -> None:
        """Raises ``RecordingError``. Blocks."""
        self._path = path
        self._cwd = cwd
        head, self._replies = _read(path)
        self._next = 0
        self.recorded_at = head.recorded_at
        """Unix milliseconds."""

    @property
    def model(self) -> Model:
        """The model that was asked first."""
        return self._replies[0].model

    @property
    def left(self) -> int:
        """Replies that nobody has asked for."""
        return len(self._replies) - self._next

    def __call__(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """The next reply; it fails where another prompt was recorded, and after the last."""

        def produce(builder: MessageBuilder) -> AsyncGenerator[list[AssistantMessageEvent], None]:
            return _play(self._take(context), builder)

        return AssistantMessageStream(model, produce, options.signal)

    def _take(self, context: Context) -> _Reply:
        number, again = self._next + 1, "record it anew with --record"
        if self._next == len(self._replies):
            raise BadRequestError(
                f"{self._path} has {len(self._replies)} replies, and this is request {number}:"
                f" {again}"
            )
        reply = self._replies[self._next]
        if _digest(_said(context.messages, self._cwd)) != reply.digest:
            raise BadRequestError(
                f"{self._path} answers another prompt in reply {number}"
                f" ({' '.join(reply.prompt.split())[:80]!r}): {again}"
            )
        self._next += 1
        return reply


def _in_one_piece(message: AssistantMessage) -> list[BlockEvent]:
    """The events of a reply whose deltas cannot be kept: they may hold parts of a credential."""
    events: list[BlockEvent] = []
    for index, block in enumerate(message.content):
        at = {"content_index": index}
        match block:
            case TextBlock():
                events += [TextStart(**at), TextDelta(**at, delta=block.text)]
                events.append(TextEnd(**at, content=block.text))
            case ThinkingBlock():
                events += [ThinkingStart(**at), ThinkingDelta(**at, delta=block.thinking)]
                events.append(ThinkingEnd(**at, content=block.thinking))
            case ToolCall():
                written = msgspec.json.encode(block.arguments).decode()
                events.append(ToolCallStart(**at, id=block.id, tool_name=block.name))
                events += [ToolCallDelta(**at, delta=written), ToolCallEnd(**at, tool_call=block)]
    return events


def _said(messages: Iterable[Message], cwd: Path) -> list[str]:
    """What the person said, as it would be said in any other directory."""
    texts = [text_of(each.content) for each in messages if isinstance(each, UserMessage)]
    return [text.replace(str(cwd), _HERE) for text in texts]


def _digest(said: list[str]) -> str:
    import hashlib

    return hashlib.sha256("\0".join(said).encode("utf-8", "replace")).hexdigest()[:32]


def _failure(error: ProviderError) -> _Failure:
    return _Failure(
        kind=type(error).__name__,
        message=error.message,
        retryable=error.retryable,
        status=error.status,
        retry_after_ms=error.retry_after_ms,
    )


def _read(path: Path) -> tuple[_Head, list[_Reply]]:
    try:
        raw, left_out = read_regular(path, _MAX_BYTES)
        if left_out:
            raise RecordingError(f"{path} is larger than {_MAX_BYTES // 2**20} MiB")
        first, *rest = raw.splitlines() or [b""]
        head = msgspec.json.decode(first, type=_Head)
        replies = [msgspec.json.decode(line, type=_Reply) for line in rest]
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordingError(f"{path} is no recording: {error}") from None
    if not replies:
        raise RecordingError(f"{path} holds no reply; record it anew with --record")
    return head, replies


async def _play(
    reply: _Reply, builder: MessageBuilder
) -> AsyncGenerator[list[AssistantMessageEvent], None]:
    message = reply.message
    builder.usage = message.usage
    usual = cost_of(reply.model, message.usage).total
    if usual:
        builder.price_factor = message.usage.cost.total / usual
    builder.response_id, builder.response_model = message.response_id, message.response_model
    builder.provider_thinking_level = message.provider_thinking_level
    builder.diagnostics = message.diagnostics
    for batch in reply.batches:
        try:
            events = [_built(event, message, builder) for event in batch]
        except (LookupError, AttributeError) as error:
            # What it says and how that came do not go together: somebody has edited it.
            raise BadRequestError(
                "the recording is damaged: record it anew with --record"
            ) from error
        yield events
        await anyio.lowlevel.checkpoint()
    if reply.failure:
        failure = reply.failure
        kind = getattr(errors, failure.kind) if failure.kind in errors.__all__ else ProviderError
        raise kind(
            failure.message,
            status=failure.status,
            retryable=failure.retryable,
            retry_after_ms=failure.retry_after_ms,
        )
    builder.raw_stop_reason = message.raw_stop_reason
    builder.stop_reason = message.stop_reason


def _built(event: Any, message: AssistantMessage, builder: MessageBuilder) -> AssistantMessageEvent:
    """``event``, made anew by the builder that has to know of it."""
    index = event.content_index
    made: AssistantMessageEvent
    match event.__struct_config__.tag:
        case "text_start":
            made = builder.start_text()
        case "thinking_start":
            redacted = getattr(message.content[index], "redacted", UNSET) is True
            made = builder.start_thinking(redacted=redacted)
        case "toolcall_start":
            made = builder.start_tool_call(event.id, event.tool_name)
        case "text_delta":
            return builder.text(index, event.delta)
        case "thinking_delta":
            return builder.thinking(index, event.delta)
        case "toolcall_delta":
            return builder.arguments(index, event.delta)
        case _:
            return builder.end(index)
    block = message.content[index]
    for name in ("text_signature", "thinking_signature", "thought_signature"):
        if signature := getattr(block, name, UNSET):
            builder.sign(index, signature)
    return made
