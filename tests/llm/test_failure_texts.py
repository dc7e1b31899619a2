"""Statuses, bodies and texts: which error they are, and whether to try again."""

from typing import Any

import msgspec
import pytest

from pi_rpc.llm.errors import (
    BadRequestError,
    ContextOverflowError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from pi_rpc.llm.failures import (
    failure_in_stream,
    failure_of_response,
    failure_with,
    is_retryable,
    says_transient,
    scrubbed,
)
from pi_rpc.llm.messages import AssistantMessage, Usage
from pi_rpc.llm.overflow import is_overflow, says_overflow

OVERFLOWS = [
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Prompt exceeds max length",
    'request_too_large: "Request exceeds the maximum size"',
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model. Please adjust your input.",
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    "context window exceeded",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "The input (50000 tokens) is longer than the model's context length (32768 tokens).",
    "prompt token count of 150000 exceeds the limit of 128000",
    "the request exceeds the available context size, try increasing it",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144",
    "Prompt contains 9000 tokens, too large for model with 8192 maximum context length",
    "prompt has 9000 tokens, but the configured context size is 4096 tokens",
    "model_context_window_exceeded",
    "Range of input length should be [1, 30720]",
    "context_length_exceeded",
    "too many tokens",
    "token limit exceeded",
    "413 (no body)",
]
NOT_OVERFLOWS = [
    "Throttling: too many tokens, please wait",
    "ServiceUnavailable: context window exceeded upstream",
    "Rate limit reached: token limit exceeded per minute",
    "Too many requests",
    "invalid api key",
    "max_tokens must be positive",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_a_text_that_means_overflow_is_known_as_one(text: str) -> None:
    assert says_overflow(text)
    body = msgspec.json.encode({"error": {"message": text}}).decode()
    error = failure_of_response(400, {}, body, "acme")
    assert isinstance(error, ContextOverflowError)
    assert not is_retryable(failed(error.message), error)
    assert not is_retryable(failed(text))


@pytest.mark.parametrize("text", NOT_OVERFLOWS)
def test_a_text_that_means_something_else_is_no_overflow(text: str) -> None:
    assert not says_overflow(text)


def failed(text: str, stop: Any = "error", **usage: int) -> AssistantMessage:
    return AssistantMessage(
        content=[],
        api="x",
        provider="x",
        model="x",
        usage=msgspec.structs.replace(Usage.ZERO, **usage),
        stop_reason=stop,
        timestamp=1,
        error_message=text,
    )


def test_overflow_is_recognised_without_an_error_too() -> None:
    assert is_overflow(failed("prompt is too long"))
    assert not is_overflow(failed("prompt is too long", stop="aborted"), 1000)
    assert is_overflow(failed("", stop="stop", input=900, cache_read=200), 1000)
    assert not is_overflow(failed("", stop="stop", input=900), 1000)
    assert is_overflow(failed("", stop="length", input=995), 1000)
    assert not is_overflow(failed("", stop="length", input=995, output=4), 1000)
    assert not is_overflow(failed("", stop="length", input=995))


TRANSIENT = [
    "Overloaded", "server is busy", "we are experiencing high demand", "model at capacity",
    "rate limit reached", "Too Many Requests", "ResourceExhausted", "error 503 from upstream",
    "status 524", "Service temporarily unavailable", "internal_server_error", "Internal error",
    "Provider returned error", "upstream request failed", "upstream_stream_read_error",
    "exceeded request buffer limit while retrying upstream", "stream was interrupted",
    "http2 stream failed", "network error", "Connection error.", "connection refused",
    "connection lost", "other side closed", "fetch failed", "getaddrinfo ENOTFOUND api.x",
    "read ECONNRESET", "connect ETIMEDOUT", "write EPIPE", "reset by peer", "socket hang up",
    "request timed out", "timeout", "terminated", "websocket closed", "stream ended without x",
    "ended before message_stop", "please retry your request",
]  # fmt: skip
FINAL = [
    "GoUsageLimitError", "monthly usage limit reached", "429 insufficient_quota",
    "You exceeded your current quota, check your billing", "available balance too low (429)",
    "out of budget", "invalid api key", "value 5003 is out of range", "aborted by the user",
    '429 {"code":1308}',
]  # fmt: skip


@pytest.mark.parametrize("text", TRANSIENT)
def test_a_text_of_something_passing_is_retryable(text: str) -> None:
    assert says_transient(text)
    assert is_retryable(failed(text))
    assert failure_with(text).retryable


@pytest.mark.parametrize("text", FINAL)
def test_a_text_of_something_lasting_is_not_retryable(text: str) -> None:
    assert not is_retryable(failed(text))


def test_the_typed_error_decides_before_the_text() -> None:
    assert not is_retryable(failed("503"), ProviderError("503", retryable=False))
    assert is_retryable(failed("no"), ProviderError("no", retryable=True))
    assert not is_retryable(failed("x"), ContextOverflowError("x", retryable=True))
    assert not is_retryable(failed("503", stop="aborted"))


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, OverloadedError, "Overloaded"),
        ({"code": 502, "message": "Provider returned error", "metadata": {"raw": "why"}},
         ServerError, "Provider returned error: why"),
        ({"code": "429", "message": "slow"}, RateLimitError, "slow"),
        ({"type": "insufficient_quota", "message": "none left"}, QuotaError, "none left"),
        ({"message": "prompt is too long"}, ContextOverflowError, "prompt is too long"),
        ("just text", ProviderError, "just text"),
        (None, ProviderError, "null"),
        ({"type": "invalid_request_error", "message": "no"}, BadRequestError, "no"),
    ],
)  # fmt: skip
def test_an_error_object_inside_a_stream_is_the_error_it_names(
    error: Any, kind: type[ProviderError], says: str
) -> None:
    failure = failure_in_stream(error, "acme")
    assert type(failure) is kind
    assert says in failure.message
    assert failure.message.startswith("acme reported an error")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"error": "plain"}', "plain"),
        ('{"message": "top"}', "top"),
        ('{"detail": "Not Found"}', "Not Found"),
        ('{"detail": [{"msg": "field required"}]}', "field required"),
        ('[{"error": {"message": "in a list", "status": "INVALID"}}]', "(INVALID): in a list"),
        ('{"object": "error", "message": "vllm"}', "vllm"),
        ("plain text\nof two lines", "plain text of two lines"),
        ("<!DOCTYPE html><html><body><h1>Gateway &amp; co</h1>", "Gateway & co"),
        ("<html><style>p{}</style><p>only this</p></html>", "only this"),
        ("", "(no body)"),
        ("null", "(no body)"),
    ],
)
def test_every_shape_of_body_gives_its_sentence(body: str, says: str) -> None:
    error = failure_of_response(418, {}, body, "acme")
    assert error.message.startswith("acme answered 418")
    assert error.message.endswith(says)


def test_a_long_body_is_bounded() -> None:
    error = failure_of_response(400, {}, '{"message": "' + "x" * 10_000 + '"}', "acme")
    assert len(error.message) < 560


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefgh12345678", "sk-ant-api03-abcdefgh", "AIzaSyA1234567890abcdefghijklm"],
)
def test_what_looks_like_a_key_is_never_shown(secret: str) -> None:
    assert secret not in scrubbed(f"Incorrect API key: {secret}.")
    error = failure_of_response(401, {}, f'{{"error":{{"message":"bad {secret}"}}}}', "acme")
    assert secret not in error.message
    assert "hunter22" not in scrubbed("the key hunter22 is wrong", ("hunter22",))


def test_a_server_that_answers_500_to_a_long_prompt_overflows() -> None:
    body = '{"error":{"message":"the request exceeds the available context size"}}'
    assert isinstance(failure_of_response(500, {}, body, "acme"), ContextOverflowError)
    assert isinstance(failure_of_response(429, {}, body, "acme"), RateLimitError)
    assert isinstance(failure_of_response(400, {}, "", "cerebras"), ContextOverflowError)
    assert isinstance(failure_of_response(400, {}, "", "acme"), BadRequestError)
