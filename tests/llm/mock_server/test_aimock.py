"""A third party's mock of the vendors' servers (aimock, of npm) drives us in every dialect.

It knows no Mistral of its own: that dialect is answered by its chat completions.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from pi_rpc.llm.errors import AuthError, MalformedStreamError, NetworkError, RateLimitError
from pi_rpc.llm.http import aclose_clients
from pi_rpc.llm.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec, stream_simple
from pi_rpc.llm.stream import AssistantMessageStream
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

KEY = "mock-key-0123456789"
POEM = "The kettle sings, the kitchen wakes, — and somebody is glad of it: ☕."
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 3,
    "total_tokens": 12,
    "input_tokens": 9,
    "output_tokens": 3,
    "promptTokenCount": 9,
    "candidatesTokenCount": 3,
    "totalTokenCount": 12,
}
"""In the words of each vendor."""
WEATHER = ToolSpec(
    name="get_weather",
    description="Tell the weather.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "poem"}, "response": {"content": POEM, "usage": USAGE}},
    {
        "match": {"userMessage": "think"},
        "response": {"content": "Tea.", "reasoning": "Tea or coffee? Tea."},
    },
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {"toolCalls": [{"name": "get_weather", "arguments": {"city": "Zürich"}}]},
    },
    {
        "match": {"userMessage": "weather", "hasToolResult": True},
        "response": {"content": "It is sunny."},
    },
    {
        "match": {"userMessage": "hurry"},
        "response": {
            "error": {"message": "Too fast", "type": "rate_limit_error"},
            "status": 429,
            "retryAfter": 7,
        },
    },
    {
        "match": {"userMessage": "break off"},
        "response": {"content": POEM},
        "truncateAfterChunks": 3,
    },
]
BASE_PATHS = {
    "openai-completions": "/v1",
    "openai-responses": "/v1",
    "azure-openai-responses": "/openai",
    "anthropic-messages": "",
    "google-generative-ai": "/v1beta",
    "mistral-conversations": "",
    "bedrock-converse-stream": "",
}


def command() -> list[str]:
    node, script = shutil.which("node"), os.environ.get("AIMOCK_CLI", "")
    if node is not None and Path(script).is_file():
        return [node, script]
    message = "aimock is needed: Node.js 20.15 or later, and AIMOCK_CLI, as `make test-all` has it"
    if os.environ.get("PI_RPC_REQUIRE_NODE"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def mock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the mock, which takes ``KEY`` and no other."""
    folder = tmp_path_factory.mktemp("aimock")
    (folder / "fixtures.json").write_bytes(msgspec.json.encode({"fixtures": FIXTURES}))
    options = ["--port", "0", "--strict", "--chunk-size", "8"]
    with subprocess.Popen(
        [*command(), "--fixtures", str(folder / "fixtures.json"), *options],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "AIMOCK_API_KEYS": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield _address(process)
        finally:
            process.kill()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return found[1]
    pytest.fail("aimock did not start: " + "".join(said))


@pytest.fixture(params=BASE_PATHS)
def mocked(
    request: pytest.FixtureRequest,
    mock_url: str,
    make_model: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Model:
    """A model at the mock, one for each dialect."""
    for name in [name for name in os.environ if name.startswith(("AZURE_OPENAI_", "AWS_"))]:
        monkeypatch.delenv(name)
    url = mock_url + BASE_PATHS[request.param]
    model: Model = make_model(api=request.param, base_url=url)
    return model


async def ask(
    model: Model, *messages: Message, key: str = KEY, tools: bool = False
) -> tuple[AssistantMessageStream, AssistantMessage]:
    context = Context(messages=messages, tools=[WEATHER] if tools else [])
    stream = stream_simple(model, context, StreamOptions(api_key=key))
    try:
        with anyio.fail_after(DEADLINE_S):
            return stream, await stream.result()
    finally:
        await aclose_clients()


def said(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


async def test_a_text_comes_whole_with_its_numbers(mocked: Model) -> None:
    _, reply = await ask(mocked, said("a poem, please"))
    assert reply.stop_reason == "stop", reply.error_message
    assert text_of(reply.content) == POEM
    assert [type(block) for block in reply.content] == [TextBlock]
    # Mistral counts without being asked; the mock's chat completions want to be asked.
    expected = (0, 0, 0) if mocked.api == "mistral-conversations" else (9, 3, 12)
    usage = reply.usage
    assert (usage.input, usage.output, usage.total_tokens) == expected


async def test_thinking_is_told_from_text(mocked: Model) -> None:
    _, reply = await ask(mocked, said("think before you answer"))
    assert reply.stop_reason == "stop", reply.error_message
    assert text_of(reply.content) == "Tea."
    thoughts = [block.thinking for block in reply.content if isinstance(block, ThinkingBlock)]
    # The mock thinks in the way of other servers than Mistral's, which is not read there.
    expected = [] if mocked.api == "mistral-conversations" else ["Tea or coffee? Tea."]
    assert thoughts == expected


async def test_a_tool_is_called_and_its_result_is_answered(mocked: Model) -> None:
    question = said("what is the weather?")
    _, reply = await ask(mocked, question, tools=True)
    assert reply.stop_reason == "toolUse", reply.error_message
    (call,) = [block for block in reply.content if isinstance(block, ToolCall)]
    assert (call.name, call.arguments) == ("get_weather", {"city": "Zürich"})
    result = ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=[TextBlock(text="sunny")],
        is_error=False,
        timestamp=2,
    )
    _, answer = await ask(mocked, question, reply, result, tools=True)
    assert (answer.stop_reason, text_of(answer.content)) == ("stop", "It is sunny.")


async def test_a_wrong_key_is_refused(mocked: Model) -> None:
    stream, reply = await ask(mocked, said("a poem, please"), key="another-key-0123456789")
    assert type(stream.error) is AuthError, reply.error_message


async def test_a_rate_limit_says_how_long_to_wait(mocked: Model) -> None:
    stream, reply = await ask(mocked, said("hurry"))
    assert type(stream.error) is RateLimitError, reply.error_message
    assert stream.error.retry_after_ms == 7000


async def test_a_stream_that_breaks_off_is_no_short_answer(mocked: Model) -> None:
    stream, reply = await ask(mocked, said("break off"))
    assert isinstance(stream.error, (MalformedStreamError, NetworkError)), reply.error_message
    assert stream.error.retryable
    assert POEM.startswith(text_of(reply.content))
