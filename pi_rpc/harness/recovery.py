"""What a reply means for the size of the conversation: go on, compact, or compact and ask again.

Owns the decision after a reply. Pure: does not own what is then done (``pi_rpc.harness.harness``)
nor how a conversation is compacted (``pi_rpc.harness.compaction``).
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from pi_rpc.agent.messages import AgentMessage, BashExecutionMessage
from pi_rpc.harness.compaction import should_compact
from pi_rpc.harness.settings import CompactionSettings
from pi_rpc.llm.errors import ContextOverflowError, ProviderError
from pi_rpc.llm.messages import AssistantMessage, ToolResultMessage, UserMessage
from pi_rpc.llm.models import Model
from pi_rpc.llm.overflow import is_overflow
from pi_rpc.session.context import build_context
from pi_rpc.session.stored import StoredEntry

__all__ = ["Recovery", "RecoveryAction", "attempt_entry_ids", "recovery_after", "renews_recovery"]

RecoveryAction: TypeAlias = Literal["none", "compact", "compact_and_retry", "give_up"]


class Recovery(Struct, frozen=True):
    """What the harness should do about a reply."""

    action: RecoveryAction
    """``compact_and_retry``: hide the attempt (``attempt_entry_ids``), compact, ask again.
    ``give_up``: recovery was tried already; tell ``message``."""
    reason: Literal["threshold", "overflow"] = "threshold"
    """The reason that a compaction announces."""
    message: str = ""
    """For people, with ``give_up``."""


_NONE = Recovery("none")


def recovery_after(
    reply: AssistantMessage,
    error: ProviderError | None,
    model: Model,
    settings: CompactionSettings,
    *,
    context_tokens: int,
    recovered: bool,
) -> Recovery:
    """Decide about a reply, after retries.

    ``error`` is the typed failure of its stream, where there is one. ``settings`` are those of
    ``model``, the current one: a reply of another model tells nothing about its window, only
    ``context_tokens`` (``usage.branch_tokens``) does. ``recovered`` says that a recovery was
    already used since ``renews_recovery``.
    """
    if not settings.enabled:
        return _NONE
    if (reply.provider, reply.model) == (model.provider, model.id):
        overflow = _overflowed(reply, error, model)
        if overflow and reply.stop_reason not in ("error", "length"):
            return Recovery("compact", "overflow")
        if overflow or _cut_short(reply, model):
            if not recovered:
                return Recovery("compact_and_retry", "overflow")
            return Recovery("give_up", "overflow", _given_up(reply, model, overflow=overflow))
    if should_compact(context_tokens, model.context_window, settings):
        return Recovery("compact")
    return _NONE


def renews_recovery(message: AgentMessage) -> bool:
    """From this message on, recovery may be used again: a person's, or a good reply."""
    if isinstance(message, AssistantMessage):
        return message.stop_reason in ("stop", "toolUse")
    return isinstance(message, UserMessage)


def attempt_entry_ids(branch: Sequence[StoredEntry]) -> list[str]:
    """The entries of the last reply that the model would still see and of its tool results.

    A ``context_edit`` with a null replacement for each hides the attempt.
    """
    context = build_context(branch)
    results: list[str] = []
    for entry_id, message in zip(
        reversed(context.entry_ids), reversed(context.messages), strict=True
    ):
        if isinstance(message, AssistantMessage):
            return [entry_id, *reversed(results)]
        if isinstance(message, BashExecutionMessage):
            continue  # A person ran it meanwhile.
        if not isinstance(message, ToolResultMessage):
            break
        results.append(entry_id)
    return []


def _overflowed(reply: AssistantMessage, error: ProviderError | None, model: Model) -> bool:
    if reply.stop_reason == "error" and error is not None:
        return isinstance(error, ContextOverflowError)
    return is_overflow(reply, model.context_window)


def _cut_short(reply: AssistantMessage, model: Model) -> bool:
    """The reply ended although the model may say more: the window was full."""
    return reply.stop_reason == "length" and reply.usage.output < model.max_tokens


def _given_up(reply: AssistantMessage, model: Model, *, overflow: bool) -> str:
    if not overflow:
        return (
            "the reply was cut short again after the conversation was compacted; send a prompt to"
            " go on, or choose a model with a larger context window"
        )
    said = f" ({reply.error_message})" if reply.error_message else ""
    return (
        f"the conversation is still too long for {model.ref} after it was compacted{said}; choose"
        " a model with a larger context window, or go back to an earlier entry"
    )
