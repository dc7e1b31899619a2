"""Reading what is almost right.

Owns the second attempt at a line or message that strict decoding refused: text that is not quite
UTF-8, halves of surrogate pairs, nulls where something is required, missing numbers, content blocks
of a later version. Results are for reading only; the stored bytes never change.
"""

import json
import re
import sys
from typing import Any, TypeGuard

__all__ = ["clean_json", "is_number", "plain_object", "repaired_message", "repaired_usage"]

_STOP_REASONS = ("stop", "length", "toolUse", "error", "aborted", "deferred")
_USAGE = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
_COST = ("input", "output", "cacheRead", "cacheWrite", "total")
_BLOCK_FIELDS: dict[str, list[tuple[str, type]]] = {
    "text": [("text", str)],
    "thinking": [("thinking", str)],
    "image": [("data", str), ("mimeType", str)],
    "toolCall": [("id", str), ("name", str), ("arguments", dict)],
}
_BLOCKS_OF_ROLE = {
    "system": {"text"},
    "user": {"text", "image"},
    "custom": {"text", "image"},
    "toolResult": {"text", "image"},
    "assistant": {"text", "thinking", "toolCall"},
}
_LARGEST = sys.float_info.max
_INSTEAD = {"Infinity": _LARGEST, "-Infinity": -_LARGEST, "NaN": None}
_MOST_DIGITS = 309
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def plain_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line, read as a browser would read it; None when it is none.

    Invalid UTF-8 and halves of surrogate pairs become U+FFFD, numbers beyond all doubles the
    largest one.
    """
    try:
        value = _load(line.decode("utf-8", "replace"))
        if not isinstance(value, dict):
            return None
        text = json.dumps(value, ensure_ascii=False)
        if _HALF_PAIR.search(text):
            value = _load(_HALF_PAIR.sub("\ufffd", text))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def clean_json(value: dict[str, Any]) -> bytes:
    """The JSON text of what ``plain_object`` gave.

    Valid whatever was put in: infinite numbers become the largest finite ones, which keeps a field
    a number, and NaN becomes null.
    """
    try:
        text = _dump(value)
    except ValueError:
        text = _dump(json.loads(json.dumps(value), parse_constant=_INSTEAD.__getitem__))
    return text.encode("utf-8")


def _load(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_integer)


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _finite(digits: str) -> float:
    return max(-_LARGEST, min(float(digits), _LARGEST))


def _integer(digits: str) -> int | float:
    # Python refuses to read integers of some thousand digits; no double is that large.
    return int(digits) if len(digits) <= _MOST_DIGITS else _finite(digits)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def repaired_message(message: dict[str, Any], timestamp: int) -> dict[str, Any]:
    """The message with what its role requires put in; ``timestamp`` stands in for a missing one."""
    role = message.get("role")
    fixed = {key: _whole(value) for key, value in message.items() if value is not None}
    moment = fixed.get("timestamp")
    fixed["timestamp"] = int(moment) if is_number(moment) else timestamp
    if isinstance(role, str) and role in _BLOCKS_OF_ROLE:
        fixed["content"] = _content(message.get("content"), role)
    if role == "assistant":
        for name in ("api", "provider", "model"):
            if not isinstance(fixed.get(name), str):
                fixed[name] = ""
        if fixed.get("stopReason") not in _STOP_REASONS:
            fixed["stopReason"] = "stop"
        fixed["usage"] = repaired_usage(fixed.get("usage"))
    elif role == "toolResult":
        fixed["isError"] = fixed.get("isError") is True
        if "usage" in fixed:
            fixed["usage"] = repaired_usage(fixed["usage"])
    elif role == "custom":
        fixed["display"] = fixed.get("display") is True
    elif role == "bashExecution":
        for name in ("cancelled", "truncated"):
            fixed[name] = fixed.get(name) is True
        fixed.setdefault("output", "")
    return fixed


def _content(content: Any, role: str) -> str | list[Any]:
    if isinstance(content, str) and role in ("assistant", "toolResult"):
        return [{"type": "text", "text": content}]
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if role == "system" else []
    allowed = _BLOCKS_OF_ROLE[role]
    return [_block(block) for block in content if _readable(block, allowed)]


def _readable(block: Any, allowed: set[str]) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    if block["type"] not in allowed:
        return False
    fields = _block(block)
    return all(isinstance(fields.get(name), kind) for name, kind in _BLOCK_FIELDS[block["type"]])


def _block(block: dict[str, Any]) -> dict[str, Any]:
    fixed = {key: value for key, value in block.items() if value is not None}
    if fixed["type"] == "toolCall":
        fixed.setdefault("arguments", {})
    return fixed


def repaired_usage(usage: Any) -> dict[str, Any]:
    """Tokens and cost with every number there; what is none is 0."""
    given = usage if isinstance(usage, dict) else {}
    cost = given.get("cost")
    fixed = {key: value for key, value in given.items() if is_number(value)}
    fixed = {key: int(value) for key, value in fixed.items()}
    whole_cost = {
        key: value
        for key, value in (cost if isinstance(cost, dict) else {}).items()
        if is_number(value)
    }
    return {
        **dict.fromkeys(_USAGE, 0),
        **fixed,
        "cost": {**dict.fromkeys(_COST, 0), **whole_cost},
    }


def is_number(value: Any) -> TypeGuard[float]:
    """A number that fits where whole ones are kept, in 64 bits; NaN and infinity are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -(2**63) <= value < 2**63


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 5.0 is 5."""
    if isinstance(value, float) and value.is_integer() and is_number(value):
        return int(value)
    return value
