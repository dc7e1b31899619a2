"""Each provider's words for a conversation that is too long, and for what only sounds like it."""

from typing import Any

import msgspec
import pytest

from pi_rpc.harness.retry import should_retry
from pi_rpc.harness.settings import RetrySettings
from pi_rpc.llm.errors import (
    BadRequestError,
    ContextOverflowError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from pi_rpc.llm.failures import failure_in_stream, failure_of_response
from pi_rpc.llm.messages import AssistantMessage, Usage
from pi_rpc.llm.overflow import is_overflow
from pi_rpc.llm.provider import Context, StreamOptions, stream_simple
from tests.llm.faults.cells import KEY, streams
from tests.llm.faults.dialects import DIALECTS, Dialect
from tests.llm.faults.server import FaultServer

pytestmark = pytest.mark.anyio


def error(message: str, code: Any = None, kind: str | None = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "code": code}}


OVERFLOWS: list[tuple[str, int, Any]] = [
    ("openai", 400, error("Too many messages.", "context_length_exceeded")),
    ("openai", 400, error(
        "This model's maximum context length is 128000 tokens. However, you requested 130000.")),
    ("openai", 400, error("Your input exceeds the context window of this model. Please adjust your "
                          "input and try again.")),
    ("azure-openai-responses", 400, error("Too long.", "context_length_exceeded", None)),
    ("anthropic", 400, error("prompt is too long: 213462 tokens > 200000 maximum")),
    ("anthropic", 400, error("input length and `max_tokens` exceed context limit: 190000 + 20000 > "
                             "200000, decrease input length or `max_tokens` and try again")),
    ("anthropic", 413, error("Request exceeds the maximum size", kind="request_too_large")),
    ("google", 400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576)."
    }}),
    ("mistral", 400, {"object": "error", "type": "invalid_request_prompt", "code": "3051",
        "message": "Prompt contains 40960 tokens and 0 draft tokens, too large for model with "
                   "32768 maximum context length"}),
    ("amazon-bedrock", 400, {"message": "Input is too long for requested model."}),
    ("amazon-bedrock", 400, {"message": "The model returned the following errors: prompt is too "
                                        "long: 200049 tokens > 200000 maximum"}),
    ("xai", 400, {"code": "Client specified an invalid argument", "error":
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
    ("groq", 400, error("Please reduce the length of the messages or completion.",
                        "context_length_exceeded")),
    ("groq", 413, error("Request too large for model `x` on tokens per minute (TPM): Limit 6000, "
                        "Requested 9000, please reduce your message size and try again.",
                        "rate_limit_exceeded", "tokens")),
    ("cerebras", 400, ""),
    ("cerebras", 413, ""),
    ("cerebras", 400, error("Please reduce the length of the messages or completion.",
                            "context_length_exceeded")),
    ("openrouter", 400, error("This endpoint's maximum context length is 131072 tokens. However, "
                              "you requested about 140000 tokens.", 400, None)),
    ("together", 422, error("Input validation error: `inputs` tokens + `max_new_tokens` must be "
                            "<= 8193. Given: 9204 `inputs` tokens and 2047 `max_new_tokens`")),
    ("fireworks", 400, error("The prompt is too long: 140000, model maximum context length: "
                             "131071")),
    ("deepseek", 400, error("This model's maximum context length is 131072 tokens.")),
    ("huggingface", 422, {"error": "Input validation error: `inputs` must have less than 8191 "
                                   "tokens. Given: 9204", "error_type": "validation"}),
    ("alibaba", 400, error("<400> InternalError.Algo.InvalidParameter: Range of input length "
                           "should be [1, 30720]", "invalid_parameter_error")),
    ("moonshotai", 400, error("Invalid request: Your request exceeded model token limit: 131072")),
    ("zai", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
    ("minimax", 400, error("invalid params, context window exceeds limit (2013)", "2013")),
    ("github-copilot", 400, error("prompt token count of 150000 exceeds the limit of 128000",
                                  "model_max_prompt_tokens_exceeded")),
    ("ollama", 400, {"error": "prompt too long; exceeded max context length by 1234 tokens"}),
    ("ollama", 500, {"error": "the input length exceeds the context length"}),
    ("lmstudio", 400, {"error": "The number of tokens to keep from the initial prompt is greater "
                                "than the context length."}),
    ("lmstudio", 400, {"error": "Trying to keep the first 4711 tokens when context the overflows. "
        "However, the model is loaded with context length of only 4096 tokens, which is not "
        "enough."}),
    ("llama.cpp", 400, {"error": {"code": 400, "type": "exceed_context_size_error", "message":
        "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing "
        "it"}}),
    ("llama.cpp", 500, error("the request exceeds the available context size. try increasing the "
                             "context size", 500, "server_error")),
    ("vllm", 400, {"object": "error", "type": "BadRequestError", "code": 400, "message":
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096."}),
    ("vllm", 400, {"object": "error", "type": "BadRequestError", "code": 400, "message":
        "This model's maximum context length is 4096 tokens. However, you requested 5000."}),
    ("sglang", 400, {"object": "error", "message": "The input (50000 tokens) is longer than the "
                                                   "model's context length (32768 tokens)."}),
    ("sglang", 400, {"object": "error", "message": "Requested token count exceeds the model's "
                                                   "maximum context length of 32768 tokens."}),
    ("acme", 413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    ("acme", 413, ""),
]  # fmt: skip
OTHERS: list[tuple[str, int, Any, type[ProviderError]]] = [
    ("openai", 429, error("Request too large for gpt-x on tokens per min (TPM): Limit 30000, "
                          "Requested 40000. The input or output tokens must be reduced.",
                          "rate_limit_exceeded", "tokens"), RateLimitError),
    ("openai", 400, error("max_tokens is too large: 100000. This model supports at most 16384 "
                          "completion tokens"), BadRequestError),
    ("azure-openai-responses", 429, error("Requests have exceeded token rate limit of your tier.",
                                          "429"), RateLimitError),
    ("anthropic", 429, error("This request would exceed your organization's rate limit of 40,000 "
                             "input tokens per minute", kind="rate_limit_error"), RateLimitError),
    ("anthropic", 400, error("max_tokens: 100000 > 64000, which is the maximum allowed number of "
                             "output tokens"), BadRequestError),
    ("anthropic", 400, error("messages.0.content.1.image: image exceeds 5 MB maximum: 7340032"),
     BadRequestError),
    ("google", 429, error("Quota exceeded for metric: input_token_count, limit: 250000"),
     QuotaError),
    ("amazon-bedrock", 429, {"message": "Too many tokens, please wait before trying again."},
     RateLimitError),
    ("mistral", 429, {"object": "error", "message": "Rate limit exceeded", "code": "1300"},
     RateLimitError),
    ("together", 503, error("ServiceUnavailable: context window exceeded upstream"),
     OverloadedError),
    ("acme", 400, "", BadRequestError),
    ("acme", 502, error("context window exceeded, says somebody behind the gateway"), ServerError),
]  # fmt: skip


def bodies(rows: list[Any]) -> list[Any]:
    return [pytest.param(*row, id=f"{row[0]}-{row[1]}-{at}") for at, row in enumerate(rows)]


def text_of_body(body: Any) -> str:
    return body if isinstance(body, str) else msgspec.json.encode(body).decode()


def failed(message: str) -> AssistantMessage:
    return AssistantMessage(
        content=[],
        api="x",
        provider="x",
        model="x",
        usage=Usage.ZERO,
        stop_reason="error",
        timestamp=1,
        error_message=message,
    )


@pytest.mark.parametrize(("provider", "status", "body"), bodies(OVERFLOWS))
def test_a_conversation_that_is_too_long_is_known_as_such(
    provider: str, status: int, body: Any
) -> None:
    failure = failure_of_response(status, {}, text_of_body(body), provider)
    assert type(failure) is ContextOverflowError, failure.message
    reply = failed(failure.message)
    assert is_overflow(reply), "the stored text says the same"
    for known in (failure, None):
        assert should_retry(reply, known, 1, RetrySettings()).reason == "final"


# The status 413 does not come within a stream; its words alone may speak of a rate.
@pytest.mark.parametrize(
    ("provider", "status", "body"),
    bodies([row for row in OVERFLOWS if "error" in row[2] and row[1] != 413]),
)
def test_it_is_known_within_a_stream_too(provider: str, status: int, body: Any) -> None:
    failure = failure_in_stream(body["error"], provider)
    assert type(failure) is ContextOverflowError, failure.message
    assert is_overflow(failed(failure.message))


@pytest.mark.parametrize(("provider", "status", "body", "kind"), bodies(OTHERS))
def test_what_only_sounds_like_it_is_something_else(
    provider: str, status: int, body: Any, kind: type[ProviderError]
) -> None:
    failure = failure_of_response(status, {}, text_of_body(body), provider)
    assert type(failure) is kind, failure.message
    assert not is_overflow(failed(failure.message), 1000)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.api)
async def test_a_prompt_that_was_cut_in_silence_is_seen_by_its_numbers(
    dialect: Dialect, fault_host: FaultServer, make_model: Any, hello: Context
) -> None:
    """Nine tokens were read, says the server: more than such a model takes."""
    case = fault_host.add(streams(dialect, dialect.whole()))
    url = f"http://127.0.0.1:{fault_host.port}/{case.name}{dialect.base_path}"
    model = make_model(api=dialect.api, provider=dialect.provider, base_url=url)
    reply = await stream_simple(model, hello, StreamOptions(api_key=KEY)).result()
    assert reply.stop_reason == "stop"
    assert is_overflow(reply, 8)
    assert not is_overflow(reply, 9)
    assert not is_overflow(reply)
