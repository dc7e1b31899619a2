"""What the providers' requests have in common.

Owns the estimate of a prompt's size, the limit of the answer that follows from it, the word a
provider is told for a thinking level, and headers. Does not own a dialect.
"""

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from pi_rpc.llm.errors import BadRequestError
from pi_rpc.llm.http import EventRequest
from pi_rpc.llm.messages import (
    ImageBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCall,
)
from pi_rpc.llm.models import Model, clamp_thinking_level
from pi_rpc.llm.provider import Context, StreamOptions

__all__ = [
    "DEFAULT_OUTPUT",
    "THINKING_BUDGETS",
    "estimated_tokens",
    "event_request",
    "output_limit",
    "session_headers",
    "takes_no_off",
    "thinking_word",
]

THINKING_BUDGETS: Mapping[ThinkingLevel, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 16384,
    "max": 16384,
}
"""Tokens of thinking for models that are told a number."""


DEFAULT_OUTPUT = 32_000
"""Most tokens of an answer for which nobody named a limit."""
_IMAGE_CHARS = 4800
_MARGIN = 4096


def estimated_tokens(context: Context) -> int:
    """A rough size of the prompt: a token for four characters, 1200 for an image."""
    chars = len(context.system_prompt)
    for tool in context.tools:
        chars += len(tool.name) + len(tool.description) + 12 * len(tool.parameters)
    for message in context.messages:
        content = message.content
        if isinstance(content, str):
            chars += len(content)
            continue
        for block in content:
            if isinstance(block, ImageBlock):
                chars += _IMAGE_CHARS
            elif isinstance(block, ToolCall):
                chars += len(block.name) + sum(len(str(each)) for each in block.arguments.values())
            elif isinstance(block, ThinkingBlock):
                chars += len(block.thinking)
            else:
                chars += len(block.text)
    return chars // 4


def output_limit(model: Model, context: Context, options: StreamOptions) -> int:
    """Most output tokens to ask for: what was wanted, within what the window leaves.

    Never more than the model's own limit, and without a wish at most 32,000. A margin of 15 % of
    the estimate, at least 4096 tokens or an eighth of a small window, is kept because the estimate
    is rough.
    """
    wanted = min(options.max_tokens or DEFAULT_OUTPUT, model.max_tokens)
    estimate = estimated_tokens(context)
    margin = max(estimate * 15 // 100, min(_MARGIN, model.context_window // 8))
    room = model.context_window - estimate - margin
    return max(1, min(wanted, max(room, min(wanted, 1024))))


def thinking_word(model: Model, level: ThinkingLevel) -> tuple[ThinkingLevel, str | None]:
    """The level the model offers, and what its provider calls it; None for an unmapped ``off``."""
    offered = clamp_thinking_level(model, level)
    mapped = (model.thinking_level_map or {}).get(offered)
    if mapped is not None or offered == "off":
        return offered, mapped
    return offered, offered


def takes_no_off(model: Model) -> bool:
    """The model's map says that it cannot be told not to think."""
    level_map = model.thinking_level_map or {}
    return "off" in level_map and level_map["off"] is None


def session_headers(kind: str, session_id: str) -> dict[str, str]:
    """The headers by which a server sends the requests of a session to the same machine.

    ``kind`` is what ``sessionAffinityFormat`` says of chat completions: ``openai``,
    ``openai-nosession`` or ``openrouter``.
    """
    if kind == "openrouter":
        return {"x-session-id": session_id}
    headers = {"x-client-request-id": session_id, "x-session-affinity": session_id}
    return headers if kind == "openai-nosession" else {"session_id": session_id, **headers}


async def event_request(
    model: Model,
    options: StreamOptions,
    *,
    url: str,
    payload: dict[str, Any],
    headers: dict[str, str],
) -> EventRequest:
    """The request, after ``on_payload`` saw it; headers of the model and of the call win.

    A user name and password in ``url`` are sent as ``Authorization: Basic`` unless a key or a
    header already is the authorization; they are masked in errors like every other credential.
    """
    hook: Callable[[dict[str, Any], Model], Awaitable[dict[str, Any] | None]] | None
    hook = options.on_payload
    if hook is not None:
        payload = await hook(payload, model) or payload
    merged = {name.lower(): value for name, value in headers.items()}
    for extra in (model.headers or {}, options.headers):
        merged.update({name.lower(): value for name, value in extra.items()})
    try:
        body = msgspec.json.encode(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadRequestError(f"the request cannot be written as JSON: {error}") from error
    url, (user, password) = _without_credential(url)
    secrets = [options.api_key or "", password, unquote(password), *options.secrets]
    if user or password:
        basic = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
        merged.setdefault("authorization", f"Basic {basic}")
        # A user name alone is a token.
        secrets += [basic] if password else [basic, user, unquote(user)]
    for name, value in merged.items():
        if "auth" in name or "key" in name:
            secrets += [value, value.partition(" ")[2]]
    return EventRequest(
        url=url,
        headers=merged,
        body=body,
        provider=model.provider,
        idle_timeout_s=options.idle_timeout_s,
        read_pause_s=options.read_pause_s,
        ca_file=options.ca_file,
        secrets=tuple(secrets),
        on_response=options.on_response,
    )


def _without_credential(url: str) -> tuple[str, tuple[str, str]]:
    """The address without what stands before its host, and that: user name and password."""
    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    credential, _, host = authority.rpartition("@")
    user, _, password = credential.partition(":")
    return f"{scheme}{separator}{host}{rest[len(authority) :]}", (user, password)
