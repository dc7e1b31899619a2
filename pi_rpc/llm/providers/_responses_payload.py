"""The request of the dialects ``openai-responses`` and ``azure-openai-responses``.

Owns how a conversation, tools and options are worded. The conversation is kept here and sent whole:
nothing is stored at the provider, and reasoning comes back encrypted so that it can be sent again.
Pure. Does not own the answer, nor the address.

What a reply leaves behind for this is in its blocks: a thinking block is signed with its reasoning
item, a text block with the id and phase of its message (``text_signature``), and a tool call is
named ``<call id>|<item id>``.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

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
from pi_rpc.llm.providers._request import output_limit, thinking_word
from pi_rpc.llm.transform import clean_json, transform_messages

__all__ = ["reasoning_signature", "responses_payload", "text_signature"]

_MIN_OUTPUT = 16
"""Smaller limits are refused."""
_MAX_ID = 64
"""Longer ids and cache keys are refused."""
_NO_EFFORT = "none"
_ENCRYPTED = "reasoning.encrypted_content"
_REASONING_KEYS = ("type", "id", "summary", "content", "encrypted_content")


def responses_payload(
    model: Model, context: Context, options: StreamOptions, *, name: str | None = None
) -> tuple[dict[str, Any], str | None]:
    """The body, and the thinking level in the provider's words.

    ``name`` is what the model is called there, when that is not its id. The conversation comes last
    in the body, so that a later turn's body begins with the same bytes.
    """
    parameters, word = _reasoning(model, options)
    payload: dict[str, Any] = {
        "model": name or model.id,
        "stream": True,
        "store": False,
        **parameters,
    }
    if _flag(model, "supportsMaxOutputTokens", default=True):
        payload["max_output_tokens"] = _output_limit(model, context, options, word)
    if options.temperature is not None and word in {None, _NO_EFFORT}:
        # It is refused while a model reasons.
        payload["temperature"] = options.temperature
    payload.update(_caching(model, options))
    if context.tools:
        payload["tools"] = [_tool(tool, model) for tool in context.tools]
    payload.update(model.sampling_params or {})
    payload["input"] = _input(model, context)
    return payload, word


def text_signature(item_id: str, phase: str | None) -> str:
    """What a text block keeps of its message: JSON with the item's id and its phase, if any."""
    signature: dict[str, Any] = {"v": 1, "id": item_id}
    if phase:
        signature["phase"] = phase
    return msgspec.json.encode(signature).decode()


def reasoning_signature(item: dict[str, Any]) -> str | None:
    """What a thinking block keeps of its reasoning item; None if it could not be sent again.

    The provider keeps nothing, so without encrypted or plain content an item means nothing to it.
    """
    if not item.get("encrypted_content") and not item.get("content"):
        return None
    # The status is refused in a request.
    kept = {key: item[key] for key in _REASONING_KEYS if item.get(key)}
    kept["summary"] = item.get("summary") or []
    return msgspec.json.encode(kept).decode()


def _flag(model: Model, name: str, *, default: bool) -> bool:
    value = (model.compat or {}).get(name)
    return value if isinstance(value, bool) else default


def _reasoning(model: Model, options: StreamOptions) -> tuple[dict[str, Any], str | None]:
    if not model.reasoning:
        return {}, None
    level, word = thinking_word(model, options.thinking_level)
    if level == "off":
        word = word or _NO_EFFORT
        return {"reasoning": {"effort": word}}, word
    return {"reasoning": {"effort": word, "summary": "auto"}, "include": [_ENCRYPTED]}, word


def _output_limit(model: Model, context: Context, options: StreamOptions, word: str | None) -> int:
    if options.max_tokens is None and word not in {None, _NO_EFFORT}:
        # Reasoning is part of the output: a usual answer's limit would cut it short.
        options = replace(options, max_tokens=model.max_tokens)
    return max(_MIN_OUTPUT, output_limit(model, context, options))


def _caching(model: Model, options: StreamOptions) -> dict[str, Any]:
    """The key that leads to a warm cache, and how long it should stay warm.

    Newer models (compat ``supportsExplicitPromptCacheMode``) bill what they write to the cache and
    take the options of their own for it.
    """
    explicit = _flag(model, "supportsExplicitPromptCacheMode", default=False)
    if options.cache_retention == "none":
        return {"prompt_cache_options": {"mode": "explicit"}} if explicit else {}
    out: dict[str, Any] = {}
    if options.session_id:
        out["prompt_cache_key"] = _cache_key(options.session_id)
    if options.cache_retention == "long" and _flag(
        model, "supportsLongCacheRetention", default=True
    ):
        if explicit:
            out["prompt_cache_options"] = {"ttl": "30m"}
        else:
            out["prompt_cache_retention"] = "24h"
    return out


def _cache_key(session_id: str) -> str:
    """The session's id if it fits, else a digest: a cut could fall together with another's."""
    if len(session_id) <= _MAX_ID:
        return session_id
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def _tool(tool: ToolSpec, model: Model) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": "function",
        "name": tool.name,
        "description": without_lone_surrogates(tool.description),
        "parameters": clean_json(dict(tool.parameters)),
    }
    if _flag(model, "supportsStrictMode", default=True):
        # Left out it means true, and a strict schema may have no optional properties.
        out["strict"] = False
    return out


def _input(model: Model, context: Context) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if context.system_prompt:
        developer = model.reasoning and _flag(model, "supportsDeveloperRole", default=True)
        role = "developer" if developer else "system"
        out.append({"role": role, "content": without_lone_surrogates(context.system_prompt)})
    for message in transform_messages(context.messages, model):
        out.extend(_items(message))
    return out


def _items(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolResultMessage):
        return [_tool_result(message)]
    if isinstance(message, AssistantMessage):
        return _reply(message)
    content = message.content
    parts = _parts([TextBlock(text=content)] if isinstance(content, str) else content)
    return [{"role": "user", "content": parts}] if parts else []


def _parts(content: Sequence[UserContent]) -> list[dict[str, Any]]:
    return [
        {
            "type": "input_image",
            "detail": "auto",
            "image_url": f"data:{block.mime_type};base64,{block.data}",
        }
        if isinstance(block, ImageBlock)
        else {"type": "input_text", "text": block.text}
        for block in content
        if isinstance(block, ImageBlock) or block.text
    ]


def _tool_result(message: ToolResultMessage) -> dict[str, Any]:
    parts = _parts(message.content)
    output: str | list[dict[str, Any]] = parts
    if all(part["type"] == "input_text" for part in parts):
        output = "\n".join(part["text"] for part in parts) or "(no output)"
    call_id = message.tool_call_id.partition("|")[0]
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _reply(message: AssistantMessage) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            out.append(_call(block))
        elif isinstance(block, TextBlock):
            if block.text:
                out.append(_said(block))
        else:
            out.extend(_thought(block))
    while out and out[-1]["type"] == "reasoning":
        # Reasoning that led to nothing, as in a reply that was cut off, is refused.
        out.pop()
    return out


def _call(call: ToolCall) -> dict[str, Any]:
    call_id, _, item_id = call.id.partition("|")
    out: dict[str, Any] = {"type": "function_call"}
    if item_id:
        out["id"] = item_id
    out["call_id"] = call_id
    out["name"] = call.name
    out["arguments"] = msgspec.json.encode(call.arguments).decode()
    if call.namespace:
        out["namespace"] = call.namespace
    return out


def _said(block: TextBlock) -> dict[str, Any]:
    item_id, phase = _read_text_signature(block.text_signature)
    if item_id.startswith("msg_") and len(item_id) <= _MAX_ID:
        part = {"type": "output_text", "text": block.text, "annotations": []}
        out: dict[str, Any] = {
            "type": "message",
            "id": item_id,
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    else:
        out = {"type": "message", "role": "assistant", "content": block.text}
    if phase:
        out["phase"] = phase
    return out


def _read_text_signature(signature: str | UnsetType) -> tuple[str, str]:
    if signature is UNSET:
        return "", ""
    try:
        read = msgspec.json.decode(signature)
    except msgspec.DecodeError:
        return signature, ""
    if not isinstance(read, dict):
        return "", ""
    item_id, phase = read.get("id"), read.get("phase")
    return (
        item_id if isinstance(item_id, str) else "",
        phase if phase in {"commentary", "final_answer"} else "",
    )


def _thought(block: ThinkingBlock) -> list[dict[str, Any]]:
    try:
        item = msgspec.json.decode(block.thinking_signature or "")
    except msgspec.DecodeError:
        return []
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return []
    # Files that pi wrote hold the whole item.
    signature = reasoning_signature(item)
    if signature is None:
        return []
    kept: dict[str, Any] = msgspec.json.decode(signature)
    if len(str(kept.get("id", ""))) > _MAX_ID:
        del kept["id"]
    return [kept]
