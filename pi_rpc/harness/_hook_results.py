"""Whether what a hook returned is what it says it is.

Owns the check between users' code and a session: Python lets a handler put anything into the fields
of its result, and what is wrong there would break the run, or the session's file, much later. Does
not own the shapes (``pi_rpc.harness.hook_payloads``) nor what becomes of a hook that fails.
"""

import math
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import fields

from pi_rpc.agent.messages import OpaqueMessage, encode_json
from pi_rpc.agent.tool import ToolResult, fault_of
from pi_rpc.harness.branch_summary import BranchSummaryResult
from pi_rpc.harness.compaction import CompactionResult
from pi_rpc.harness.hook_payloads import RESULTS, HookType

__all__ = ["fault_of_result"]

_SMALLEST = {"max_tokens": 1, "temperature": 0, "idle_timeout_s": 0}


def fault_of_result(type_: HookType, result: Any) -> str | None:
    """What is wrong with what a handler of the hook returned, in words; None: nothing."""
    expected = RESULTS[type_]
    if result is None:
        return None
    if expected is None or not isinstance(result, expected):
        wanted = "None" if expected is None else f"{expected.__name__} or None"
        return f"it returned {type(result).__name__} instead of {wanted}"
    for each in fields(expected):
        value = getattr(result, each.name)
        if value is each.default or value is UNSET:
            continue
        try:
            _check(each.name, value, each.type)
        except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
            return f"it returned a {expected.__name__} with unusable {each.name}: {error}"
    return None


def _check(name: str, value: Any, hint: Any) -> None:
    """Raises for a value that cannot be used."""
    match name:
        case "messages":
            check_messages(value)
        case "content":
            _check_result(ToolResult(content=value))
        case "details":
            _check_result(ToolResult(content=[], details=value))
        case "compaction":
            _check_summary(CompactionResult, value)
        case "summary":
            _check_summary(BranchSummaryResult, value)
        case _:
            msgspec.convert(value, hint)
            encode_json(value)
            smallest = _SMALLEST.get(name)
            if smallest is not None and not (smallest <= value < math.inf):
                raise ValueError(f"{value} is out of range")


def check_messages(messages: Iterable[Any]) -> None:
    """Raises where one of them is no message, or holds what a message of its role does not."""
    for message in messages:
        if isinstance(message, OpaqueMessage):
            continue
        if not isinstance(message, Struct) or message.__struct_config__.tag_field != "role":
            raise TypeError(f"{type(message).__name__} is no message")
        msgspec.json.decode(encode_json(message), type=type(message))


def _check_result(result: ToolResult) -> None:
    if (fault := fault_of(result)) is not None:
        raise ValueError(fault)


def _check_summary(expected: type[CompactionResult | BranchSummaryResult], value: Any) -> None:
    if not isinstance(value, expected):
        raise TypeError(f"{type(value).__name__} is no {expected.__name__}")
    entry = (
        value.entry("id", None, "")
        if isinstance(value, CompactionResult)
        else value.entry("id", None, "", from_id=None)
    )
    msgspec.json.decode(encode_json(entry), type=type(entry))
