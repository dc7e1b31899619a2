"""What the details of Google's errors say, and what is made of those that say nothing."""

from typing import Any

import msgspec
import pytest

from pi_rpc.llm._rpc_status import RpcDetails, rpc_details
from pi_rpc.llm.errors import AuthError, BadRequestError, QuotaError, RateLimitError
from pi_rpc.llm.failures import failure_in_stream, failure_of_response

TYPE = "type.googleapis.com/google.rpc."
QUOTA = "You exceeded your current quota, please check your plan and billing details."


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"{TYPE}{kind}", **fields}


def violated(*quota_ids: str) -> dict[str, Any]:
    return detail("QuotaFailure", violations=[{"quotaId": each} for each in quota_ids])


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ([], RpcDetails()),
        (None, RpcDetails()),
        ("text", RpcDetails()),
        ([None, 3, {}, detail("Help", links=[])], RpcDetails()),
        ([detail("RetryInfo", retryDelay="8s")], RpcDetails(8000, False)),
        ([detail("RetryInfo", retryDelay="0.25s")], RpcDetails(250, False)),
        ([detail("RetryInfo", retryDelay="soon")], RpcDetails(None, False)),
        ([detail("RetryInfo")], RpcDetails(None, False)),
        ([violated("PerMinute")], RpcDetails(None, False)),
        ([violated("PerMinute", "RequestsPerDay")], RpcDetails(None, True)),
        ([detail("RetryInfo", retryDelay="1s"), violated("PerDay")], RpcDetails(1000, True)),
        ([violated("PerDay"), detail("RetryInfo", retryDelay="1s")], RpcDetails(1000, True)),
        ([detail("ErrorInfo", reason="API_KEY_INVALID")], RpcDetails(is_bad_key=True)),
        ([detail("ErrorInfo", reason="SERVICE_DISABLED")], RpcDetails()),
    ],
)
def test_details_are_read_wherever_the_error_stands(details: Any, expected: RpcDetails) -> None:
    error = {"code": 429, "details": details}
    assert rpc_details(error) == expected
    assert rpc_details({"error": error}) == expected
    assert rpc_details([{"error": error}]) == expected


@pytest.mark.parametrize("nothing", [None, [], "text", 3, {"error": "text"}])
def test_what_has_no_details_says_nothing(nothing: Any) -> None:
    assert rpc_details(nothing) == RpcDetails()


def body(*details: Any, message: str = QUOTA) -> str:
    error = {"code": 429, "message": message, "details": list(details)}
    return msgspec.json.encode([{"error": error}]).decode()


def test_a_limit_that_passes_is_told_from_a_plan_that_is_used_up() -> None:
    wait = detail("RetryInfo", retryDelay="7s")
    passing = failure_of_response(429, {}, body(wait), "google")
    assert type(passing) is RateLimitError
    assert passing.retryable
    assert passing.retry_after_ms == 7000
    used_up = failure_of_response(429, {}, body(violated("PerDay"), wait), "google")
    assert type(used_up) is QuotaError
    assert not used_up.retryable
    assert type(failure_of_response(429, {}, body(), "google")) is QuotaError


def test_a_header_counts_more_than_the_details() -> None:
    text = body(detail("RetryInfo", retryDelay="7s"))
    assert failure_of_response(429, {"retry-after": "2"}, text, "google").retry_after_ms == 2000


def test_a_body_that_is_no_json_is_read_as_text() -> None:
    error = failure_of_response(400, {}, 'not JSON, but says "@type"', "google")
    assert type(error) is BadRequestError
    assert error.message == 'google answered 400: not JSON, but says "@type"'


def test_a_wrong_key_is_one_whatever_the_status_and_place() -> None:
    wrong = detail("ErrorInfo", reason="API_KEY_INVALID")
    for error in (
        failure_of_response(400, {}, body(wrong, message="API key not valid."), "google"),
        failure_in_stream({"code": 400, "message": "no", "details": [wrong]}, "google"),
    ):
        assert type(error) is AuthError
        assert error.status == 400
        assert not error.retryable
