"""The request of the dialect ``mistral-conversations``.

Owns how a conversation, tools and options are worded, and Mistral's rule for the ids of calls.
Pure. Does not own the answer.
"""

import hashlib
import re
import string
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
)
from pi_rpc.llm.models import Model
from pi_rpc.llm.partial_json import without_lone_surrogates
from pi_rpc.llm.provider import Context, StreamOptions, ToolSpec
from pi_rpc.llm.providers._request import output_limit, thinking_word
from pi_rpc.llm.transform import clean_json, transform_messages

__all__ = ["mistral_call_id", "mistral_payload"]

_ID = re.compile(r"[a-zA-Z0-9]{9}")
_ID_LENGTH = 9
_ID_CHARACTERS = string.digits + string.ascii_letters
_SEE_IMAGES = "(see the images)"


def mistral_payload(
    model: Model, context: Context, options: StreamOptions
) -> tuple[dict[str, Any], str | None]:
    """The body, and the thinking level in the provider's words.

    The order keeps what stays the same from turn to turn in front, for the prompt cache.
    """
    payload: dict[str, Any] = {"model": model.id, "stream": True}
    if context.tools:
        payload["tools"] = [_tool(tool) for tool in context.tools]
    payload["messages"] = _messages(model, context)
    payload["max_tokens"] = output_limit(model, context, options)
    if options.temperature is not None:
        payload["temperature"] = options.temperature
    parameters, word = _thinking(model, options)
    payload.update(parameters)
    if options.cache_retention != "none" and options.session_id:
        payload["prompt_cache_key"] = options.session_id
    payload.update(model.sampling_params or {})
    return payload, word


def mistral_call_id(original: str, taken: set[str]) -> str:
    """``original`` as an id that Mistral accepts: nine letters and digits, none of ``taken``.

    The same for the same input; an id of Mistral's own stays as it is unless it is taken.
    """
    count = 0
    fitting = original
    while _ID.fullmatch(fitting) is None or fitting in taken:
        number = int.from_bytes(hashlib.sha256(f"{original}\0{count}".encode()).digest()[:8])
        digits: list[str] = []
        while len(digits) < _ID_LENGTH:
            number, digit = divmod(number, len(_ID_CHARACTERS))
            digits.append(_ID_CHARACTERS[digit])
        fitting = "".join(digits)
        count += 1
    return fitting


def _thinking(model: Model, options: StreamOptions) -> tuple[dict[str, Any], str | None]:
    """Models with a map take ``reasoning_effort``; the others think by their own prompt."""
    if not model.reasoning:
        return {}, None
    level, word = thinking_word(model, options.thinking_level)
    if model.thinking_level_map:
        return ({"reasoning_effort": word}, word) if word else ({}, None)
    return ({}, None) if level == "off" else ({"prompt_mode": "reasoning"}, "reasoning")


def _messages(model: Model, context: Context) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    if context.system_prompt:
        out.append({"role": "system", "content": without_lone_surrogates(context.system_prompt)})
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for message in transform_messages(context.messages, model):
        if isinstance(message, ToolResultMessage):
            out.append(_tool_result(message, ids[message.tool_call_id]))
        elif isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolCall):
                    ids[block.id] = mistral_call_id(block.id, taken)
                    taken.add(ids[block.id])
            reply = _reply(message, ids)
            if reply is not None:
                out.append(reply)
        elif content := _user_content(message):
            out.append({"role": "user", "content": content})
    return out


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        return content
    return [
        _image(block) if isinstance(block, ImageBlock) else {"type": "text", "text": block.text}
        for block in content
        if isinstance(block, ImageBlock) or (isinstance(block, TextBlock) and block.text)
    ]


def _image(block: ImageBlock) -> dict[str, Any]:
    return {"type": "image_url", "image_url": f"data:{block.mime_type};base64,{block.data}"}


def _tool_result(message: ToolResultMessage, call_id: str) -> dict[str, Any]:
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    images = [_image(block) for block in message.content if isinstance(block, ImageBlock)]
    text = "\n".join(texts) or (_SEE_IMAGES if images else "(no output)")
    return {
        "role": "tool",
        "tool_call_id": call_id,
        "name": message.tool_name,
        "content": [{"type": "text", "text": text}, *images] if images else text,
    }


def _reply(message: AssistantMessage, ids: dict[str, str]) -> dict[str, Any] | None:
    chunks: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            calls.append(_call(block, ids[block.id]))
        elif isinstance(block, ThinkingBlock):
            if block.thinking or block.thinking_signature:
                chunks.append(_thought(block))
        elif block.text:
            chunks.append({"type": "text", "text": block.text})
    if not chunks and not calls:
        return None
    out: dict[str, Any] = {"role": "assistant"}
    if all(chunk["type"] == "text" for chunk in chunks):
        out["content"] = "".join(chunk["text"] for chunk in chunks)
    else:
        out["content"] = chunks
    if calls:
        out["tool_calls"] = calls
    return out


def _thought(block: ThinkingBlock) -> dict[str, Any]:
    thinking = [{"type": "text", "text": block.thinking}] if block.thinking else []
    chunk: dict[str, Any] = {"type": "thinking", "thinking": thinking}
    if block.thinking_signature:
        chunk["signature"] = block.thinking_signature
    return chunk


def _call(call: ToolCall, call_id: str) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": without_lone_surrogates(tool.description),
            "parameters": clean_json(dict(tool.parameters)),
        },
    }
