"""AWS's own client reads the same streams, and reads what we send, and must agree."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.partial_json import parse_arguments
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec, stream_simple
from pi_rpc.llm.providers._bedrock_payload import bedrock_payload
from tests.llm.bedrock_wire import CONTENT_TYPE, STREAMS, encoded, failure, forget_aws, recorded

pytestmark = pytest.mark.anyio

API = "bedrock-converse-stream"
MODEL = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x-v1:0"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def client_of(url: str) -> Any:
    from botocore.config import Config
    from botocore.session import Session

    config = Config(retries={"total_max_attempts": 1}, proxies={})
    return Session().create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config
    )


def as_the_sdk_reads(url: str) -> dict[str, Any]:
    client = client_of(url)
    messages = [{"role": "user", "content": [{"text": "hello"}]}]
    answer = client.converse_stream(modelId=MODEL, messages=messages)
    seen: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "withheld": b""}
    calls: list[list[str]] = []
    for event in answer["stream"]:
        started = event.get("contentBlockStart", {}).get("start", {})
        if "toolUse" in started:
            calls.append([started["toolUse"]["toolUseId"], started["toolUse"]["name"], ""])
        part = event.get("contentBlockDelta", {}).get("delta", {})
        seen["text"] += part.get("text", "")
        reasoning = part.get("reasoningContent", {})
        seen["thinking"] += reasoning.get("text", "")
        seen["signature"] += reasoning.get("signature", "")
        seen["withheld"] += reasoning.get("redactedContent", b"")
        if "toolUse" in part:
            calls[-1][2] += part["toolUse"]["input"]
        if "messageStop" in event:
            seen["stop"] = event["messageStop"]["stopReason"]
        if "metadata" in event:
            counts = event["metadata"]["usage"]
    client.close()
    details = {each["ttl"]: each["inputTokens"] for each in counts.get("cacheDetails", [])}
    return {
        **seen,
        "calls": [(call_id, name, parse_arguments(text)[0]) for call_id, name, text in calls],
        "id": answer["ResponseMetadata"]["RequestId"],
        "usage": (
            counts["inputTokens"],
            counts["outputTokens"],
            counts.get("cacheReadInputTokens", 0),
            counts.get("cacheWriteInputTokens", 0),
            details.get("1h", 0),
            counts["totalTokens"],
        ),
    }


def as_we_read(message: AssistantMessage) -> dict[str, Any]:
    usage, blocks = message.usage, message.content
    thoughts = [block for block in blocks if isinstance(block, ThinkingBlock)]
    signed = [each.thinking_signature or "" for each in thoughts if not each.redacted]
    withheld = [each.thinking_signature or "" for each in thoughts if each.redacted]
    return {
        "text": "".join(block.text for block in blocks if isinstance(block, TextBlock)),
        "thinking": "".join(each.thinking for each in thoughts),
        "signature": "".join(signed),
        "withheld": b"".join(base64.b64decode(each) for each in withheld),
        "calls": [(b.id, b.name, b.arguments) for b in blocks if isinstance(b, ToolCall)],
        "id": message.response_id,
        "stop": message.raw_stop_reason,
        "usage": (
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.cache_write_1h or 0,
            usage.total_tokens,
        ),
    }


@pytest.mark.parametrize("name", list(STREAMS))
async def test_the_sdk_and_we_read_a_stream_alike(
    name: str, serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", CONTENT_TYPE, "x-amzn-requestid: req-7")
        await exchange.send(recorded(name))

    async with serve(answer) as server:
        model = make_model(api=API, id=MODEL, base_url=server.url, max_tokens=4096)
        message = await stream_simple(model, hello).result()
        theirs = await anyio.to_thread.run_sync(as_the_sdk_reads, server.url)
        ours, sdk = server.asked
    assert as_we_read(message) == theirs
    assert ours.path == sdk.path
    assert "%3A" in ours.path
    assert ours.json["messages"][0]["content"][0] == sdk.json["messages"][0]["content"][0]
    assert ours.headers["content-type"] == sdk.headers["content-type"]
    scope = [each.headers["authorization"].split("/", 2)[2].split(",")[0] for each in (ours, sdk)]
    assert scope[0] == scope[1] == "us-east-1/bedrock/aws4_request"


async def test_the_sdk_and_we_read_an_exception_alike(
    serve: Any, make_model: Callable[..., Model], hello: Context
) -> None:
    raw = encoded(*STREAMS["text"][:3]) + failure("throttlingException", message="Slow down.")

    async def answer(exchange: Any) -> None:
        await exchange.head("200 OK", CONTENT_TYPE)
        await exchange.send(raw)

    def theirs(url: str) -> str:
        from botocore.exceptions import EventStreamError

        with pytest.raises(EventStreamError) as caught:
            as_the_sdk_reads(url)
        error = caught.value.response["Error"]
        return f"({error['Code']}): {error['Message']}"

    async with serve(answer) as server:
        message = await stream_simple(make_model(api=API, base_url=server.url), hello).result()
        said = await anyio.to_thread.run_sync(theirs, server.url)
    assert isinstance(message.error_message, str)
    assert said.rstrip(".") in message.error_message


def a_whole_conversation(model: Model) -> Context:
    image = ImageBlock(data="AAAA", mime_type="image/png")
    answer = AssistantMessage(
        content=[
            ThinkingBlock(thinking="hm", thinking_signature="AAAA"),
            ThinkingBlock(thinking="", thinking_signature="AAAA", redacted=True),
            TextBlock(text="Reading."),
            ToolCall(id="c1", name="read", arguments={"a": [1, {"b": None}]}),
        ],
        api=model.api,
        provider=model.provider,
        model=model.id,
        usage=Usage.ZERO,
        stop_reason="toolUse",
        timestamp=2,
    )
    result = ToolResultMessage(
        tool_call_id="c1",
        tool_name="read",
        content=[TextBlock(text="x"), image],
        is_error=True,
        timestamp=3,
    )
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return Context(
        system_prompt="Be good.",
        messages=[UserMessage(content=[TextBlock(text="see"), image], timestamp=1), answer, result],
        tools=[ToolSpec("read", "Reads", schema)],
    )


@pytest.mark.parametrize(
    "model_id",
    ["us.anthropic.claude-opus-5-5", "us.amazon.nova-2-lite-v1:0", "openai.gpt-5.5", "other"],
)
def test_the_sdk_knows_every_field_we_send(model_id: str, make_model: Callable[..., Model]) -> None:
    from botocore.validate import ParamValidator

    model = make_model(api=API, id=model_id, reasoning=True, max_tokens=65_536)
    options = StreamOptions(thinking_level="medium", temperature=0.5, cache_retention="long")
    body, _ = bedrock_payload(model, a_whole_conversation(model), options, "us-east-1")

    def with_bytes(value: Any) -> Any:
        """The client encodes bytes as base64 itself."""
        if isinstance(value, dict):
            return {
                key: base64.b64decode(each)
                if key in {"bytes", "redactedContent"}
                else with_bytes(each)
                for key, each in value.items()
            }
        return [with_bytes(each) for each in value] if isinstance(value, list) else value

    client = client_of("http://127.0.0.1:1")
    shape = client.meta.service_model.operation_model("ConverseStream").input_shape
    report = ParamValidator().validate({"modelId": model_id, **with_bytes(body)}, shape)
    client.close()
    assert report.generate_report() == ""
    unknown = ParamValidator().validate({"modelId": "m", "messages": [{"rolle": 1}]}, shape)
    assert "rolle" in unknown.generate_report()
