"""Which answer becomes which error, and whether trying again may help.

Owns the mapping from statuses, headers and bodies to the tree of ``pi_rpc.llm.errors``, and the
wording of it. Pure: nothing is sent or read here. Does not own the retrying.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from pi_rpc.llm._lenient_json import read_json
from pi_rpc.llm._reset_headers import until_reset_ms
from pi_rpc.llm._rpc_status import RpcDetails, rpc_details
from pi_rpc.llm.errors import (
    AccessError,
    AuthError,
    BadRequestError,
    ContextOverflowError,
    ModelNotFoundError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitError,
    ServerError,
    StreamTimeoutError,
)
from pi_rpc.llm.messages import AssistantMessage
from pi_rpc.llm.overflow import says_overflow

__all__ = [
    "failure_in_stream",
    "failure_of_response",
    "failure_with",
    "is_retryable",
    "retry_after_ms",
    "says_transient",
    "scrubbed",
]

_MAX_TEXT = 500

_FINAL = re.compile(
    r"go_?usage_?limit|free_?usage_?limit|monthly usage limit|available balance|insufficient.?quota"
    r"|out of budget|quota.?exceeded|exceeded your current quota|billing|credit balance"
    r"|subscription_sharing\w*usage_limit|[\"']code[\"']\s*:\s*[\"']?1308\b",
    re.IGNORECASE,
)
_TRANSIENT_PHRASES = (
    r"overloaded|server (is )?busy|high demand|at capacity|over capacity|capacity exceeded",
    r"rate.?limit|too many requests|resource.?exhausted|throttl(ed|ing)",
    r"(?<![\w.])(429|500|502|503|504|520|524|529)(?![\w.])",
    r"service ?(is )?(temporarily )?unavailable|server.?error|internal.?(server|error)",
    r"provider returned (an )?error|upstream request failed|unable to forward upstream",
    r"upstream_stream_read_error|upstream connect|while retrying upstream",
    r"stream (was )?interrupted|http2 stream|no http2 response",
    r"(network|connection).{0,20}(error|refused|lost|closed|reset|aborted)",
    r"other side closed|fetch failed|getaddrinfo|ENOTFOUND|EAI_AGAIN",
    r"ECONN(RESET|ABORTED|REFUSED)|ETIMEDOUT|EPIPE|reset by peer|socket hang up",
    r"reset before headers",
    r"timed? ?out|timeout|\bterminated\b|websocket (was )?(closed|error|limit)",
    r"stream ended without|ended before (message_stop|a? ?terminal event)",
    r"disconnected before completion|cut short after (the )?reply began",
    r"pending stream (was )?cancell?ed|retry delay",
    r"(please )?(retry|try) (your request|again)",
    r"(event|frame|reply) that cannot be read|compressed answer .{0,200} is broken",
)
_TRANSIENT = re.compile("|".join(_TRANSIENT_PHRASES), re.IGNORECASE)
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|key|AIza|ghp|gho)[-_][A-Za-z0-9_\-*.]{8,}|\bAIza[\w\-]{20,}"
    r"|(?<=Bearer )[^\s\"']+",
    re.IGNORECASE,
)
_any_decoder = msgspec.json.Decoder()
_NO_DETAILS = RpcDetails()
_AWS_BAD_KEYS = frozenset(
    {
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
"""What AWS answers 403 or 400 with when the credential is at fault, not what it may do."""
_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_model": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "rate_limited": 429,
    "service_tier_capacity_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "unreachable_backend": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
    "invalid_request_error": 400,
}
_ADVICE: dict[type[ProviderError], str] = {
    AuthError: "check the API key or credential in the environment and in auth.json",
    AccessError: "this credential may not do that; see its permissions at the provider",
    ModelNotFoundError: "check the model's id and the base URL",
    QuotaError: "asking again does not help; see the plan and its billing at the provider",
}
"""What to do, where the provider's own words seldom say it."""
_REFUSED = re.compile(r"\banswered 4(?!0[89]|25|29)\d\d\b")
"""Our own words for a status that asking again does not change."""


def failure_of_response(
    status: int, headers: Mapping[str, str], body: str, provider: str
) -> ProviderError:
    """The error behind an answer that is not a success.

    ``headers`` have lower-case names; ``body`` may be JSON of any provider, HTML, or empty.
    """
    said, kind = _read_body(body)
    kind = kind or _aws_kind(headers)
    label = f" ({kind})" if kind else ""
    text = f"{provider} answered {status}{label}: {said or '(no body)'}"
    empty_overflow = provider == "cerebras" and status in {400, 413} and not said
    error = _classify(
        404 if kind == "invalid_model" else status,
        text,
        f"{kind} {said}",
        retry_ms=retry_after_ms(headers),
        details=RpcDetails(is_bad_key=True) if kind in _AWS_BAD_KEYS else _details_of(body),
        should_retry={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
        overflow=empty_overflow or status == 413,
    )
    error.status = status
    return _advised(error)


def failure_in_stream(error: Any, provider: str) -> ProviderError:
    """The error that a provider reported inside a stream that had begun well.

    ``error`` is the decoded ``error`` object, or whatever stands in its place.
    """
    try:
        said, kind = _read_json({"error": error})
    except RecursionError:
        said, kind = "one that is nested too deeply", ""
    status = _status_in(error)
    label = f" ({kind})" if kind else ""
    text = f"{provider} reported an error{label}: {said or 'without saying which'}"
    return _advised(_classify(status, text, f"{kind} {said}", details=rpc_details(error)))


def _advised(error: ProviderError) -> ProviderError:
    advice = _ADVICE.get(type(error))
    if advice is not None:
        error.message = f"{error.message} ({advice})"
        error.args = (error.message,)
    return error


def failure_with(
    message: str,
    *,
    status: int | None = None,
    retryable: bool | None = None,
    retry_after_ms: int | None = None,
) -> ProviderError:
    """The error of that status and text; ``retryable`` overrides what they say."""
    return _classify(status, message, message, retry_ms=retry_after_ms, should_retry=retryable)


def _classify(
    status: int | None,
    text: str,
    said: str,
    *,
    retry_ms: int | None = None,
    should_retry: bool | None = None,
    overflow: bool = False,
    details: RpcDetails = _NO_DETAILS,
) -> ProviderError:
    kind: type[ProviderError]
    retry_ms = details.retry_ms if retry_ms is None else retry_ms
    retryable = should_retry
    client_error = status is None or status < 500
    # Some local servers answer 500 to a prompt that is too long.
    may_overflow = (client_error or status == 500) and status not in {401, 403, 429}
    if overflow or (may_overflow and says_overflow(said)):
        kind, retryable = ContextOverflowError, False
    elif details.is_bad_key:
        kind, retryable = AuthError, False
    elif status == 402 or (client_error and _is_used_up(said, details)):
        kind, retryable = QuotaError, False
    elif status is None:
        kind = ProviderError
        retryable = says_transient(text) if retryable is None else retryable
    else:
        kind, default = _kind_of_status(status)
        retryable = default if retryable is None else retryable
    return kind(text, status=status, retry_after_ms=retry_ms, retryable=retryable)


def _is_used_up(said: str, details: RpcDetails) -> bool:
    """The plan is at its end; what the details say counts more than the words."""
    if details.is_used_up is not None:
        return details.is_used_up
    return _FINAL.search(said) is not None


def _kind_of_status(status: int) -> tuple[type[ProviderError], bool | None]:
    """The class, and whether to retry where the class alone does not say it."""
    match status:
        case 401 | 407:
            return AuthError, None
        case 403:
            return AccessError, None
        case 404:
            return ModelNotFoundError, None
        case 408:
            return StreamTimeoutError, None
        case 409 | 425:
            return BadRequestError, True
        case 424:
            # What the provider itself relies on failed.
            return ServerError, None
        case 429:
            return RateLimitError, None
        case 503 | 529:
            return OverloadedError, None
        case _ if status >= 500:
            return ServerError, None
        case _:
            return BadRequestError, None


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """How long the provider asks to wait.

    From ``retry-after-ms`` or ``retry-after``; else until the limits that were reached are reset,
    from the vendors' own headers.
    """
    try:
        return max(0, round(float(headers["retry-after-ms"])))
    except (KeyError, ValueError, OverflowError):
        pass
    value = headers.get("retry-after", "").strip()
    try:
        return max(0, round(float(value) * 1000))
    except (ValueError, OverflowError):
        wait = _until_date(value)
    return until_reset_ms(headers) if wait is None else wait


def _until_date(value: str) -> int | None:
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(value)
    except (ValueError, IndexError, TypeError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    wait = when - datetime.now(UTC)
    return max(0, round(wait.total_seconds() * 1000))


def says_transient(text: str) -> bool:
    """An error text speaks of something that may pass, and not of a used-up plan."""
    is_final = _FINAL.search(text) is not None or _REFUSED.search(text) is not None
    return not is_final and _TRANSIENT.search(text) is not None


def is_retryable(message: AssistantMessage, error: ProviderError | None = None) -> bool:
    """A failed reply is worth asking for again.

    The typed error decides where there is one; the text of the message where it was read from a
    file. A conversation that is too long is never retried as it is.
    """
    if message.stop_reason != "error":
        return False
    if error is not None:
        return error.retryable and not isinstance(error, ContextOverflowError)
    text = message.error_message or ""
    return not says_overflow(text) and says_transient(text)


def scrubbed(text: str, secrets: tuple[str, ...] = ()) -> str:
    """``text`` without the given secrets and without what looks like one."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return _SECRETS.sub("***", text)


def _bounded(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _aws_kind(headers: Mapping[str, str]) -> str:
    """The word of AWS's services for the kind of error; a name space may follow or precede it."""
    written = headers.get("x-amzn-errortype", "").partition(":")[0].rpartition("#")[2]
    return scrubbed(written)[:80]


def _details_of(body: str) -> RpcDetails:
    if '"@type"' not in body:
        return _NO_DETAILS
    try:
        return rpc_details(read_json(_any_decoder, body.encode("utf-8", "replace")))
    except (msgspec.DecodeError, RecursionError):
        return _NO_DETAILS


def _read_body(body: str) -> tuple[str, str]:
    """What the body says, and the provider's word for the kind of error."""
    from html import unescape

    try:
        return _read_json(read_json(_any_decoder, body.encode("utf-8", "replace")))
    except (msgspec.DecodeError, RecursionError):
        pass
    head = body[:20_000]
    if "<" in head and re.search(r"<(!doctype|html|head|body|title|h1)\b", head, re.IGNORECASE):
        titled = re.search(r"<(title|h1)[^>]*>([^<]+)", head, re.IGNORECASE)
        plain = re.sub(r"(?s)<(script|style)\b.*?</\1>|<[^>]*>", " ", head)
        return _bounded(scrubbed(unescape(titled[2] if titled else plain))), ""
    return _bounded(scrubbed(head)), ""


def _read_json(value: Any) -> tuple[str, str]:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return _bounded(scrubbed(str(value))) if value else "", ""
    error = value.get("error") or value.get("errors") or value.get("detail")
    if isinstance(error, list) and error:
        error = error[0]
    source = error if isinstance(error, dict) else value
    said = source.get("message") or source.get("Message") or source.get("msg")
    said = said or source.get("detail")
    if not isinstance(said, str):
        said = error if isinstance(error, str) else msgspec.json.encode(source).decode()
    metadata = source.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw:
        said = f"{said}: {raw}"
    found = (source.get(key) for key in ("code", "type", "status"))
    words = [word for word in found if isinstance(word, str) and word != "error"]
    # A number says less than a word.
    kind = next((word for word in words if not word.isdecimal()), words[0] if words else "")
    return _bounded(scrubbed(said)), _bounded(scrubbed(kind))[:80]


def _status_in(error: Any) -> int | None:
    if not isinstance(error, dict):
        return None
    for key in ("status", "status_code", "code", "http_status"):
        value = error.get(key)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    for key in ("type", "code"):
        known = _STATUS_OF_TYPE.get(str(error.get(key)))
        if known is not None:
            return known
    return None
