"""When a limit is reset, in the headers of each vendor."""

from datetime import UTC, datetime, timedelta

import pytest

from pi_rpc.llm._reset_headers import until_reset_ms
from pi_rpc.llm.failures import retry_after_ms

NOW = datetime.now(UTC)
SOON = NOW + timedelta(seconds=3600)
OPENAI = "x-ratelimit-{}-requests"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1s", 1000),
        ("7.66s", 7660),
        ("120ms", 120),
        ("6m0s", 360_000),
        ("1h2m3s", 3_723_000),
        ("1d", 86_400_000),
        ("2m", 120_000),
        ("20", 20_000),
        ("0", 0),
        ("0.5", 500),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("s", None),
        ("2001-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_is_read_in_every_way_it_is_written(value: str, expected: int | None) -> None:
    headers = {OPENAI.format("remaining"): "0", OPENAI.format("reset"): value}
    assert until_reset_ms(headers) == expected


@pytest.mark.parametrize(
    "value",
    [
        SOON.isoformat(),
        SOON.strftime("%Y-%m-%dT%H:%M:%SZ"),
        str(SOON.timestamp()),
        str(round(SOON.timestamp() * 1000)),
    ],
    ids=["iso", "iso in Zulu time", "seconds", "milliseconds"],
)
def test_a_moment_is_told_from_a_time(value: str) -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": value}
    wait = until_reset_ms(headers)
    assert wait is not None
    assert 3_000_000 < wait <= 3_600_000


def test_only_limits_that_were_reached_count_and_of_those_the_last() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "3s",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "5s",
        "anthropic-ratelimit-output-tokens-remaining": "1",
        "anthropic-ratelimit-output-tokens-reset": "9s",
        "x-ratelimit-remaining-tokens": "0",
    }
    assert until_reset_ms(headers) == 5000
    assert until_reset_ms({}) is None


def test_what_the_provider_says_to_do_comes_first() -> None:
    reached = {OPENAI.format("remaining"): "0", OPENAI.format("reset"): "9s"}
    assert retry_after_ms({**reached, "retry-after": "2"}) == 2000
    assert retry_after_ms({**reached, "retry-after": "some day"}) == 9000
    assert retry_after_ms(reached) == 9000
