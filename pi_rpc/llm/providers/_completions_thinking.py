"""How servers of the dialect ``openai-completions`` are told to think.

Owns the parameters of each ``thinkingFormat``. Pure. Does not own the rest of a request.
"""

from collections.abc import Mapping
from typing import Any

from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.llm.providers._completions_compat import Compat
from pi_rpc.llm.providers._request import THINKING_BUDGETS, takes_no_off, thinking_word

__all__ = ["thinking_parameters"]


def thinking_parameters(
    model: Model, options: StreamOptions, compat: Compat
) -> tuple[dict[str, Any], str | None]:
    """The parameters that turn thinking on or off, and the level in the provider's words.

    A map that says null for ``off`` takes the level away; where a model then offers no level at
    all, nothing is said to it.
    """
    if not model.reasoning:
        return {}, None
    level, word = thinking_word(model, options.thinking_level)
    if level == "off" and takes_no_off(model):
        return {}, None
    on = level != "off"
    told = {"reasoning_effort": word} if word and compat.supports_reasoning_effort else {}
    effort = told if on else {}
    limit: dict[str, Any] = {}
    if on and compat.thinking_token_budget_field:
        limit[compat.thinking_token_budget_field] = THINKING_BUDGETS[level]
    match compat.thinking_format:
        case "openrouter":
            found: dict[str, Any] = {"reasoning": {"effort": word or "none"}}
        case "deepseek":
            found = {"thinking": {"type": "enabled" if on else "disabled"}, **effort}
        case "zai":
            # Past thinking stays in the prompt, so that a warm cache stays of use.
            thinking = {"type": "enabled", "clear_thinking": False} if on else {"type": "disabled"}
            found = {"thinking": thinking, **effort}
        case "together":
            found = {"reasoning": {"enabled": on}, **effort}
        case "qwen":
            found = {"enable_thinking": on, **effort}
        case "qwen-chat-template":
            found = {"chat_template_kwargs": {"enable_thinking": on, "preserve_thinking": True}}
        case "chat-template":
            values = _template_values(compat.chat_template_kwargs, level, word)
            found = {"chat_template_kwargs": values}
        case "baseten":
            values = _template_values(compat.chat_template_args, level, word)
            found = {"chat_template_args": values, **told}
        case "string-thinking":
            found = {"thinking": word or "none"}
        case "ant-ling":
            mapped = (model.thinking_level_map or {}).get(level) if on else None
            return ({"reasoning": {"effort": mapped}, **limit} if mapped else limit), mapped
        case _:
            return {**told, **limit}, word if told else None
    return {**found, **limit}, word


def _template_values(
    template: Mapping[str, Any], level: ThinkingLevel, word: str | None
) -> dict[str, Any]:
    """What a chat template is told, with the level in the place of ``{"$var": ...}``."""
    on = level != "off"
    if not template:
        return {"enable_thinking": on}
    variables = {
        "thinking.enabled": on,
        "thinking.effort": word,
        "thinking.budget": THINKING_BUDGETS[level] if on else None,
    }
    values: dict[str, Any] = {}
    for name, value in template.items():
        if not isinstance(value, dict):
            values[name] = value
            continue
        filled = variables.get(str(value.get("$var")))
        if filled is not None and (on or value.get("omitWhenOff") is not True):
            values[name] = filled
    return values
