"""The request of the dialect ``bedrock-converse-stream``.

Owns how a conversation, tools and options are worded, cache points included; what differs from
family to family is ``_bedrock_families``. Pure. Does not own the answer.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from pi_rpc.llm.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserContent,
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.partial_json import without_lone_surrogates
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec
from pi_rpc.llm.providers._bedrock_families import Family, family_of, reasoning_parameters
from pi_rpc.llm.providers._request import output_limit
from pi_rpc.llm.transform import clean_json, transform_messages

__all__ = ["bedrock_payload"]

_FORMATS = {
    "image/gif": "gif",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/png": "png",
    "image/webp": "webp",
}
_INFERENCE = {
    "maxTokens": "maxTokens",
    "max_tokens": "maxTokens",
    "stopSequences": "stopSequences",
    "temperature": "temperature",
    "topP": "topP",
    "top_p": "topP",
}
"""Sampling parameters that every model has, and the dialect's name for them."""
_OF_THE_REQUEST = frozenset(
    {
        "additionalModelResponseFieldPaths",
        "guardrailConfig",
        "outputConfig",
        "performanceConfig",
        "projectIdentifier",
        "requestMetadata",
        "serviceTier",
    }
)
_IMAGES_FOLLOW = "Images from the failed tool calls above:"


def bedrock_payload(
    model: Model, context: Context, options: StreamOptions, region: str
) -> tuple[dict[str, Any], str | None]:
    """The body, and the thinking level in the provider's words."""
    family = family_of(model)
    marker = _cache_point(family, model, options)
    payload: dict[str, Any] = {}
    if context.system_prompt.strip():
        text = {"text": without_lone_surrogates(context.system_prompt)}
        payload["system"] = [text, *marker]
    messages = _messages(model, family, context)
    tools = [_tool(tool) for tool in context.tools] or _tools_of_calls(messages)
    if tools:
        payload["toolConfig"] = {"tools": [*tools, *(marker if family.caches_tools else ())]}
    _mark(messages, family, marker)
    payload["messages"] = messages
    inference: dict[str, Any] = {"maxTokens": output_limit(model, context, options)}
    if options.temperature is not None:
        inference["temperature"] = options.temperature
    reasoning = reasoning_parameters(family, model, options, inference["maxTokens"], region)
    if reasoning.max_tokens is not None:
        inference["maxTokens"] = reasoning.max_tokens
    fields = dict(reasoning.fields)
    for name, value in (model.sampling_params or {}).items():
        if name in _INFERENCE:
            inference[_INFERENCE[name]] = value
        elif name in _OF_THE_REQUEST:
            payload[name] = value
        else:
            fields[name] = value
    for name in reasoning.forbidden:
        inference.pop(name, None)
    if inference:
        payload["inferenceConfig"] = inference
    if fields:
        payload["additionalModelRequestFields"] = fields
    return payload, reasoning.word


def _cache_point(family: Family, model: Model, options: StreamOptions) -> list[dict[str, Any]]:
    if options.cache_retention == "none" or not family.caches:
        return []
    point = {"type": "default"}
    if options.cache_retention == "long":
        told = (model.compat or {}).get("supportsLongCacheRetention")
        if told if isinstance(told, bool) else family.caches_long:
            point["ttl"] = "1h"
    return [{"cachePoint": point}]


def _mark(messages: list[dict[str, Any]], family: Family, marker: list[dict[str, Any]]) -> None:
    """Put cache points where the next request will look for them."""
    if not marker or not messages:
        return
    if family.looks_back:
        if messages[-1]["role"] == "user":
            messages[-1]["content"].extend(marker)
        return
    # Only a point that is still in its place is found again, so the last but one stays. After
    # results of tools it is refused.
    asked = [
        message["content"]
        for message in messages
        if message["role"] == "user"
        and not any("toolResult" in each for each in message["content"])
    ]
    for content in asked[-2:]:
        content.extend(marker)


def _messages(model: Model, family: Family, context: Context) -> list[dict[str, Any]]:
    """The conversation, with roles that alternate: neighbours of one role become one message."""
    out: list[dict[str, Any]] = []
    late_images: list[dict[str, Any]] = []

    def add(role: str, content: list[dict[str, Any]]) -> None:
        if not content:
            return
        if out and out[-1]["role"] == role:
            out[-1]["content"].extend(content)
        else:
            out.append({"role": role, "content": content})

    for message in transform_messages(context.messages, model):
        if isinstance(message, ToolResultMessage):
            result, images = _tool_result(message, family)
            add("user", [result])
            late_images += images
            continue
        if late_images:
            add("user", [{"text": _IMAGES_FOLLOW}, *late_images])
            late_images = []
        if isinstance(message, AssistantMessage):
            add("assistant", _reply(message, family))
        else:
            add("user", _said(message))
    if late_images:
        add("user", [{"text": _IMAGES_FOLLOW}, *late_images])
    return out


def _said(message: Message) -> list[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        return [{"text": content}] if content.strip() else []
    return _blocks([each for each in content if isinstance(each, (TextBlock, ImageBlock))])


def _blocks(content: Sequence[UserContent]) -> list[dict[str, Any]]:
    """Text and images; blank text is refused by the dialect and left out."""
    return [
        _image(block) if isinstance(block, ImageBlock) else {"text": block.text}
        for block in content
        if isinstance(block, ImageBlock) or block.text.strip()
    ]


def _image(block: ImageBlock) -> dict[str, Any]:
    kind = _FORMATS.get(block.mime_type.lower())
    if kind is None:
        return {"text": f"(an image of the type {block.mime_type} was here; it cannot be shown)"}
    return {"image": {"format": kind, "source": {"bytes": block.data}}}


def _tool_result(
    message: ToolResultMessage, family: Family
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result, and the images that cannot be part of it and must follow."""
    blocks = _blocks(message.content)
    late: list[dict[str, Any]] = []
    if message.is_error and family.errors_are_text:
        late = [each for each in blocks if "image" in each]
        blocks = [each for each in blocks if "image" not in each]
    result: dict[str, Any] = {
        "toolUseId": message.tool_call_id,
        "content": blocks or [{"text": "(the images follow)" if late else "(no output)"}],
    }
    if message.is_error and family.has_status:
        result["status"] = "error"
    return {"toolResult": result}, late


def _reply(message: AssistantMessage, family: Family) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            call = {
                "toolUseId": block.id,
                "name": block.name,
                "input": _document(block.arguments),
            }
            out.append({"toolUse": call})
        elif isinstance(block, ThinkingBlock):
            out.extend(_thought(block, family))
        elif block.text.strip():
            out.append({"text": block.text})
    return out


def _thought(block: ThinkingBlock, family: Family) -> list[dict[str, Any]]:
    signature = block.thinking_signature or ""
    if block.redacted:
        is_sendable = bool(signature) and _is_base64(signature)
        return [{"reasoningContent": {"redactedContent": signature}}] if is_sendable else []
    if not block.thinking.strip():
        return []
    if not family.signs:
        return [{"reasoningContent": {"reasoningText": {"text": block.thinking}}}]
    if not signature:
        # Without its signature it is refused as thinking; as text it still tells what was thought.
        return [{"text": block.thinking}]
    told = {"text": block.thinking, "signature": signature}
    return [{"reasoningContent": {"reasoningText": told}}]


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _document(value: Any) -> Any:
    """``value`` without what a document may not have: keys that are empty."""
    if isinstance(value, list):
        return [_document(each) for each in value]
    if isinstance(value, dict):
        return {key: _document(each) for key, each in value.items() if key}
    return value


def _tool(tool: ToolSpec) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": tool.name}
    description = without_lone_surrogates(tool.description)
    if description.strip():
        spec["description"] = description
    spec["inputSchema"] = {"json": clean_json(dict(tool.parameters))}
    return {"toolSpec": spec}


def _tools_of_calls(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tools that were called once: a conversation with calls is refused when none is declared."""
    names = dict.fromkeys(
        block["toolUse"]["name"]
        for message in messages
        for block in message["content"]
        if "toolUse" in block
    )
    return [
        {
            "toolSpec": {
                "name": name,
                "description": "No longer available.",
                "inputSchema": {"json": {"type": "object"}},
            }
        }
        for name in names
    ]
