"""Which failed replies are asked for again, when, and what a reply says about the context."""

from typing import Any

import msgspec
import pytest

from pi_rpc.harness.recovery import (
    Recovery,
    attempt_entry_ids,
    recovery_after,
    renews_recovery,
)
from pi_rpc.harness.retry import retry_delay_ms, should_retry
from pi_rpc.harness.settings import CompactionSettings, RetrySettings
from pi_rpc.llm.errors import (
    AuthError,
    ContextOverflowError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitError,
)
from pi_rpc.llm.messages import AssistantMessage, StopReason, Usage
from pi_rpc.session.entries import LabelEntry
from tests.harness.branches import Branch, call, model_of, reply, result, user

DEFAULTS = RetrySettings()


def failed(message: str = "overloaded", stop_reason: StopReason = "error") -> AssistantMessage:
    return reply(stop_reason=stop_reason, error=message)


# --- retry --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "delay"), [(1, 2_000), (2, 4_000), (3, 8_000), (6, 60_000), (10_000, 60_000)]
)
def test_the_wait_doubles_up_to_a_limit(attempt: int, delay: int) -> None:
    assert retry_delay_ms(DEFAULTS, attempt) == delay


@pytest.mark.parametrize(
    ("asked", "delay"), [(None, 2_000), (0, 2_000), (500, 2_000), (7_000, 7_000)]
)
def test_a_provider_is_never_asked_again_sooner_than_it_wants(
    asked: int | None, delay: int
) -> None:
    assert retry_delay_ms(DEFAULTS, 1, asked) == delay
    error = RateLimitError("slow down", retry_after_ms=asked)
    assert should_retry(failed(), error, 1, DEFAULTS).delay_ms == delay


def test_a_failure_that_may_pass_is_retried_three_times() -> None:
    decisions = [should_retry(failed(), OverloadedError("o"), n, DEFAULTS) for n in range(1, 5)]
    assert [decision.delay_ms for decision in decisions] == [2_000, 4_000, 8_000, None]
    assert [decision.will_retry for decision in decisions] == [True, True, True, False]
    assert decisions[-1].reason == "exhausted"
    assert decisions[-1].message == "overloaded"


def test_a_wait_at_the_limit_is_taken_and_a_longer_one_given_up_with_a_reason() -> None:
    at_limit = RateLimitError("slow down", retry_after_ms=60_000)
    assert should_retry(failed(), at_limit, 1, DEFAULTS).delay_ms == 60_000
    over = RateLimitError("slow down", retry_after_ms=90_500)
    decision = should_retry(failed("slow down"), over, 1, DEFAULTS)
    assert (decision.delay_ms, decision.reason) == (None, "wait_too_long")
    assert decision.message.startswith("slow down (the provider asks to wait 90.5 s")
    assert "60 s" in decision.message


@pytest.mark.parametrize(
    ("text", "error", "retried"),
    [
        ("overloaded", AuthError("no"), False),
        ("invalid request", OverloadedError("o"), True),
        ("overloaded", OverloadedError("o", retryable=False), False),
        ("overloaded", None, True),
        ("insufficient_quota, too many requests", None, False),
        ("whatever", QuotaError("used up"), False),
        ("prompt is too long", None, False),
        ("overloaded", ContextOverflowError("too long", retryable=True), False),
        ("no reason", None, False),
    ],
)
def test_the_typed_error_decides_before_the_text(
    text: str, error: ProviderError | None, retried: bool
) -> None:
    decision = should_retry(failed(text), error, 1, DEFAULTS)
    assert decision.will_retry is retried
    assert decision.reason == ("transient" if retried else "final")


@pytest.mark.parametrize("reason", ["stop", "length", "toolUse", "aborted"])
def test_only_failures_are_retried(reason: StopReason) -> None:
    decision = should_retry(failed(stop_reason=reason), OverloadedError("o"), 1, DEFAULTS)
    assert not decision.will_retry


@pytest.mark.parametrize("settings", [RetrySettings(enabled=False), RetrySettings(max_retries=0)])
def test_retries_can_be_switched_off(settings: RetrySettings) -> None:
    decision = should_retry(failed(), OverloadedError("o"), 1, settings)
    assert (decision.delay_ms, decision.reason) == (None, "disabled")


# --- recovery -----------------------------------------------------------------------------------


def answer(reason: StopReason, *, read: int = 0, cached: int = 0, out: int = 0, **rest: Any) -> Any:
    usage = Usage(
        input=read,
        output=out,
        cache_read=cached,
        cache_write=0,
        total_tokens=0,
        cost=Usage.ZERO.cost,
    )
    return reply("x", stop_reason=reason, usage=usage, **rest)


def decide(message: Any, error: ProviderError | None = None, **options: Any) -> Recovery:
    given: dict[str, Any] = {"context_tokens": 0, "recovered": False, **options}
    settings = given.pop("settings", CompactionSettings())
    return recovery_after(message, error, model_of(), settings, **given)


TOO_LONG = reply(stop_reason="error", error="prompt is too long: 9 tokens")
OVERFLOWS = [
    TOO_LONG,
    answer("length", read=90_000, cached=9_000),
    answer("length", read=10, out=7_999),
]


@pytest.mark.parametrize("message", OVERFLOWS)
def test_a_reply_for_which_there_was_no_room_is_asked_for_again_once(message: Any) -> None:
    assert decide(message) == Recovery("compact_and_retry", "overflow")
    again = decide(message, recovered=True)
    assert (again.action, again.reason) == ("give_up", "overflow")
    assert "compacted" in again.message


def test_the_provider_is_quoted_when_recovery_is_given_up() -> None:
    assert "acme/one" in decide(TOO_LONG, recovered=True).message
    assert "prompt is too long: 9 tokens" in decide(TOO_LONG, recovered=True).message


def test_the_typed_error_decides_whether_the_conversation_was_too_long() -> None:
    odd = reply(stop_reason="error", error="no can do")
    assert decide(odd, ContextOverflowError("no can do")).action == "compact_and_retry"
    assert decide(odd).action == "none"
    assert decide(TOO_LONG, AuthError("prompt is too long")).action == "none"


@pytest.mark.parametrize("recovered", [False, True])
def test_a_good_reply_over_the_window_compacts_without_asking_again(recovered: bool) -> None:
    message = answer("stop", read=60_000, cached=40_001)
    assert decide(message, recovered=recovered) == Recovery("compact", "overflow")
    assert decide(answer("stop", read=60_000, cached=40_000)).action == "none"


def test_a_reply_that_used_all_the_model_may_say_is_simply_long() -> None:
    assert decide(answer("length", read=10, out=8_000)).action == "none"


@pytest.mark.parametrize("message", OVERFLOWS)
def test_a_reply_of_another_model_tells_nothing_about_the_window(message: Any) -> None:
    assert decide(msgspec.structs.replace(message, model="two")).action == "none"


@pytest.mark.parametrize("reason", ["stop", "toolUse", "error", "aborted"])
def test_a_full_context_is_compacted_whatever_the_reply(reason: StopReason) -> None:
    message = reply("x", stop_reason=reason, model="acme/two")
    assert decide(message, context_tokens=83_617) == Recovery("compact", "threshold")
    assert decide(message, context_tokens=83_616).action == "none"


@pytest.mark.parametrize("message", OVERFLOWS)
def test_nothing_is_recovered_when_compaction_is_switched_off(message: Any) -> None:
    off = CompactionSettings(enabled=False)
    assert decide(message, settings=off, context_tokens=99_999) == Recovery("none")


@pytest.mark.parametrize(
    ("message", "renews"),
    [
        (user("go"), True),
        (reply("x"), True),
        (reply("x", stop_reason="toolUse"), True),
        (reply("x", stop_reason="length"), False),
        (reply("x", stop_reason="error"), False),
        (reply("x", stop_reason="aborted"), False),
        (result("1"), False),
    ],
)
def test_a_person_or_a_good_reply_renews_the_right_to_recover(message: Any, renews: bool) -> None:
    assert renews_recovery(message) is renews


def test_the_last_attempt_is_its_reply_and_the_results() -> None:
    branch = Branch()
    assert attempt_entry_ids(branch.entries) == []
    branch.say(user("go"), reply("", call("1"), call("2")), result("1"))
    branch.add(LabelEntry, target_id="e0", label="l")
    branch.say(result("2"))
    assert attempt_entry_ids(branch.entries) == ["e1", "e2", "e4"]
    for entry_id in attempt_entry_ids(branch.entries):
        branch.hide(entry_id)
    assert attempt_entry_ids(branch.entries) == []
    branch.say(failed())
    assert attempt_entry_ids(branch.entries) == [branch.entries[-1].id]
    branch.say(user("next"))
    assert attempt_entry_ids(branch.entries) == []
