"""Base URLs and headers that cannot be: a failed reply that says so, and nothing is sent."""

from collections.abc import Callable
from typing import Any

import pytest

from pi_rpc.llm.errors import BadRequestError
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, cache_retention_of, stream_simple

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "base_url",
    [
        "http://joe:s3cret@host:99999/v1",
        "http://127.0.0.1:-1/v1",
        "http://127.0.0.1:port/v1",
        "http://[::1/v1",
        "unix:///tmp/socket",
        "host:8080",
        "//host/v1",
        "http:///v1",
        "file:///etc/hostname",
    ],
)
@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages"])
async def test_what_is_no_address_is_refused_without_a_retry(
    api: str, base_url: str, make_model: Callable[..., Model], hello: Context
) -> None:
    stream = stream_simple(make_model(base_url=base_url, api=api), hello)
    message = await stream.result()
    assert isinstance(stream.error, BadRequestError)
    assert not stream.error.retryable
    assert "not an address" in (message.error_message or "")
    assert "s3cret" not in (message.error_message or "")


@pytest.mark.parametrize(
    "name", ["x y", "", "a:b", "\u00fc", "x\n", "x\ud800", "Content-Length", "Transfer-Encoding"]
)
async def test_what_cannot_be_a_header_is_named_and_nothing_is_sent(
    name: str, serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        raise AssertionError(f"{exchange.asked.path} was asked")

    async with serve(answer) as server:
        stream = stream_simple(
            make_model(base_url=server.url), hello, StreamOptions(headers={name: "s3cret"})
        )
        message = await stream.result()
    assert isinstance(stream.error, BadRequestError)
    assert f"{name.lower()!a} cannot be a header" in (message.error_message or "")
    assert "s3cret" not in (message.error_message or "")
    assert server.asked == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, "short"),
        ("long", "long"),
        (" LONG\n", "long"),
        ("none", "none"),
        ("short", "short"),
        ("a year", "short"),
        ("", "short"),
    ],
)
def test_the_environment_says_how_long_prompts_are_cached(said: str | None, expected: str) -> None:
    environ = {} if said is None else {"PI_CACHE_RETENTION": said}
    assert cache_retention_of(environ) == expected
