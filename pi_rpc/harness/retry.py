"""Whether a failed reply is asked for again, and after how long.

Owns the decision. Pure: does not own the waiting, the events or the hiding of the failed reply
(``pi_rpc.harness.harness``), nor which failures may pass (``pi_rpc.llm.failures``).
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from pi_rpc.harness.settings import RetrySettings
from pi_rpc.llm.errors import ProviderError
from pi_rpc.llm.messages import AssistantMessage

__all__ = ["RetryDecision", "RetryReason", "retry_delay_ms", "should_retry"]

RetryReason: TypeAlias = Literal["transient", "final", "disabled", "exhausted", "wait_too_long"]


class RetryDecision(Struct, frozen=True):
    """What to do about a reply that ended."""

    delay_ms: int | None
    """Wait that long and ask again; None for not asking again."""
    reason: RetryReason
    """Why: may pass; will not (or is no failure at all); retries are off, used up, or later than
    anybody should wait."""
    message: str
    """For people: the failure, and why it is not retried where that is not plain from it."""

    @property
    def will_retry(self) -> bool:
        """The reply is asked for again."""
        return self.delay_ms is not None


def retry_delay_ms(settings: RetrySettings, attempt: int, retry_after_ms: int | None = None) -> int:
    """How long to wait before retry number ``attempt``, from 1: 2 s, 4 s, 8 s by default.

    Never more than ``max_agent_delay_ms``, unless the provider asks for more with
    ``retry_after_ms``; never less than it asks for.
    """
    # Bounded, because the exponent comes from a person's settings.
    doubled = settings.base_delay_ms << min(max(attempt - 1, 0), 62)
    return max(min(doubled, settings.max_agent_delay_ms), retry_after_ms or 0)


def should_retry(
    reply: AssistantMessage, error: ProviderError | None, attempt: int, settings: RetrySettings
) -> RetryDecision:
    """Decide about ``reply``. ``attempt`` is the number of the retry that would follow, from 1.

    ``error`` is the typed failure of the reply's stream, where there is one; it decides before the
    text does. An abort and a conversation that is too long are never retried.
    """
    said = reply.error_message or ""
    if reply.stop_reason != "error":
        return RetryDecision(None, "final", said)
    from pi_rpc.llm.failures import is_retryable

    if not is_retryable(reply, error):
        return RetryDecision(None, "final", said)
    if not settings.enabled or settings.max_retries <= 0:
        return RetryDecision(None, "disabled", said)
    if attempt > settings.max_retries:
        return RetryDecision(None, "exhausted", said)
    asked = error.retry_after_ms if error is not None else None
    if asked is not None and asked > settings.max_agent_delay_ms:
        limit = settings.max_agent_delay_ms
        message = (
            f"{said} (the provider asks to wait {_seconds(asked)}, longer than the limit of"
            f" {_seconds(limit)}; it was not asked again)"
        )
        return RetryDecision(None, "wait_too_long", message.strip())
    return RetryDecision(retry_delay_ms(settings, attempt, asked), "transient", said)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds < 1e8 else f"{milliseconds // 1000} s"
