"""The request of the dialect ``anthropic-messages``.

Owns how a conversation, tools and options are worded, thinking and cache markers included. Pure.
Does not own the answer.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultMessage,
    UserContent,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.partial_json import without_lone_surrogates
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec
from pi_rpc.llm.providers._anthropic_compat import AnthropicCompat, anthropic_compat_of
from pi_rpc.llm.providers._request import (
    DEFAULT_OUTPUT,
    THINKING_BUDGETS,
    output_limit,
    takes_no_off,
    thinking_word,
)
from pi_rpc.llm.transform import clean_json, transform_messages

__all__ = ["anthropic_payload", "thinking_parameters", "thinks_adaptively"]

_MIN_ANSWER = 1024
_EFFORTS: dict[str, str] = {"minimal": "low", "xhigh": "high", "max": "high"}
"""Words for levels that the model's own map does not name."""
_VERSION = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2}))?(?![\d])")


def thinks_adaptively(model: Model) -> bool:
    """The model decides itself how long to think and is told an effort, not a budget.

    ``compat.forceAdaptiveThinking`` decides; else it is so from Claude 4.6 on.
    """
    forced = anthropic_compat_of(model).force_adaptive_thinking
    if forced is not None:
        return forced
    version = _VERSION.search(model.id)
    if version is None:
        return False
    return (int(version[1]), int(version[2] or 0)) >= (4, 6)


def anthropic_payload(
    model: Model, context: Context, options: StreamOptions
) -> tuple[dict[str, Any], str | None]:
    """The body, and the thinking level in the provider's words."""
    compat = anthropic_compat_of(model)
    marker = _cache_marker(options, compat)
    payload: dict[str, Any] = {
        "model": model.id,
        "messages": _messages(model, context, marker, compat),
        "max_tokens": _answer_limit(model, context, options),
        "stream": True,
    }
    if context.system_prompt:
        text = without_lone_surrogates(context.system_prompt)
        payload["system"] = [{"type": "text", "text": text, **marker}]
    if context.tools:
        payload["tools"] = [_tool(tool, compat) for tool in context.tools]
        if compat.supports_cache_control_on_tools:
            payload["tools"][-1].update(marker)
    parameters, word = thinking_parameters(model, options, payload["max_tokens"])
    payload.update(parameters)
    thinks = payload.get("thinking", {}).get("type") in {"adaptive", "enabled"}
    if options.temperature is not None and compat.supports_temperature and not thinks:
        # While a model thinks it is refused, and newer models refuse it always.
        payload["temperature"] = options.temperature
    payload.update(model.sampling_params or {})
    return payload, word


def thinking_parameters(
    model: Model, options: StreamOptions, max_tokens: int
) -> tuple[dict[str, Any], str | None]:
    """What Claude is told of thinking, and the word for it; may raise ``max_tokens`` for a budget.

    ``max_tokens`` is what the answer alone may have. Newer models think unless they are told not
    to, and some refuse to be told: their maps say null for ``off``.
    """
    if not model.reasoning:
        return {}, None
    level, _ = thinking_word(model, options.thinking_level)
    if level == "off":
        if takes_no_off(model):
            return {}, None
        return {"thinking": {"type": "disabled"}}, "disabled"
    if thinks_adaptively(model):
        mapped = (model.thinking_level_map or {}).get(level)
        effort = mapped or _EFFORTS.get(level, level)
        thinking = {"type": "adaptive", "display": "summarized"}
        return {"thinking": thinking, "output_config": {"effort": effort}}, effort
    budget = THINKING_BUDGETS[level]
    total = min(max_tokens + budget, model.max_tokens)
    budget = min(budget, total - _MIN_ANSWER)
    if budget < THINKING_BUDGETS["minimal"]:
        return {"thinking": {"type": "disabled"}}, "disabled"
    thinking_budget = {"type": "enabled", "budget_tokens": budget}
    return {"thinking": thinking_budget, "max_tokens": total}, str(budget)


def _answer_limit(model: Model, context: Context, options: StreamOptions) -> int:
    """The limit of the answer, with room for thoughts of which only the model knows the length.

    Those count as output, so that a usual limit would cut the answer short.
    """
    level = thinking_word(model, options.thinking_level)[0] if model.reasoning else "off"
    if options.max_tokens is None and level != "off" and thinks_adaptively(model):
        options = replace(options, max_tokens=DEFAULT_OUTPUT + 2 * THINKING_BUDGETS[level])
    return output_limit(model, context, options)


def _cache_marker(options: StreamOptions, compat: AnthropicCompat) -> dict[str, Any]:
    if options.cache_retention == "none":
        return {}
    control = {"type": "ephemeral"}
    if options.cache_retention == "long" and compat.supports_long_cache_retention:
        control["ttl"] = "1h"
    return {"cache_control": control}


def _messages(
    model: Model, context: Context, marker: dict[str, Any], compat: AnthropicCompat
) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    results: list[dict[str, Any]] | None = None
    for message in transform_messages(context.messages, model):
        if isinstance(message, ToolResultMessage):
            if results is None:
                results = []
                out.append({"role": "user", "content": results})
            results.append(_tool_result(message))
            continue
        results = None
        content = _content(message, compat)
        if content:
            role = "assistant" if isinstance(message, AssistantMessage) else "user"
            out.append({"role": role, "content": content})
    if out and out[-1]["role"] == "user":
        out[-1]["content"][-1].update(marker)
    return out


def _content(message: Message, compat: AnthropicCompat) -> list[dict[str, Any]]:
    if isinstance(message, AssistantMessage):
        return _reply(message, compat)
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content.strip() else []
    return _blocks(message.content)


def _blocks(content: Sequence[UserContent]) -> list[dict[str, Any]]:
    """Text and images; blank text is refused by the dialect and left out."""
    return [
        _image(block) if isinstance(block, ImageBlock) else {"type": "text", "text": block.text}
        for block in content
        if isinstance(block, ImageBlock) or block.text.strip()
    ]


def _image(block: ImageBlock) -> dict[str, Any]:
    source = {"type": "base64", "media_type": block.mime_type, "data": block.data}
    return {"type": "image", "source": source}


def _tool_result(message: ToolResultMessage) -> dict[str, Any]:
    blocks = _blocks(message.content)
    content: str | list[dict[str, Any]] = blocks
    if all(block["type"] == "text" for block in blocks):
        content = "\n".join(block["text"] for block in blocks) or "(no output)"
    out: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": content,
    }
    if message.is_error:
        out["is_error"] = True
    return out


def _reply(message: AssistantMessage, compat: AnthropicCompat) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            if block.text.strip():
                out.append({"type": "text", "text": block.text})
        elif isinstance(block, ThinkingBlock):
            out.extend(_thought(block, compat))
        else:
            out.append(
                {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
            )
    return out


def _thought(block: ThinkingBlock, compat: AnthropicCompat) -> list[dict[str, Any]]:
    if block.redacted:
        signature = block.thinking_signature
        return [{"type": "redacted_thinking", "data": signature}] if signature else []
    signature = block.thinking_signature or ""
    if signature or (compat.allow_empty_signature and block.thinking.strip()):
        return [{"type": "thinking", "thinking": block.thinking, "signature": signature}]
    # Thinking without a signature is refused as such; as text it still tells what was thought.
    return [{"type": "text", "text": block.thinking}] if block.thinking.strip() else []


def _tool(tool: ToolSpec, compat: AnthropicCompat) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": tool.name,
        "description": without_lone_surrogates(tool.description),
        "input_schema": clean_json(dict(tool.parameters)),
    }
    if compat.supports_eager_tool_input_streaming:
        # Without it, long arguments come in one piece at their end.
        out["eager_input_streaming"] = True
    return out
