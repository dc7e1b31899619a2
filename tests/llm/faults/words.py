"""How each vendor words what went wrong: statuses, bodies, headers and events.

Taken from the vendors' documentation and from answers that people reported. Owns the words; what is
expected of us is ``faults``.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Impossible:
    """A cell that cannot be, and why."""

    reason: str


@dataclass(frozen=True)
class Answer:
    """An answer that is no stream."""

    status: int
    body: Any = ""
    """An object for JSON, or text."""
    headers: tuple[str, ...] = ()
    """``{in 13 s}`` stands for that moment, as RFC 3339 writes it."""


def _openai(message: str, code: str | None, kind: str = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_OPENAI_OVERFLOW = _openai(
    "This model's maximum context length is 128000 tokens. However, your messages resulted in "
    "213462 tokens. Please reduce the length of the messages.",
    "context_length_exceeded",
)
_OPENAI_QUOTA = _openai(
    "You exceeded your current quota, please check your plan and billing details.",
    "insufficient_quota",
    "insufficient_quota",
)
_OPENAI_RATE = _openai(
    "Rate limit reached for gpt-x in organization org-1 on tokens per min (TPM): Limit 30000, "
    "Used 28000, Requested 4000. Please try again in 4s.",
    "rate_limit_exceeded",
    "tokens",
)
_OPENAI: dict[str, Answer | Impossible] = {
    "bad key": Answer(401, _openai("Incorrect API key provided.", "invalid_api_key")),
    "forbidden": Answer(
        403,
        _openai(
            "Country, region, or territory not supported",
            "unsupported_country_region_territory",
            "request_forbidden",
        ),
    ),
    "no model": Answer(404, _openai("The model `x` does not exist.", "model_not_found")),
    "bad request": Answer(
        400, _openai("Unsupported parameter: 'max_tokens'.", "unsupported_parameter")
    ),
    "too large": Answer(413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    "rate limit": Answer(429, _OPENAI_RATE),
    "vendor's time": Answer(
        429,
        _OPENAI_RATE,
        (
            "x-ratelimit-remaining-requests: 0",
            "x-ratelimit-reset-requests: 12.5s",
            "x-ratelimit-remaining-tokens: 149984",
            "x-ratelimit-reset-tokens: 6m0s",
        ),
    ),
    "quota": Answer(429, _OPENAI_QUOTA),
    "server error": Answer(
        500, _openai("The server had an error processing your request.", None, "server_error")
    ),
    "overloaded": Answer(
        503, _openai("The engine is currently overloaded, please try again later", None)
    ),
    "timeout": Answer(504, "<html><title>504 Gateway Time-out</title></html>"),
    "overflow": Answer(400, _OPENAI_OVERFLOW),
}
_AZURE: dict[str, Answer | Impossible] = {
    **_OPENAI,
    "bad key": Answer(
        401,
        {
            "error": {
                "code": "401",
                "message": "Access denied due to invalid subscription key or wrong API endpoint.",
            }
        },
    ),
    "forbidden": Answer(
        403,
        {"error": {"code": "403", "message": "Access denied due to Virtual Network rules."}},
    ),
    "no model": Answer(
        404,
        {
            "error": {
                "code": "DeploymentNotFound",
                "message": "The API deployment for this resource does not exist. If you created "
                "the deployment within the last 5 minutes, please wait a moment and try again.",
            }
        },
    ),
    "rate limit": Answer(
        429,
        {
            "error": {
                "code": "429",
                "message": "Requests to the Responses Operation have exceeded token rate limit of "
                "your current pricing tier. Please retry after 17 seconds.",
            }
        },
    ),
    "vendor's time": Answer(
        429,
        {"error": {"code": "429", "message": "exceeded token rate limit"}},
        ("retry-after-ms: 12500", "retry-after: 13"),
    ),
}


def _anthropic(kind: str, message: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


_ANTHROPIC: dict[str, Answer | Impossible] = {
    "bad key": Answer(401, _anthropic("authentication_error", "invalid x-api-key")),
    "forbidden": Answer(
        403,
        _anthropic("permission_error", "Your API key does not have permission to use the model"),
    ),
    "no model": Answer(404, _anthropic("not_found_error", "model: claude-x")),
    "bad request": Answer(400, _anthropic("invalid_request_error", "max_tokens: Field required")),
    "too large": Answer(
        413, _anthropic("request_too_large", "Request exceeds the maximum allowed number of bytes")
    ),
    "rate limit": Answer(
        429,
        _anthropic(
            "rate_limit_error",
            "This request would exceed your organization's rate limit of 40,000 input tokens per "
            "minute.",
        ),
    ),
    "vendor's time": Answer(
        429,
        _anthropic("rate_limit_error", "Number of requests has exceeded your rate limit"),
        (
            "anthropic-ratelimit-requests-remaining: 0",
            "anthropic-ratelimit-requests-reset: {in 13 s}",
            "anthropic-ratelimit-tokens-remaining: 1000",
            "anthropic-ratelimit-tokens-reset: 2099-01-01T00:00:00Z",
        ),
    ),
    "quota": Answer(
        400,
        _anthropic(
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
            "Billing to upgrade or purchase credits.",
        ),
    ),
    "server error": Answer(500, _anthropic("api_error", "Internal server error")),
    "overloaded": Answer(529, _anthropic("overloaded_error", "Overloaded")),
    "timeout": Answer(504, _anthropic("timeout_error", "Request timed out")),
    "overflow": Answer(
        400,
        _anthropic("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
    ),
}
_RPC = "type.googleapis.com/google.rpc."


def _google(code: int, status: str, message: str, *details: Any) -> Any:
    error = {"code": code, "message": message, "status": status, "details": list(details)}
    return {"error": error}


_RETRY_INFO = {"@type": f"{_RPC}RetryInfo", "retryDelay": "12.5s"}
_PER_MINUTE = {"@type": f"{_RPC}QuotaFailure", "violations": [{"quotaId": "RPM"}]}
_PER_DAY = {"@type": f"{_RPC}QuotaFailure", "violations": [{"quotaId": "RequestsPerDay"}]}
_GOOGLE_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_GOOGLE: dict[str, Answer | Impossible] = {
    "bad key": Answer(
        400,
        _google(
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            {"@type": f"{_RPC}ErrorInfo", "reason": "API_KEY_INVALID"},
        ),
    ),
    "forbidden": Answer(
        403, _google(403, "PERMISSION_DENIED", "Your API key was reported as leaked.")
    ),
    "no model": Answer(
        404, _google(404, "NOT_FOUND", "models/x is not found for API version v1beta.")
    ),
    "bad request": Answer(
        400, _google(400, "INVALID_ARGUMENT", "Please ensure that function call turns are right.")
    ),
    "too large": Answer(413, "<html><title>Error 413 (Request Entity Too Large)!!1</title></html>"),
    "rate limit": Answer(
        429, _google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", _PER_MINUTE)
    ),
    "vendor's time": Answer(
        429, _google(429, "RESOURCE_EXHAUSTED", _GOOGLE_QUOTA, _PER_MINUTE, _RETRY_INFO)
    ),
    "quota": Answer(429, _google(429, "RESOURCE_EXHAUSTED", _GOOGLE_QUOTA, _PER_DAY, _RETRY_INFO)),
    "server error": Answer(500, _google(500, "INTERNAL", "An internal error has occurred.")),
    "overloaded": Answer(
        503, _google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
    ),
    "timeout": Answer(504, _google(504, "DEADLINE_EXCEEDED", "Deadline expired")),
    "overflow": Answer(
        400,
        _google(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
    ),
}


def _mistral(kind: str, message: Any, code: str | None) -> Any:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


_MISTRAL: dict[str, Answer | Impossible] = {
    "bad key": Answer(401, {"detail": "Unauthorized"}),
    "forbidden": Answer(403, {"detail": "You do not have access to this model"}),
    "no model": Answer(400, _mistral("invalid_model", "Invalid model: x", "1500")),
    "bad request": Answer(
        422,
        _mistral(
            "invalid_request_error",
            {"detail": [{"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}]},
            None,
        ),
    ),
    "too large": Answer(413, {"message": "Request size limit exceeded"}),
    "rate limit": Answer(429, _mistral("rate_limited", "Rate limit exceeded", "1300")),
    "vendor's time": Impossible("its one documented header of this kind is retry-after"),
    "quota": Answer(402, {"detail": "Your account has no credits left."}),
    "server error": Answer(
        500, _mistral("internal_server_error", "Service internal error.", "1000")
    ),
    "overloaded": Answer(
        429,
        _mistral(
            "service_tier_capacity_exceeded",
            "Service tier capacity exceeded for this model.",
            "3505",
        ),
    ),
    "timeout": Answer(504, "error code: 504"),
    "overflow": Answer(
        400,
        _mistral(
            "invalid_request_prompt",
            "Prompt contains 40960 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            "3051",
        ),
    ),
}


def _aws(status: int, kind: str, message: str) -> Answer:
    return Answer(status, {"message": message}, (f"x-amzn-errortype: {kind}:http://internal/",))


_BEDROCK: dict[str, Answer | Impossible] = {
    "bad key": _aws(
        403, "UnrecognizedClientException", "The security token included in the request is invalid."
    ),
    "forbidden": _aws(
        403, "AccessDeniedException", "You don't have access to the model with the specified ID."
    ),
    "no model": _aws(404, "ResourceNotFoundException", "Could not resolve the foundation model."),
    "bad request": _aws(
        400, "ValidationException", "The model returned the following errors: max_tokens: required"
    ),
    "too large": _aws(413, "RequestEntityTooLargeException", "Request Entity Too Large"),
    "rate limit": _aws(
        429, "ThrottlingException", "Too many tokens, please wait before trying again."
    ),
    "vendor's time": Impossible("AWS names no time"),
    "quota": _aws(
        400, "ServiceQuotaExceededException", "Your request exceeds the quota for your account."
    ),
    "server error": _aws(500, "InternalServerException", "The system had an unexpected error."),
    "overloaded": _aws(503, "ServiceUnavailableException", "Bedrock is unable to answer."),
    "timeout": _aws(504, "GatewayTimeout", "Endpoint request timed out"),
    "overflow": _aws(400, "ValidationException", "Input is too long for requested model."),
}
ANSWERS: dict[str, dict[str, Answer | Impossible]] = {
    "openai-completions": _OPENAI,
    "openai-responses": _OPENAI,
    "azure-openai-responses": _AZURE,
    "anthropic-messages": _ANTHROPIC,
    "google-generative-ai": _GOOGLE,
    "mistral-conversations": _MISTRAL,
    "bedrock-converse-stream": _BEDROCK,
}


def _finish(reason: str) -> Any:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def _failed(code: str, message: str) -> Any:
    response = {"status": "failed", "error": {"code": code, "message": message}}
    return {"type": "response.failed", "response": response}


def _stopped(reason: str) -> Any:
    return {"type": "message_delta", "delta": {"stop_reason": reason}}


_INCOMPLETE = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
_RESPONSES_EVENTS: dict[str, Any] = {
    "overloaded": _failed(
        "server_is_overloaded", "Our servers are currently overloaded. Please try again later."
    ),
    "server error": {
        "type": "error",
        "code": "server_error",
        "message": "An error occurred while processing your request.",
        "param": None,
    },
    "rate limit": _failed("rate_limit_exceeded", "Rate limit reached. Please try again in 4s."),
    "overflow": _failed(
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
    ),
    "refusal": {"type": "response.incomplete", "response": _INCOMPLETE},
}
EVENTS: dict[str, dict[str, Any]] = {
    "openai-completions": {
        "overloaded": _openai("Overloaded", "overloaded", "overloaded_error"),
        "server error": _openai("The server had an error.", None, "server_error"),
        "rate limit": _OPENAI_RATE,
        "overflow": _OPENAI_OVERFLOW,
        "refusal": _finish("content_filter"),
    },
    "openai-responses": _RESPONSES_EVENTS,
    "azure-openai-responses": _RESPONSES_EVENTS,
    "anthropic-messages": {
        "overloaded": _anthropic("overloaded_error", "Overloaded"),
        "server error": _anthropic("api_error", "Internal server error"),
        "rate limit": _anthropic("rate_limit_error", "Number of tokens has exceeded your limit"),
        "overflow": [_stopped("model_context_window_exceeded"), {"type": "message_stop"}],
        "refusal": [_stopped("refusal"), {"type": "message_stop"}],
    },
    "google-generative-ai": {
        "overloaded": _google(503, "UNAVAILABLE", "The model is overloaded."),
        "server error": _google(500, "INTERNAL", "An internal error has occurred."),
        "rate limit": _google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted."),
        "overflow": _google(
            400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens"
        ),
        "refusal": {"candidates": [{"finishReason": "SAFETY", "index": 0}]},
    },
    "mistral-conversations": {
        "overloaded": _mistral(
            "service_tier_capacity_exceeded", "Service tier capacity exceeded.", "3505"
        ),
        "server error": _mistral("internal_server_error", "Service internal error.", "1000"),
        "rate limit": _mistral("rate_limited", "Rate limit exceeded", "1300"),
        "overflow": _mistral(
            "invalid_request_prompt",
            "Prompt contains 40960 tokens, too large for model with 32768 maximum context length",
            "3051",
        ),
        "refusal": Impossible("it has no stop reason for it; a refusal is text like any other"),
    },
    "bedrock-converse-stream": {
        "overloaded": ("!serviceUnavailableException", {"message": "Unable to answer."}),
        "server error": ("!internalServerException", {"message": "An unexpected error."}),
        "rate limit": (
            "!throttlingException",
            {"message": "Too many tokens, please wait before trying again."},
        ),
        "overflow": (
            "!validationException",
            {"message": "Input is too long for requested model."},
        ),
        "refusal": ("messageStop", {"stopReason": "guardrail_intervened"}),
    },
}
