"""A user name and password in a base URL: who gets them, and that nobody is shown them."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages"])
@pytest.mark.parametrize("in_stream", [False, True])
@pytest.mark.parametrize(
    ("credential", "secrets"),
    [
        ("joe:p%2Fss:w0rd@", ["p%2Fss:w0rd", "p/ss:w0rd", "am9lOnAvc3M6dzByZA=="]),
        ("t0ken-alone@", ["t0ken-alone", "dDBrZW4tYWxvbmU6"]),
    ],
)
async def test_a_credential_in_the_base_url_is_sent_and_never_shown(
    serve: Any,
    make_model: Callable[..., Model],
    hello: Context,
    *,
    api: str,
    in_stream: bool,
    credential: str,
    secrets: list[str],
) -> None:
    async def answer(exchange: Any) -> None:
        said = f"refused {exchange.asked.headers.get('authorization')} of {' '.join(secrets)}"
        await exchange.head(*([] if in_stream else ["401 Unauthorized", "application/json"]))
        body = {"type": "error", "error": {"message": said}}
        await (exchange.events(body) if in_stream else exchange.send(msgspec.json.encode(body)))

    async with serve(answer) as server:
        url = server.url.replace("://", f"://{credential}")
        stream = stream_simple(make_model(base_url=url, api=api), hello)
        message = await stream.result()
    assert server.asked[0].headers["authorization"] == f"Basic {secrets[-1]}"
    assert "refused" in message.error_message
    assert "***" in message.error_message
    for secret in [*secrets, "w0rd"]:
        assert secret not in message.error_message


async def test_an_explicit_key_wins_over_a_credential_in_the_base_url(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head()
        await exchange.events({"error": {"message": "no: my-own-key joe S3CRET am9lOlMzQ1JFVA=="}})

    async with serve(answer) as server:
        url = server.url.replace("://", "://joe:S3CRET@")
        options = StreamOptions(api_key="my-own-key")
        message = await stream_simple(make_model(base_url=url), hello, options).result()
    assert server.asked[0].headers["authorization"] == "Bearer my-own-key"
    assert server.asked[0].headers["host"] == server.url.removeprefix("http://")
    assert "no: *** joe *** ***" in message.error_message
