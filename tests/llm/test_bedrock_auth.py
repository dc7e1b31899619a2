"""Where Bedrock is asked, with which credential, and what happens without one."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.errors import (
    AccessError,
    AuthError,
    BadRequestError,
    ContextOverflowError,
    ModelNotFoundError,
    NetworkError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
    StreamTimeoutError,
)
from pi_rpc.llm.failures import is_retryable
from pi_rpc.llm.messages import AssistantMessage, TextBlock
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from pi_rpc.llm.providers import _bedrock_auth
from pi_rpc.llm.providers._bedrock_auth import place_of
from pi_rpc.llm.stream import AssistantMessageStream
from tests.deadlines import DEADLINE_S
from tests.llm.bedrock_wire import CONTENT_TYPE, delta, encoded, forget_aws, recorded

pytestmark = pytest.mark.anyio

API = "bedrock-converse-stream"
STANDARD = "https://bedrock-runtime.us-east-1.amazonaws.com"
ARN = "arn:aws:bedrock:ap-south-1:123456789012:inference-profile/apac.anthropic.claude-x"
SSO = """\
[profile work]
sso_session = s
sso_account_id = 1
sso_role_name = r
[sso-session s]
sso_region = us-east-1
sso_start_url = https://x.awsapps.com/start
"""
TOKEN = "session/token+very-secret=="

Answer = tuple[AssistantMessageStream, AssistantMessage, list[Any]]


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_aws(monkeypatch, tmp_path)
    monkeypatch.setattr(_bedrock_auth, "_refreshing", {})


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG")
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


@pytest.fixture
def asked(serve: Any, make_model: Callable[..., Model], hello: Context) -> Callable[..., Any]:
    """The request a server got, and the stream it answered."""

    async def run(options: StreamOptions | None = None, **changes: Any) -> Any:
        async def answer(exchange: Any) -> None:
            await exchange.head("200 OK", CONTENT_TYPE)
            await exchange.send(recorded("text"))

        async with serve(answer) as server:
            model = make_model(**{"api": API, "base_url": server.url, **changes})
            stream = stream_simple(model, hello, options or StreamOptions())
            await stream.result()
            return (server.asked or [None])[0], stream

    return run


@pytest.mark.parametrize(
    ("environ", "model_id", "base_url", "region", "address"),
    [
        ({}, "m", STANDARD, "us-east-1", STANDARD),
        ({}, "m", "https://bedrock-runtime.eu-central-1.amazonaws.com/", "eu-central-1",
         "https://bedrock-runtime.eu-central-1.amazonaws.com"),
        ({"AWS_REGION": "eu-west-3"}, "m", STANDARD, "eu-west-3",
         "https://bedrock-runtime.eu-west-3.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "m", STANDARD, "eu-west-2",
         "https://bedrock-runtime.eu-west-2.amazonaws.com"),
        ({"AWS_REGION": "eu-west-3"}, ARN, STANDARD, "ap-south-1",
         "https://bedrock-runtime.ap-south-1.amazonaws.com"),
        ({"AWS_REGION": "cn-north-1"}, "m", STANDARD, "cn-north-1",
         "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ({"AWS_REGION": "eusc-de-east-1"}, "m", STANDARD, "eusc-de-east-1",
         "https://bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
        ({"AWS_REGION": "us-gov-west-1"}, "m",
         "https://bedrock-runtime-fips.us-gov-east-1.amazonaws.com", "us-gov-west-1",
         "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com"),
        ({}, "m", "https://vpce-1.bedrock-runtime.us-west-2.vpce.amazonaws.com/", "us-west-2",
         "https://vpce-1.bedrock-runtime.us-west-2.vpce.amazonaws.com"),
        ({}, "m", "http://localhost:1234/proxy/", "us-east-1", "http://localhost:1234/proxy"),
        ({"AWS_REGION": "eu-west-3"}, "m", "http://localhost:1234", "eu-west-3",
         "http://localhost:1234"),
        ({"AWS_ENDPOINT_URL": "http://a/"}, "m", STANDARD, "us-east-1", "http://a"),
        ({"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://b"}, "m",
         STANDARD, "us-east-1", "http://b"),
        ({"AWS_ENDPOINT_URL": "http://a"}, "m", "http://own", "us-east-1", "http://own"),
    ],
)  # fmt: skip
def test_region_and_address_follow_the_model_and_the_environment(
    *,
    environ: dict[str, str],
    model_id: str,
    base_url: str,
    region: str,
    address: str,
    make_model: Callable[..., Model],
) -> None:
    place = place_of(make_model(id=model_id, base_url=base_url), environ)
    assert (place.region, place.base_url) == (region, address)


def test_the_region_of_a_profile_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_model: Callable[..., Model]
) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = sa-east-1\n")
    model = make_model(base_url=STANDARD)
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert place_of(model, {"AWS_PROFILE": "work"}).region == "sa-east-1"
    monkeypatch.setenv("AWS_PROFILE", "absent")
    assert place_of(model, {"AWS_PROFILE": "absent"}).region == "us-east-1"


async def test_a_key_is_sent_as_a_bearer_and_nothing_is_signed(
    keys: None, asked: Callable[..., Any]
) -> None:
    request, stream = await asked(StreamOptions(api_key="secret"), id="a.claude-x-v1:0")
    assert stream.error is None
    assert request.path == "/model/a.claude-x-v1%3A0/converse-stream"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["accept"] == CONTENT_TYPE
    assert not any(name.startswith("x-amz-") for name in request.headers)
    assert request.json["messages"] == [{"role": "user", "content": [{"text": "hello"}]}]


async def test_a_gateway_s_own_credential_is_all_it_sees(
    keys: None, asked: Callable[..., Any]
) -> None:
    options = StreamOptions(api_key="secret", headers={"Authorization": "Token own"})
    request, _ = await asked(options)
    assert request.headers["authorization"] == "Token own"
    assert "x-amz-date" not in request.headers


async def test_signing_can_be_left_to_a_proxy(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[..., Any]
) -> None:
    monkeypatch.setenv("AWS_BEDROCK_SKIP_AUTH", "1")
    request, stream = await asked()
    assert stream.error is None
    assert "authorization" not in request.headers


@pytest.mark.parametrize("model_id", ["us.anthropic.claude-x-v1:0", ARN])
async def test_without_a_key_a_request_is_signed_as_the_signature_s_own_code_would(
    model_id: str, keys: None, asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    request, stream = await asked(id=model_id)
    assert stream.error is None
    region = "ap-south-1" if model_id == ARN else "eu-west-1"
    sent = request.headers["authorization"]
    day = datetime.now(UTC).strftime("%Y%m%d")
    yesterday = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y%m%d")
    scopes = [f"AKIDEXAMPLE/{each}/{region}/bedrock/aws4_request" for each in (day, yesterday)]
    assert any(scope in sent for scope in scopes)
    assert request.headers["x-amz-security-token"] == TOKEN
    # The same request, as the server saw it, signed anew with the time that was sent.
    again = AWSRequest(
        method="POST",
        url=f"http://{request.headers['host']}{request.path}",
        data=request.body,
        headers={"Content-Type": request.headers["content-type"]},
    )
    credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", TOKEN)
    signer = SigV4Auth(credentials, "bedrock", region)
    again.context["timestamp"] = request.headers["x-amz-date"]
    again.headers["X-Amz-Date"] = request.headers["x-amz-date"]
    again.headers["X-Amz-Security-Token"] = TOKEN
    canonical = signer.canonical_request(again)
    signature = signer.signature(signer.string_to_sign(again, canonical), again)
    assert sent.endswith(f"Signature={signature}")


async def test_what_a_person_changes_in_a_profile_counts_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: Callable[..., Any]
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    for key_id in ("AKIDFIRST", "AKIDSECOND"):
        (tmp_path / "credentials").write_text(
            f"[work]\naws_access_key_id = {key_id}\naws_secret_access_key = s\n"
        )
        request, _ = await asked()
        assert f"Credential={key_id}/" in request.headers["authorization"]


async def test_credentials_that_renew_themselves_are_found_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: Callable[..., Any]
) -> None:
    script = tmp_path / "give.py"
    script.write_text(
        "import json, pathlib, datetime\n"
        f"with open({str(tmp_path / 'calls')!r}, 'a') as calls: calls.write('x')\n"
        "end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': 'AKIDGIVEN', 'SecretAccessKey': 's',\n"
        "                  'SessionToken': 't', 'Expiration': end.isoformat()}))\n"
    )
    (tmp_path / "config").write_text(
        f"[profile work]\ncredential_process = {sys.executable} {script}\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    for _ in range(3):
        request, _ = await asked()
        assert "Credential=AKIDGIVEN/" in request.headers["authorization"]
    assert (tmp_path / "calls").read_text() == "x"


async def test_without_any_credential_nothing_is_asked_and_the_ways_are_named(
    asked: Callable[..., Any],
) -> None:
    request, stream = await asked()
    assert request is None
    assert type(stream.error) is AuthError
    assert "AWS_BEARER_TOKEN_BEDROCK" in stream.error.message
    assert "AWS_PROFILE" in stream.error.message


@pytest.mark.parametrize(
    ("variables", "config", "kind", "words"),
    [
        ({"AWS_PROFILE": "absent"}, "", AuthError, "profile (absent) could not be found"),
        ({"AWS_ACCESS_KEY_ID": "A"}, "", AuthError, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_PROFILE": "work"}, "[profile work]\ncredential_process = false\n", AuthError,
         "Error when retrieving credentials"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/absent", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}, "",
         AuthError, "/absent"),
        ({"AWS_PROFILE": "work"}, "[profile work]\ncredential_process = echo x\n", AuthError,
         "cannot be used"),
        ({"AWS_PROFILE": "work"}, SSO, AuthError, "SSO"),
    ],
)  # fmt: skip
async def test_credentials_that_cannot_be_used_say_why(
    *,
    variables: dict[str, str],
    config: str,
    kind: type[ProviderError],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    asked: Callable[..., Any],
) -> None:
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    request, stream = await asked()
    assert request is None
    assert isinstance(stream.error, kind)
    assert words in stream.error.message


async def test_a_role_s_server_that_cannot_be_reached_is_worth_another_try(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[..., Any]
) -> None:
    from botocore.exceptions import ConnectTimeoutError
    from botocore.session import Session

    def refuse(session: Session) -> None:
        raise ConnectTimeoutError(endpoint_url="https://sts.amazonaws.com")

    monkeypatch.setattr(Session, "get_credentials", refuse)
    _, stream = await asked()
    assert type(stream.error) is NetworkError
    assert stream.error.retryable


def test_without_the_extra_the_remedy_is_named(make_model: Callable[..., Model]) -> None:
    program = (
        "import sys, anyio\n"
        "sys.modules['botocore'] = None\n"
        "from pi_rpc.llm.catalogue import models_of\n"
        "from pi_rpc.llm.messages import UserMessage\n"
        "from pi_rpc.llm.provider import Context, StreamOptions, stream_simple\n"
        "context = Context(messages=[UserMessage(content='hi', timestamp=1)])\n"
        "stream = stream_simple(models_of('amazon-bedrock')[0], context,\n"
        "                       StreamOptions(api_key='k'))\n"
        "print(anyio.run(stream.result).error_message, stream.error.retryable)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout == (
        "amazon-bedrock needs the library botocore; install it with: "
        "pip install 'pi-rpc[bedrock]' False\n"
    )


def test_the_library_is_imported_with_the_first_request_only() -> None:
    program = (
        "import sys\n"
        "import pi_rpc.llm.providers.bedrock_converse_stream\n"
        "print(sorted({'botocore', 'httpx', 'ssl', 'urllib3', 'http.client'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout == "[]\n"


@pytest.fixture
def refused(serve: Any, make_model: Callable[..., Model], hello: Context) -> Callable[..., Any]:
    """Ask a server that refuses as AWS does."""

    async def run(status: str, kind: str, body: Any) -> Answer:
        async def answer(exchange: Any) -> None:
            await exchange.head(status, "application/json", f"x-amzn-ErrorType: {kind}")
            await exchange.send(msgspec.json.encode(body))

        async with serve(answer) as server:
            stream = stream_simple(make_model(api=API, base_url=server.url), hello)
            return stream, await stream.result(), []

    return run


@pytest.mark.parametrize(
    ("status", "name", "said", "kind", "retried"),
    [
        ("400 Bad Request", "ValidationException", "No such field", BadRequestError, False),
        ("400 Bad Request", "ValidationException", "Input is too long for requested model.",
         ContextOverflowError, False),
        ("400 Bad Request", "ValidationException",
         "The model returned the following errors: prompt is too long: 9 tokens > 8 maximum",
         ContextOverflowError, False),
        ("403 Forbidden", "AccessDeniedException", "not authorized", AccessError, False),
        ("403 Forbidden", "UnrecognizedClientException",
         "The security token included in the request is invalid.", AuthError, False),
        ("403 Forbidden", "ExpiredTokenException", "expired", AuthError, False),
        ("403 Forbidden", "InvalidSignatureException", f"The canonical string was {TOKEN}",
         AuthError, False),
        ("404 Not Found", "ResourceNotFoundException", "no such model", ModelNotFoundError, False),
        ("408 Request Timeout", "ModelTimeoutException", "took too long", StreamTimeoutError, True),
        ("424 Failed Dependency", "ModelErrorException", "the model failed", ServerError, True),
        ("429 Too Many Requests", "ThrottlingException",
         "Too many tokens, please wait before trying again.", RateLimitError, True),
        ("429 Too Many Requests", "ModelNotReadyException", "not ready", RateLimitError, True),
        ("500 Internal Server Error", "InternalServerException", "oops", ServerError, True),
        ("503 Service Unavailable", "ServiceUnavailableException", "busy", OverloadedError, True),
    ],
)  # fmt: skip
async def test_each_refusal_of_aws_is_the_error_it_means(
    *,
    status: str,
    name: str,
    said: str,
    kind: type[ProviderError],
    retried: bool,
    keys: None,
    refused: Callable[..., Any],
) -> None:
    stream, message, _ = await refused(status, f"{name}:http://internal.amazon.com/x/", {
        "message": said
    })  # fmt: skip
    assert type(stream.error) is kind
    told = said.replace(TOKEN, "***").rstrip(".")
    assert message.error_message.startswith(f"acme answered {status[:3]} ({name}): {told}")
    assert TOKEN not in message.error_message
    assert is_retryable(message, stream.error) is retried


async def test_a_refusal_in_the_older_form_is_read_too(
    keys: None, refused: Callable[..., Any]
) -> None:
    stream, message, _ = await refused(
        "403 Forbidden", "com.amazon.coral#MissingAuthenticationTokenException", {"Message": "No."}
    )
    assert type(stream.error) is AuthError
    said = "acme answered 403 (MissingAuthenticationTokenException): No"
    assert message.error_message.startswith(said)


async def test_an_address_that_is_not_bedrock_s_is_told(
    keys: None, refused: Callable[..., Any]
) -> None:
    stream, message, _ = await refused("200 OK", "", {"Output": {"__type": "x"}})
    assert "is the base URL right?" in message.error_message
    assert not stream.error.retryable


async def test_an_abort_closes_the_connection_and_keeps_what_came(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    closed = anyio.Event()

    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", CONTENT_TYPE)
        await exchange.send(encoded(delta(0, text="a")))
        await exchange.wait_until_closed()
        closed.set()

    controller = AbortController()
    async with serve(answer) as server:
        options = StreamOptions(api_key="k", signal=controller.signal)
        stream = stream_simple(make_model(api=API, base_url=server.url), hello, options)
        await stream.next_batch()
        controller.abort()
        message = await stream.result()
        with anyio.fail_after(DEADLINE_S):
            await closed.wait()
    assert message.stop_reason == "aborted"
    assert message.content == [TextBlock(text="a")]


async def test_a_stall_is_cut_after_the_idle_limit(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", CONTENT_TYPE)
        await exchange.send(encoded(delta(0, text="a"))[:-3])
        await exchange.wait_until_closed()

    async with serve(answer) as server:
        options = StreamOptions(api_key="k", idle_timeout_s=0.2)
        stream = stream_simple(make_model(api=API, base_url=server.url), hello, options)
        with anyio.fail_after(DEADLINE_S):
            await stream.result()
    assert type(stream.error) is StreamTimeoutError


async def test_a_reset_connection_is_a_network_error(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", CONTENT_TYPE)
        await exchange.send(encoded(delta(0, text="a")))
        await exchange.reset()

    async with serve(answer) as server:
        model = make_model(api=API, base_url=server.url)
        stream = stream_simple(model, hello, StreamOptions(api_key="k"))
        await stream.result()
    assert type(stream.error) is NetworkError


async def test_a_connection_serves_one_answer_after_another(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    connections = 0

    async def answer(exchange: Any) -> None:
        nonlocal connections
        connections += 1
        raw = recorded("text")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {len(raw)}\r\n"
        while True:
            await exchange.send(head.encode() + b"\r\n" + raw)
            received = b""
            while b"\r\n\r\n" not in received:
                try:
                    received += await exchange.stream.receive()
                except anyio.EndOfStream:
                    return

    async with serve(answer) as server:
        model = make_model(api=API, base_url=server.url)
        for _ in range(3):
            stream = stream_simple(model, hello, StreamOptions(api_key="k"))
            await stream.result()
            assert stream.error is None
    assert connections == 1


@pytest.mark.parametrize("kind", ["keys", "profile"])
async def test_variables_of_the_provider_go_before_those_of_the_process(
    kind: str, keys: None, asked: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "own-credentials"
    file.write_text("[work]\naws_access_key_id = AKIDOWN\naws_secret_access_key = s\n")
    own = {
        "keys": {"AWS_ACCESS_KEY_ID": "AKIDOWN", "AWS_SECRET_ACCESS_KEY": "s"},
        "profile": {"AWS_PROFILE": "work", "AWS_SHARED_CREDENTIALS_FILE": str(file)},
    }[kind]
    options = StreamOptions(environment={**own, "AWS_REGION": "eu-west-3"})
    request, stream = await asked(options)
    assert stream.error is None
    assert "Credential=AKIDOWN/" in request.headers["authorization"]
    assert "/eu-west-3/bedrock/" in request.headers["authorization"]
    assert "x-amz-security-token" not in request.headers
