"""How to tell that a conversation does not fit the model's context window.

Owns the phrases providers use for it, and the two signs a reply can give without an error. Does not
own what is done about it: that is compaction.
"""

import re

from pi_rpc.llm.messages import AssistantMessage

__all__ = ["is_overflow", "says_overflow"]

_PHRASES = (
    r"\bprompt (is |has become )?too (long|large)",
    r"prompt exceeds (the )?max(imum)? (prompt )?length",
    r"request_too_large|request (entity )?too large|payload too large",
    r"input is too long for (the )?requested model",
    r"(exceeds?|exceeded|larger than) ((the|model'?s?|maximum|available) )*context[ _-]?[wls]\w+",
    r"context[ _-]?(window|length|size|limit)[ _](exceeded|exceeds (the )?limit|overflow)",
    r"input token count.{0,80}exceeds the maximum",
    r"maximum (prompt|context|input) length (is|of) \d+",
    r"reduce the length of (the|your) (messages|prompt|input)",
    r"exceeds? (the )?maximum (allowed )?(input|prompt) length",
    r"longer than (the )?(model'?s? )?(maximum )?context length",
    r"greater than (the )?(model'?s? )?(maximum )?context length",
    r"\b(tokens?|input|prompt|length)\b.{0,60}exceeds? the limit of \d+",
    r"exceeded (the )?model('s)? token limit",
    r"too large for (the )?model with \d+ maximum context length",
    r"prompt has \d+ tokens,? but the (configured )?context size",
    r"model_context_window_exceeded|context_length_exceeded",
    r"range of input length should be",
    r"\btoo many (input |prompt )?tokens\b",
    r"\btoken limit (was )?exceeded",
    r"longer than the maximum model length|context length of only \d+ tokens",
    r"`inputs` (tokens \+ `max_new_tokens` must be <=|must have less than) ?\d+",
)
_BY_STATUS = (
    # Whatever is said beside: less is to be sent. Cerebras says nothing at all.
    r"^413\b|\banswered 413\b|\b413 \(no body\)|\bcerebras answered 400: \(no body\)"
)
_OVERFLOW = "|".join(_PHRASES)
_OTHER_LIMITS = (
    r"\bthrottl(ing|ed)|(^\W*|\()service ?unavailable|rate.?limit|too many requests"
    r"|\bper (minute|day|hour)\b|\banswered (401|403|429|50[1-9]|52\d)\b"
)
"""Compiled when they are first needed: most replies do not fail."""


def says_overflow(text: str) -> bool:
    """An error text says that the conversation is too long; rate limits on tokens do not count."""
    if re.search(_BY_STATUS, text) is not None:
        return True
    return (
        re.search(_OVERFLOW, text, re.IGNORECASE) is not None
        and re.search(_OTHER_LIMITS, text, re.IGNORECASE) is None
    )


def is_overflow(message: AssistantMessage, context_window: int = 0) -> bool:
    """A reply failed, or was quietly cut short, because the conversation is too long.

    With ``context_window`` (tokens; 0 means unknown) two silent forms are recognised: an input that
    is larger than the window was accepted, or the window was full and nothing could be said.
    """
    if message.stop_reason == "error":
        return says_overflow(message.error_message or "")
    if context_window <= 0:
        return False
    usage = message.usage
    read = usage.input + usage.cache_read + usage.cache_write
    if message.stop_reason == "length":
        return usage.output == 0 and read >= 0.99 * context_window
    return message.stop_reason in {"stop", "toolUse"} and read > context_window
