"""The steps of a scripted reply, and the events each of them becomes.

Owns their shape in a file and from Python. Does not own which reply is played when: that is
``pi_rpc.llm.scripted``, which exports the constructors here.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.messages import Wire
from pi_rpc.llm.stream import MessageBuilder

CHARS_PER_TOKEN = 4
_PIECE_TOKENS = (3, 4, 5)
_SINGLE_PIECES = 32
"""Up to this many pieces of a block come one per batch, as over a slow network."""
_BATCH_PIECES = 64
"""More of them come in batches of this size, as from a fast one."""


class ToolCallStep(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call of a script."""

    name: str
    """The tool's name."""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    """The arguments."""
    id: str | UnsetType = UNSET
    """The call's id; made up when unset."""
    arguments_text: str | UnsetType = UNSET
    """Raw argument text, sent instead of ``arguments``; may be broken JSON."""


class ErrorStep(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failure of a script."""

    message: str
    """What the failed message says."""
    status: int | None = None
    """The HTTP status that it stands for."""
    retryable: bool | None = None
    """Whether trying again may help; None leaves it to the status."""
    retry_after_ms: int | None = None
    """How long the provider asks to wait."""


class UsageStep(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token numbers of a script."""

    input: int = 0
    """Uncached input tokens."""
    output: int = 0
    """Output tokens."""
    cache_read: int = 0
    """Input tokens read from the cache."""
    cache_write: int = 0
    """Input tokens written to the cache."""


class Step(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing a scripted reply does; the module's docstring lists the keys."""

    text: str | UnsetType = UNSET
    """Say this."""
    thinking: str | UnsetType = UNSET
    """Think this."""
    repeat_text: str | UnsetType = UNSET
    """Say this ``count`` times, a delta each."""
    tool_call: ToolCallStep | UnsetType = UNSET
    """Ask for a tool."""
    error: ErrorStep | UnsetType = UNSET
    """Fail."""
    delay_ms: float | UnsetType = UNSET
    """Wait, in milliseconds."""
    usage: UsageStep | UnsetType = UNSET
    """Report these token numbers."""
    stop_reason: Literal["stop", "length", "toolUse"] | UnsetType = UNSET
    """End for this reason."""
    pieces: int | UnsetType = UNSET
    """How many deltas ``text`` or ``thinking`` are cut into."""
    count: int | UnsetType = UNSET
    """How often ``repeatText`` is said."""

    def __post_init__(self) -> None:
        written = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        kinds = {key: getattr(self, name) for name, key in written if name not in _BESIDE}
        given = [key for key, value in kinds.items() if value is not UNSET]
        if len(given) != 1:
            has = f"has {' and '.join(given)}" if given else "has none"
            raise ValueError(f"a step needs exactly one of {', '.join(kinds)}; this one {has}")


_BESIDE = frozenset({"pieces", "count"})
"""Fields that say more about one of the others."""


class Until(Struct, frozen=True):
    """A step of Python scripts only: waits for something."""

    wait: Callable[[], Awaitable[object]]


AnyStep: TypeAlias = Step | Until
Reply: TypeAlias = Sequence[AnyStep]
"""The steps of one reply, in order."""


def text(content: str, *, pieces: int | UnsetType = UNSET) -> Step:
    """Say ``content``."""
    return Step(text=content, pieces=pieces)


def thinking(content: str, *, pieces: int | UnsetType = UNSET) -> Step:
    """Think ``content``."""
    return Step(thinking=content, pieces=pieces)


def repeat_text(content: str, count: int) -> Step:
    """One text block of ``count`` deltas, each ``content``."""
    return Step(repeat_text=content, count=count)


def tool_call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    call_id: str | UnsetType = UNSET,
    arguments_text: str | UnsetType = UNSET,
) -> Step:
    """Ask for a tool. ``arguments_text`` is sent as it is, so it can be broken JSON."""
    return Step(
        tool_call=ToolCallStep(
            name=name,
            arguments=dict(arguments or {}),
            id=call_id,
            arguments_text=arguments_text,
        )
    )


def error(
    message: str,
    *,
    status: int | None = None,
    retryable: bool | None = None,
    retry_after_ms: int | None = None,
) -> Step:
    """Fail; what was said before is kept."""
    return Step(
        error=ErrorStep(
            message=message, status=status, retryable=retryable, retry_after_ms=retry_after_ms
        )
    )


def delay(milliseconds: float) -> Step:
    """Wait; an abort cuts it short."""
    return Step(delay_ms=milliseconds)


def usage(*, input: int = 0, output: int = 0, cache_read: int = 0, cache_write: int = 0) -> Step:
    """Report these tokens instead of the estimate."""
    return Step(
        usage=UsageStep(input=input, output=output, cache_read=cache_read, cache_write=cache_write)
    )


def stop_reason(reason: Literal["stop", "length", "toolUse"]) -> Step:
    """End for this reason."""
    return Step(stop_reason=reason)


def until(wait: Callable[[], Awaitable[object]]) -> AnyStep:
    """Go on when ``await wait()`` returns, for instance ``until(event.wait)``."""
    return Until(wait)


def block_events(
    step: Step, builder: MessageBuilder, call_id: str
) -> Iterator[tuple[list[AssistantMessageEvent], int]]:
    """The batches of one content block, each with the characters it adds."""
    opened: AssistantMessageEvent
    add: Callable[[int, str], AssistantMessageEvent]
    if step.tool_call is not UNSET:
        call = step.tool_call
        body = call.arguments_text
        if body is UNSET:
            body = msgspec.json.encode(call.arguments).decode()
        opened, add = builder.start_tool_call(call.id or call_id, call.name), builder.arguments
        pieces = list(_cut(body))
    elif step.thinking is not UNSET:
        opened, add = builder.start_thinking(), builder.thinking
        pieces = _pieces(step.thinking, step.pieces)
    elif step.repeat_text is not UNSET:
        opened, add = builder.start_text(), builder.text
        pieces = [step.repeat_text] * (step.count or 0)
    else:
        opened, add = builder.start_text(), builder.text
        pieces = _pieces(step.text or "", step.pieces)
    index = builder.block_count - 1
    size = 1 if len(pieces) <= _SINGLE_PIECES else _BATCH_PIECES
    yield [opened], 0
    for start in range(0, len(pieces), size):
        batch = pieces[start : start + size]
        yield [add(index, piece) for piece in batch], sum(map(len, batch))
    yield [builder.end(index)], 0


def _cut(content: str) -> Iterator[str]:
    position = 0
    for tokens in cycle(_PIECE_TOKENS):
        if position >= len(content):
            return
        size = tokens * CHARS_PER_TOKEN
        yield content[position : position + size]
        position += size


def _pieces(content: str, count: int | UnsetType) -> list[str]:
    if count is UNSET:
        return list(_cut(content))
    edges = [len(content) * each // count for each in range(count + 1)] if count > 0 else [0]
    return [content[a:b] for a, b in pairwise(edges) if b > a]
