"""JSON of tool arguments: tolerant while it streams, forgiving once it is complete.

Owns what can be read of an unfinished object and the repairs a finished one may need. It is lazy:
nothing is parsed until somebody looks, and each look costs one pass over the text. Does not own
validation against a tool's schema.

What comes out can always be encoded again: nesting is bounded, integers beyond 64 bits become
floats, lone surrogates are removed.
"""

import json
import re
from typing import Any

__all__ = ["MAX_DEPTH", "parse_arguments", "parse_partial", "without_lone_surrogates"]

MAX_DEPTH = 200
"""Deeper nesting is refused; no real argument comes near, and encoders recurse."""

_TOKEN = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<closed>"?)'  # a string, perhaps unfinished
    r"|[{}\[\],:]"
    r'|[^\s"{}\[\],:]++',  # a number or literal
    re.DOTALL,
)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_SURROGATE = re.compile("[\ud800-\udfff]")
_CLOSERS = {"{": "}", "[": "]"}
_HEX = frozenset("0123456789abcdefABCDEF")


class _TooDeep(ValueError):
    pass


def parse_partial(text: str) -> dict[str, Any]:
    """What can be read of an argument object that is still arriving; ``{}`` when nothing can.

    A string is shown as far as it came; a number, literal or key only once it is complete.
    """
    candidate = _completed(text)
    if candidate is None:
        return {}
    try:
        value = _load(candidate)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The finished arguments, or ``{}`` and a sentence on what was wrong with them.

    No text at all means no arguments. Raw control characters in strings are accepted and
    backslashes that escape nothing are taken literally.
    """
    if not text.strip():
        return {}, None
    try:
        if text.count("{") + text.count("[") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
            raise _TooDeep
        value = _load(text)
    except (_TooDeep, RecursionError):
        return {}, f"the arguments are nested deeper than {MAX_DEPTH} levels"
    except ValueError as error:
        return {}, f"the arguments are not valid JSON: {error}"
    if isinstance(value, dict):
        return value, None
    return {}, f"the arguments are not a JSON object but {_kind(value)}"


def without_lone_surrogates(text: str) -> str:
    """``text`` with surrogate pairs joined and halves of them removed, so that it encodes."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _load(text: str) -> Any:
    try:
        value = json.loads(text, strict=False, parse_int=_integer, parse_constant=_refuse)
    except ValueError:
        repaired = _ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", text)
        if repaired == text:
            raise
        value = json.loads(repaired, strict=False, parse_int=_integer, parse_constant=_refuse)
    if "\\ud" in text or "\\uD" in text or (not text.isascii() and _SURROGATE.search(text)):
        return _cleaned(value)
    return value


def _integer(digits: str) -> int | float:
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(number)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    if isinstance(value, dict):
        return {without_lone_surrogates(key): _cleaned(each) for key, each in value.items()}
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "a number"


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _TOKEN.finditer(text):
        symbol = match[0]
        if symbol in {"{", "["}:
            depth += 1
            deepest = max(deepest, depth)
        elif symbol in {"}", "]"}:
            depth -= 1
    return deepest


def _completed(text: str) -> str | None:
    """``text`` up to the last point that makes sense, with everything open closed."""
    stack: list[str] = []
    expected = "value"
    safe = 0
    for match in _TOKEN.finditer(text):
        symbol = match[0]
        if expected == "value" and symbol in _CLOSERS:
            if len(stack) == MAX_DEPTH or (not stack and symbol != "{"):
                break
            stack.append(symbol)
            expected, safe = ("key" if symbol == "{" else "value"), match.end()
        elif stack and symbol == _CLOSERS[stack[-1]]:
            # A comma before a closer, or a key without its value, is left to the parser to judge.
            stack.pop()
            expected, safe = "comma", match.end()
            if not stack:
                break
        elif not stack or symbol in {"}", "]"}:
            break
        elif expected == "key" and match["closed"]:
            expected = "colon"
        elif expected == "colon" and symbol == ":":
            expected = "value"
        elif expected == "comma" and symbol == ",":
            expected = "key" if stack[-1] == "{" else "value"
        elif expected == "value" and symbol[0] == '"':
            if not match["closed"]:
                return text[: _escape_start(text, match.end())] + '"' + _closing(stack)
            expected, safe = "comma", match.end()
        elif expected == "value" and symbol not in {",", ":"} and match.end() < len(text):
            expected, safe = "comma", match.end()
        else:
            break
    return text[:safe] + _closing(stack) if safe else None


def _closing(stack: list[str]) -> str:
    return "".join(_CLOSERS[each] for each in reversed(stack))


def _escape_start(text: str, end: int) -> int:
    """Where an unfinished string can be cut: before a ``\\u`` escape that lacks digits."""
    start = end
    while start > end - 4 and start > 0 and text[start - 1] in _HEX:
        start -= 1
    if end - start < 4 and start > 1 and text[start - 1] == "u":
        before = text[: start - 1]
        if (len(before) - len(before.rstrip("\\"))) % 2:
            return start - 2
    return end
