"""Small branches of a session, and replies of a model, for tests of compaction and summaries."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from msgspec import UNSET

from pi_rpc.agent.messages import default_roles
from pi_rpc.harness.compaction import CompactionResult
from pi_rpc.harness.summaries import SummaryRequest
from pi_rpc.llm.abort import AbortController, AbortSignal
from pi_rpc.llm.messages import (
    AssistantMessage,
    StopReason,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_rpc.llm.models import Model, ModelCost
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.scripted import ScriptedModel, scripted_model
from pi_rpc.session.context import build_context
from pi_rpc.session.entries import (
    CompactionEntry,
    ContextEditEntry,
    ContextReplacement,
    Entry,
    MessageEntry,
    encode_entry,
)
from pi_rpc.session.stored import EntryReader, StoredEntry

STAMP = "2026-01-01T00:00:00.000Z"
ROLES = default_roles()


class Branch:
    """A path of entries; each is named by its position: ``e0``, ``e1`` and so on."""

    def __init__(self) -> None:
        self.entries: list[StoredEntry] = []
        self._reader = EntryReader()

    def add(self, kind: type[Entry], **fields: Any) -> str:
        entry_id = f"e{len(self.entries)}"
        parent = self.entries[-1].id if self.entries else None
        entry = kind(id=entry_id, parent_id=parent, timestamp=STAMP, **fields)  # type: ignore[call-arg]
        self.entries.append(self._reader.written(entry, encode_entry(entry)))
        return entry_id

    def say(self, *messages: Any) -> str:
        """Add messages; the id of the last."""
        return [self.add(MessageEntry, message=message) for message in messages][-1]

    def hide(self, target: str) -> str:
        return self.add(ContextEditEntry, target_id=target, replacement=None)

    def replace(self, target: str, content: str) -> str:
        replacement = ContextReplacement(content=content)
        return self.add(ContextEditEntry, target_id=target, replacement=replacement)

    def compact(self, result: CompactionResult) -> str:
        """Put a result into effect, as the harness does."""
        made = result.entry(f"e{len(self.entries)}", None, STAMP)
        return self.add(
            CompactionEntry,
            summary=made.summary,
            first_kept_entry_id=made.first_kept_entry_id,
            tokens_before=made.tokens_before,
            usage=made.usage,
            details=made.details,
            from_hook=made.from_hook,
        )

    @property
    def context(self) -> list[Any]:
        return list(build_context(self.entries).messages)


def user(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


def tokens(count: int, letter: str = "u") -> UserMessage:
    """A user's message that is estimated at so many tokens."""
    return user(letter * (4 * count))


def usage_of(total: int) -> Usage:
    return Usage(
        input=total, output=0, cache_read=0, cache_write=0, total_tokens=0, cost=Usage.ZERO.cost
    )


def reply(
    text: str = "",
    *calls: ToolCall,
    stop_reason: StopReason = "stop",
    usage: Usage = Usage.ZERO,
    error: str | None = None,
    model: str = "acme/one",
) -> AssistantMessage:
    content: list[Any] = [TextBlock(text=text)] if text else []
    provider, _, name = model.partition("/")
    return AssistantMessage(
        content=[*content, *calls],
        api="test",
        provider=provider,
        model=name,
        usage=usage,
        stop_reason=stop_reason,
        timestamp=2,
        error_message=UNSET if error is None else error,
    )


def call(call_id: str, name: str = "read", **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def result(call_id: str, text: str = "done", **fields: Any) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id,
        tool_name="read",
        content=[TextBlock(text=text)],
        is_error=False,
        timestamp=3,
        **fields,
    )


def model_of(window: int = 100_000, max_tokens: int = 8_000) -> Model:
    return Model(
        id="one",
        name="One",
        api="test",
        provider="acme",
        base_url="",
        reasoning=False,
        input=["text"],
        cost=ModelCost(input=0, output=0, cache_read=0, cache_write=0),
        context_window=window,
        max_tokens=max_tokens,
    )


class Asked:
    """An ``Ask`` that answers with prepared replies and remembers what it was asked."""

    def __init__(self, *replies: AssistantMessage | str) -> None:
        self.requests: list[SummaryRequest] = []
        self._replies = list(replies)

    async def __call__(self, request: SummaryRequest) -> AssistantMessage:
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        answer = self._replies.pop(0)
        return reply(answer, usage=usage_of(100)) if isinstance(answer, str) else answer


def asking(
    script: ScriptedModel, signal: AbortSignal | None = None
) -> Callable[[SummaryRequest], Awaitable[AssistantMessage]]:
    """An ``Ask`` that streams from a scripted model, as the harness would."""

    async def ask(request: SummaryRequest) -> AssistantMessage:
        options = StreamOptions(
            signal=signal or AbortController().signal,
            cache_retention="none",
            max_tokens=request.max_tokens,
        )
        context = Context(messages=[user(request.text)], system_prompt=request.system_prompt)
        return await script(scripted_model(), context, options).result()

    return ask
