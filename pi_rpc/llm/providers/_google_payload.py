"""The request of the dialect ``google-generative-ai``.

Owns how a conversation, tools and options are worded, and how generations of models differ. Pure.
Does not own the answer.

Caching is implicit with this provider: nothing marks it and nothing turns it off. What keeps it
warm is the order of the body (instructions, tools, conversation, and only then what may change).
"""

import re
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
from pi_rpc.llm.providers._request import output_limit, thinking_word
from pi_rpc.llm.transform import clean_json, transform_messages

__all__ = ["google_payload", "thinks_in_levels"]

_IMAGES_FOLLOW = "(the images follow)"
_IMAGES_FROM_TOOLS = "Images from the tool results above:"
_NO_SIGNATURE = "skip_thought_signature_validator"
"""What Google documents for calls that its model did not make; without any the request is refused
by Gemini 3 and later."""
_SIGNATURE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_GENERATION = re.compile(r"gemini-(?:live-)?(\d+)")
_NEWEST = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest")
_GEMMA_IN_LEVELS = re.compile(r"gemma-?4")
_MIN_ANSWER = 1024
_DYNAMIC = -1
_PRO, _LITE, _FLASH = "2.5-pro", "2.5-flash-lite", "2.5-flash"
_BUDGETS: dict[str, dict[str, int]] = {
    _PRO: {"off": 128, "minimal": 128, "low": 2048, "medium": 8192, "high": 32768},
    _LITE: {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576},
    _FLASH: {"off": 0, "minimal": 128, "low": 2048, "medium": 8192, "high": 24576},
}
"""By what is in a model's id, the longer first. The pro model cannot be told not to think."""
_LITERAL = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords of a schema that hold values, not schemas."""


def google_payload(
    model: Model, context: Context, options: StreamOptions
) -> tuple[dict[str, Any], str | None]:
    """The body, and the thinking level in the provider's words."""
    payload: dict[str, Any] = {}
    if context.system_prompt:
        text = without_lone_surrogates(context.system_prompt)
        payload["systemInstruction"] = {"parts": [{"text": text}]}
    if context.tools:
        payload["tools"] = [{"functionDeclarations": [_tool(tool) for tool in context.tools]}]
    payload["contents"] = _contents(model, context)
    limit = output_limit(model, context, options)
    thinking, word, limit = _thinking(model, options, limit)
    generation: dict[str, Any] = {"maxOutputTokens": limit}
    if options.temperature is not None:
        generation["temperature"] = options.temperature
    if thinking:
        generation["thinkingConfig"] = thinking
    generation.update(model.sampling_params or {})
    payload["generationConfig"] = generation
    return payload, word


def thinks_in_levels(model: Model) -> bool:
    """The model takes ``thinkingLevel``; those that do not take ``thinkingBudget``."""
    return _is_third(model) or _GEMMA_IN_LEVELS.search(model.id.lower()) is not None


def _is_third(model: Model) -> bool:
    """Gemini 3 or later: calls have ids and signatures, and results may hold images."""
    name = model.id.lower().removeprefix("models/")
    found = _GENERATION.match(name)
    return int(found[1]) >= 3 if found else _NEWEST.fullmatch(name) is not None


def _thinking(
    model: Model, options: StreamOptions, limit: int
) -> tuple[dict[str, Any], str | None, int]:
    """What asks for thinking, the level in the provider's words, and the limit with room for it."""
    if not model.reasoning:
        return {}, None, limit
    level, word = thinking_word(model, options.thinking_level)
    shown = {"includeThoughts": True} if level != "off" and options.thinking_level != "off" else {}
    if thinks_in_levels(model):
        # None of these can be told not to think at all.
        lowest = "LOW" if _is_third(model) else "MINIMAL"
        named = word.upper() if word else lowest
        return {**shown, "thinkingLevel": named}, named, limit
    budgets = next((each for name, each in _BUDGETS.items() if name in model.id), {"off": 0})
    budget = budgets.get(word or level, _DYNAMIC)
    if budget > 0:
        # Thinking counts as output here.
        limit = min(limit + budget, max(model.max_tokens, limit))
        budget = max(min(budget, limit - _MIN_ANSWER), budgets["minimal"])
    return {**shown, "thinkingBudget": budget}, str(budget) if budget else None, limit


def _contents(model: Model, context: Context) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    third = _is_third(model)
    results: list[dict[str, Any]] | None = None
    images: list[ImageBlock] = []
    for message in transform_messages(context.messages, model):
        if isinstance(message, ToolResultMessage):
            if results is None:
                # The results of one reply must come in one piece.
                results = []
                out.append({"role": "user", "parts": results})
            results.append(_tool_result(message, third=third))
            if not third:
                images += [block for block in message.content if isinstance(block, ImageBlock)]
            continue
        results = None
        _add_images(out, images)
        if isinstance(message, AssistantMessage):
            parts, role = _reply(message, third=third), "model"
        else:
            parts, role = _user_parts(message), "user"
        if parts:
            out.append({"role": role, "parts": parts})
    _add_images(out, images)
    return out


def _add_images(out: list[dict[str, Any]], images: list[ImageBlock]) -> None:
    """Before Gemini 3 a result holds text only; its images follow as if a person sent them."""
    if images:
        parts = [{"text": _IMAGES_FROM_TOOLS}, *map(_image, images)]
        out.append({"role": "user", "parts": parts})
        images.clear()


def _user_parts(message: Message) -> list[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        return [{"text": content}] if content.strip() else []
    return [
        _image(block) if isinstance(block, ImageBlock) else {"text": block.text}
        for block in content
        if isinstance(block, ImageBlock) or (isinstance(block, TextBlock) and block.text)
    ]


def _image(block: UserContent) -> dict[str, Any]:
    assert isinstance(block, ImageBlock)
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def _tool_result(message: ToolResultMessage, *, third: bool) -> dict[str, Any]:
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    images = [block for block in message.content if isinstance(block, ImageBlock)]
    text = "\n".join(texts) or (_IMAGES_FOLLOW if images else "(no output)")
    response: dict[str, Any] = {"id": message.tool_call_id} if third else {}
    response["name"] = message.tool_name
    response["response"] = {"error" if message.is_error else "output": text}
    if images and third:
        response["parts"] = [_image(block) for block in images]
    return {"functionResponse": response}


def _reply(message: AssistantMessage, *, third: bool) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    has_call = False
    for block in message.content:
        if isinstance(block, ToolCall):
            signature = _signature(block.thought_signature)
            if third and not has_call and not signature:
                signature = {"thoughtSignature": _NO_SIGNATURE}
            has_call = True
            call = {"id": block.id} if third else {}
            call_part = {**call, "name": block.name, "args": block.arguments}
            parts.append({"functionCall": call_part, **signature})
        elif isinstance(block, ThinkingBlock):
            signature = _signature(block.thinking_signature)
            if block.thinking.strip() or signature:
                parts.append({"thought": True, "text": block.thinking, **signature})
        else:
            # A signature may come with a text that is empty, and belongs there.
            signature = _signature(block.text_signature)
            if block.text.strip() or signature:
                parts.append({"text": block.text, **signature})
    return parts


def _signature(signature: Any) -> dict[str, str]:
    """The replay data of a part; what is no base64 came from elsewhere and would be refused."""
    if isinstance(signature, str) and _SIGNATURE.fullmatch(signature):
        return {"thoughtSignature": signature}
    return {}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": without_lone_surrogates(tool.description),
        "parametersJsonSchema": _without_const(clean_json(dict(tool.parameters))),
    }


def _without_const(schema: Any) -> Any:
    """The schema with ``const`` as an ``enum`` of one, which is what this provider understands."""
    if isinstance(schema, list):
        return [_without_const(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {
        key: each if key in _LITERAL and not isinstance(each, dict) else _without_const(each)
        for key, each in schema.items()
    }
    value = out.get("const")
    if isinstance(value, (str, int, float)) and not isinstance(value, bool) and "enum" not in out:
        del out["const"]
        out["enum"] = [value]
    return out
