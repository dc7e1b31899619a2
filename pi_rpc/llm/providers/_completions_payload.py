"""The request of the dialect ``openai-completions``.

Owns how a conversation, tools and options are worded, under a server's ``Compat``. Pure. Does not
own the answer.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.partial_json import without_lone_surrogates
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.providers._completions_compat import Compat
from pi_rpc.llm.providers._completions_thinking import thinking_parameters
from pi_rpc.llm.providers._request import output_limit
from pi_rpc.llm.transform import clean_json, transform_messages

__all__ = ["completions_payload"]

_BRIDGE = "I have the tool results."
_IMAGES_FOLLOW = "(the images follow in the next message)"
_IMAGES_FROM_TOOLS = "Images from the tool results above:"
_REASONING_FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_text"})


def completions_payload(
    model: Model, context: Context, options: StreamOptions, compat: Compat
) -> tuple[dict[str, Any], str | None]:
    """The body, and the thinking level in the provider's words."""
    payload: dict[str, Any] = {
        "model": model.id,
        "messages": _messages(model, context, compat),
        "stream": True,
    }
    if compat.supports_usage_in_streaming:
        payload["stream_options"] = {"include_usage": True}
    if compat.supports_store:
        payload["store"] = False
    payload[compat.max_tokens_field] = output_limit(model, context, options)
    if options.temperature is not None:
        payload["temperature"] = options.temperature
    if context.tools:
        payload["tools"] = [_tool(tool, compat) for tool in context.tools]
        if compat.zai_tool_stream:
            payload["tool_stream"] = True
    elif compat.requires_tools_with_tool_history and _has_calls(payload["messages"]):
        payload["tools"] = []
    parameters, word = thinking_parameters(model, options, compat)
    payload.update(parameters)
    payload.update(_routing(compat))
    payload.update(_caching(payload, options, compat))
    payload.update(model.sampling_params or {})
    return payload, word


def _routing(compat: Compat) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if compat.open_router_routing:
        out["provider"] = dict(compat.open_router_routing)
    if compat.vercel_gateway_routing:
        out["providerOptions"] = {"gateway": dict(compat.vercel_gateway_routing)}
    if compat.vllm_priority is not None:
        out["priority"] = compat.vllm_priority
    return out


def _caching(payload: dict[str, Any], options: StreamOptions, compat: Compat) -> dict[str, Any]:
    """The key that leads to a warm cache; markers are put into ``payload``."""
    if options.cache_retention == "none":
        return {}
    long = options.cache_retention == "long" and compat.supports_long_cache_retention
    if compat.cache_control_format == "anthropic":
        _mark_cache(payload, long=long)
        long = False
    out: dict[str, Any] = {}
    keyed = long if compat.prompt_cache_key_mode == "auto" else False
    if options.session_id and (keyed or compat.prompt_cache_key_mode == "enabled"):
        out["prompt_cache_key"] = options.session_id
        if long:
            out["prompt_cache_retention"] = "24h"
    return out


def _has_calls(messages: list[dict[str, Any]]) -> bool:
    return any(each["role"] == "tool" or "tool_calls" in each for each in messages)


def _messages(model: Model, context: Context, compat: Compat) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if context.system_prompt:
        developer = model.reasoning and compat.supports_developer_role
        role = "developer" if developer else "system"
        out.append({"role": role, "content": without_lone_surrogates(context.system_prompt)})
    images: list[ImageBlock] = []
    for message in transform_messages(context.messages, model):
        if isinstance(message, ToolResultMessage):
            out.append(_tool_result(message, compat))
            images += [block for block in message.content if isinstance(block, ImageBlock)]
            continue
        _add_images(out, images, compat)
        if isinstance(message, UserMessage):
            content = _user_content(message)
            if content:
                _bridge(out, compat)
                out.append({"role": "user", "content": content})
        else:
            reply = _reply(message, compat)
            if reply is not None:
                out.append(reply)
    _add_images(out, images, compat)
    return out


def _bridge(out: list[dict[str, Any]], compat: Compat) -> None:
    if compat.requires_assistant_after_tool_result and out and out[-1]["role"] == "tool":
        out.append({"role": "assistant", "content": _BRIDGE})


def _add_images(out: list[dict[str, Any]], images: list[ImageBlock], compat: Compat) -> None:
    """Tool results hold text only, so their images follow as if a person had sent them."""
    if images:
        _bridge(out, compat)
        parts = [{"type": "text", "text": _IMAGES_FROM_TOOLS}, *map(_image, images)]
        out.append({"role": "user", "content": parts})
        images.clear()


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        return content
    if all(isinstance(block, TextBlock) for block in content) and len(content) == 1:
        # Some servers only take a string.
        return text_of(content)
    return [
        _image(block) if isinstance(block, ImageBlock) else {"type": "text", "text": block.text}
        for block in content
        if isinstance(block, ImageBlock) or (isinstance(block, TextBlock) and block.text)
    ]


def _image(block: ImageBlock) -> dict[str, Any]:
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"},
    }


def _tool_result(message: ToolResultMessage, compat: Compat) -> dict[str, Any]:
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    has_images = any(isinstance(block, ImageBlock) for block in message.content)
    text = "\n".join(texts) or (_IMAGES_FOLLOW if has_images else "(no output)")
    out = {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
    if compat.requires_tool_result_name:
        out["name"] = message.tool_name
    return out


def _reply(message: AssistantMessage, compat: Compat) -> dict[str, Any] | None:
    texts = [block.text for block in message.content if isinstance(block, TextBlock) and block.text]
    thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    out: dict[str, Any] = {"role": "assistant"}
    thinking = "\n".join(block.thinking for block in thoughts if block.thinking)
    if thinking and compat.requires_thinking_as_text:
        texts.insert(0, f"<thinking>\n{thinking}\n</thinking>\n")
    elif thinking and thoughts[0].thinking_signature in _REASONING_FIELDS:
        out[str(thoughts[0].thinking_signature)] = thinking
    if compat.requires_reasoning_content_on_assistant_messages:
        out.setdefault("reasoning_content", "")
    if not texts and not calls:
        return None
    # Servers disagree on null; those that need a bridge also need a string here.
    filled = (
        compat.requires_assistant_after_tool_result or compat.requires_non_null_assistant_content
    )
    empty = "" if filled else None
    out["content"] = "".join(texts) if texts else empty
    if calls:
        out["tool_calls"] = [_call(call) for call in calls]
        details = _reasoning_details(calls)
        if details:
            out["reasoning_details"] = details
    return out


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _reasoning_details(calls: Sequence[ToolCall]) -> list[Any]:
    """Encrypted reasoning that came with a call is kept as its signature, as JSON."""
    details: list[Any] = []
    for call in calls:
        if call.thought_signature:
            try:
                details.append(msgspec.json.decode(call.thought_signature))
            except msgspec.DecodeError:
                continue
    return details


def _tool(tool: Any, compat: Compat) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": tool.name,
        "description": without_lone_surrogates(tool.description),
        "parameters": clean_json(dict(tool.parameters)),
    }
    if compat.supports_strict_mode:
        function["strict"] = False
    return {"type": "function", "function": function}


def _mark_cache(payload: dict[str, Any], *, long: bool) -> None:
    """Put markers on the instructions, the last tool and the last message with text.

    All texts become lists of parts, those without a marker too: when a marker moves on, nothing
    else of the messages before it changes.
    """
    marker: dict[str, str] = {"type": "ephemeral"}
    if long:
        marker["ttl"] = "1h"
    messages = payload["messages"]
    for message in messages:
        content = message["content"]
        if isinstance(content, str) and content:
            message["content"] = [{"type": "text", "text": content}]
    if messages and messages[0]["role"] in {"system", "developer"}:
        _mark_text(messages[0], marker)
    if payload.get("tools"):
        payload["tools"][-1]["cache_control"] = marker
    for message in reversed(messages):
        if message["role"] in {"user", "assistant", "tool"} and _mark_text(message, marker):
            break


def _mark_text(message: dict[str, Any], marker: dict[str, str]) -> bool:
    for part in reversed(message["content"] or []):
        if part["type"] == "text":
            part["cache_control"] = marker
            return True
    return False
