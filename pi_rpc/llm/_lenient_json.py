"""JSON as providers really send it: read fast, and with patience where that fails.

Owns what is read over: bytes that are not UTF-8, and halves of surrogate pairs, which servers send
that cut a character in two at the end of a token. Does not own what the JSON means, nor where the
halves meet again (``MessageBuilder``).

The structs that are decoded to are declared ``gc=False``: what comes out of JSON has no cycles.
"""

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

__all__ = ["UNREADABLE", "read_json", "with_whole_characters"]

_Value = TypeVar("_Value")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for what ``read_json`` may still read. Trying it first saves a call for
each event."""

_STREAMED = frozenset(
    {
        "arguments",
        "content",
        "delta",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "reasoning_text",
        "refusal",
        "text",
        "thinking",
    }
)
"""What holds a piece of a longer text; its first and its last half may meet a neighbour's."""
_WHOLE = frozenset({"args", "arguments", "error", "input", "reasoning_details"})
"""Objects that come in one piece, whatever their keys are called."""


def read_json(
    decoder: msgspec.json.Decoder[_Value], data: bytes, on_halves: Callable[[], None] | None = None
) -> _Value:
    """What ``decoder`` makes of ``data``, with U+FFFD for what is no character.

    With ``on_halves``, which is called first, a half at the edge of a streamed text stays, for the
    half that comes with the next chunk. Raises ``msgspec.DecodeError``, also for what is nested too
    deeply.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = data.decode("utf-8", "replace")
        if "\ufffd" not in text and re.search(r"\\u[dD][89a-fA-F]", text) is None:
            raise msgspec.DecodeError(str(error)) from None
        try:
            value = json.loads(text)
            if on_halves is not None:
                on_halves()
            whole = _repaired(value, on_halves is not None, at_edge=False)
        except (ValueError, RecursionError):
            raise msgspec.DecodeError(str(error)) from None
    converted: _Value = msgspec.convert(whole, decoder.type)
    return converted


def with_whole_characters(text: str) -> str:
    """``text`` with the halves of a surrogate pair joined, and a lone one as U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _repaired(value: Any, streamed: bool, *, at_edge: bool) -> Any:
    if isinstance(value, str):
        if not at_edge:
            return with_whole_characters(value)
        first = value[:1] if "\udc00" <= value[:1] <= "\udfff" else ""
        last = value[-1:] if "\ud800" <= value[-1:] <= "\udbff" else ""
        return first + with_whole_characters(value[len(first) : len(value) - len(last)]) + last
    if isinstance(value, list):
        return [_repaired(each, streamed, at_edge=False) for each in value]
    if isinstance(value, dict):
        return {
            with_whole_characters(key): _repaired(
                each,
                streamed and not (key in _WHOLE and not isinstance(each, str)),
                at_edge=streamed and key in _STREAMED,
            )
            for key, each in value.items()
        }
    return value
