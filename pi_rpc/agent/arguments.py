"""Tool arguments: from what a model wrote to what a tool is given.

Owns the coercion of near misses, the check against the tool's JSON Schema, and the text that tells
a model what to correct. Does not own the parsing of argument text (``pi_rpc.llm.partial_json``).

Coercion works on a copy; the transcript keeps what the model wrote. It turns numeric text into
numbers where a number is wanted, ``"true"`` and ``"false"`` into booleans, a single value into an
array of one, and leaves out an optional property that is null where null is not allowed.
"""

import copy
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pi_rpc.agent.foreign_code import text_of_error
from pi_rpc.agent.tool import AgentTool
from pi_rpc.llm.messages import ToolCall

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["ArgumentsError", "checked_arguments", "coerce", "preload"]

_MAX_PROBLEMS = 20
_MAX_PROBLEM_CHARS = 300
_MAX_RECEIVED_CHARS = 4000
_MAX_DEPTH = 64
_MAX_NUMBER_CHARS = 400
_NUMBER = re.compile(r"\s*-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\s*")
_BOOLEANS = {"true": True, "false": False}


class ArgumentsError(Exception):
    """The arguments do not fit the tool; the text tells a model how to do better."""


def preload() -> None:
    """Import what a check needs, ahead of the first one. Blocks: call it in a thread."""
    from jsonschema.validators import Draft202012Validator

    Draft202012Validator.check_schema({})


def checked_arguments(tool: AgentTool, call: ToolCall) -> dict[str, Any]:
    """The arguments to run ``tool`` with: a copy, prepared, coerced and valid.

    Raises ``ArgumentsError``, also when the tool's own schema is broken or its
    ``prepare_arguments`` raises.
    """
    if call.arguments_error:
        raise ArgumentsError(
            f"The arguments for tool {tool.name} could not be read: {call.arguments_error}\n"
            "Call it again with one complete JSON object."
        )
    try:
        arguments = _prepared(tool, call)
        problems = _coerce_and_check(tool, arguments)
        if problems:
            raise ArgumentsError(_report(tool.name, problems, call.arguments))
    except RecursionError as error:
        raise ArgumentsError(
            f"The arguments for tool {tool.name} are nested too deeply."
        ) from error
    return arguments


def _prepared(tool: AgentTool, call: ToolCall) -> dict[str, Any]:
    arguments = copy.deepcopy(call.arguments)
    if tool.prepare_arguments is None:
        return arguments
    try:
        prepared: Any = tool.prepare_arguments(arguments)
    except BaseException as error:
        # Nothing of ours is awaited here: even a SystemExit is the tool's own.
        raise ArgumentsError(
            f"The arguments for tool {tool.name} could not be prepared: {text_of_error(error)}"
        ) from error
    if not isinstance(prepared, dict):
        raise ArgumentsError(f"The arguments for tool {tool.name} were prepared into no object.")
    return prepared


def _coerce_and_check(tool: AgentTool, arguments: dict[str, Any]) -> list[Any]:
    """Coerce in place and list what is wrong then."""
    try:
        validator = _validator_for(tool.parameters)
        coerce(arguments, validator)
        return list(validator.iter_errors(arguments))
    except RecursionError:
        raise
    except Exception as error:
        reason = _cut(str(error).partition("\n")[0], _MAX_PROBLEM_CHARS)
        raise ArgumentsError(
            f"Tool {tool.name} cannot be called: its parameter schema is not valid ({reason})."
        ) from error


# --- validators ---------------------------------------------------------------------------------

_MAX_VALIDATORS = 256
_validators: "OrderedDict[int, tuple[Mapping[str, Any], Validator]]" = OrderedDict()
"""By identity of the schema, which is kept so that the identity stays taken; oldest use first."""


def _validator_for(schema: Mapping[str, Any]) -> "Validator":
    """A validator of ``schema``; raises ``jsonschema.SchemaError``. Never fetches a reference."""
    cached = _validators.get(id(schema))
    if cached is not None:
        _validators.move_to_end(id(schema))
        return cached[1]
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    kind = validator_for(dict(schema), default=Draft202012Validator)
    kind.check_schema(dict(schema))
    validator: Validator = kind(dict(schema), registry=Registry())
    _validators[id(schema)] = (schema, validator)
    if len(_validators) > _MAX_VALIDATORS:
        _validators.popitem(last=False)
    return validator


# --- coercion -----------------------------------------------------------------------------------


def coerce(arguments: dict[str, Any], validator: "Validator") -> None:
    """Put near misses of the validator's schema right, in place."""
    coerced = _coerce(arguments, validator.schema, validator, 0)
    if isinstance(coerced, dict) and coerced is not arguments:
        arguments.clear()
        arguments.update(coerced)


def _coerce(value: Any, schema: Any, root: "Validator", depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return value
    if "$ref" in schema:
        value = _coerce(value, _resolve(schema["$ref"], root.schema), root, depth + 1)
    for part in schema.get("allOf", ()):
        value = _coerce(value, part, root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            value = _coerce_to_one(value, schema[key], root, depth)
    types = _listed(schema.get("type", []))
    if types and not any(root.is_type(value, each) for each in types):
        value = _to_type(value, types)
    if isinstance(value, float) and "integer" in types and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return _coerce_properties(value, schema, root, depth)
    if isinstance(value, list) and "items" in schema:
        return [_coerce(each, schema["items"], root, depth + 1) for each in value]
    return value


def _resolve(reference: Any, root: Any) -> Any:
    """The part of the schema that a local reference names; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    part = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(part, Mapping) or name not in part:
            return None
        part = part[name]
    return part


def _coerce_to_one(value: Any, branches: Iterable[Any], root: "Validator", depth: int) -> Any:
    """The value as it is if a branch allows it, else as the first branch that can be met."""
    validators = [root.evolve(schema=branch) for branch in branches]
    if any(validator.is_valid(value) for validator in validators):
        return value
    for validator in validators:
        candidate = _coerce(copy.deepcopy(value), validator.schema, root, depth + 1)
        if validator.is_valid(candidate):
            return candidate
    return value


def _to_type(value: Any, types: list[str]) -> Any:
    if isinstance(value, str):
        if "integer" in types or "number" in types:
            number = _number(value)
            if number is not None:
                return number
        if "boolean" in types and value.strip().lower() in _BOOLEANS:
            return _BOOLEANS[value.strip().lower()]
    if "array" in types and value is not None:
        return [value]
    return value


def _number(text: str) -> int | float | None:
    """The number that ``text`` is in JSON's notation, if it is one and finite."""
    if len(text) > _MAX_NUMBER_CHARS or not _NUMBER.fullmatch(text):
        return None
    number: int | float = json.loads(text)
    return number if abs(number) != float("inf") else None


def _coerce_properties(
    value: dict[str, Any], schema: Mapping[str, Any], root: "Validator", depth: int
) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    others = schema.get("additionalProperties")
    for name in list(value):
        part = properties.get(name, others)
        optional = name in properties and name not in required
        if value[name] is None and optional and not root.evolve(schema=part).is_valid(None):
            del value[name]
            continue
        value[name] = _coerce(value[name], part, root, depth + 1)
    return value


# --- the report ---------------------------------------------------------------------------------


def _report(tool_name: str, problems: list[Any], received: dict[str, Any]) -> str:
    problems.sort(key=lambda problem: [str(step) for step in problem.absolute_path])
    bullets = [f"  - {_describe(problem)}" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        bullets.append(f"  - and {len(problems) - _MAX_PROBLEMS} more")
    pretty = json.dumps(received, indent=2, ensure_ascii=False, default=str)
    return "\n".join(
        [
            f"The arguments for tool {tool_name} are not valid:",
            *bullets,
            "",
            "Received:",
            _cut(pretty, _MAX_RECEIVED_CHARS),
        ]
    )


def _describe(problem: Any) -> str:
    path = [str(step) for step in problem.absolute_path]
    message = problem.message
    if problem.context:  # no branch of anyOf or oneOf fits
        deepest = max(problem.context, key=lambda each: len(each.absolute_path))
        if len(deepest.absolute_path) > len(path):
            return _describe(deepest)
        if all(each.validator == "type" for each in problem.context):
            wanted = [name for each in problem.context for name in _listed(each.validator_value)]
            message = _expected(wanted, problem.instance)
    elif problem.validator == "required":
        # One problem is reported per missing name; its message starts with that name.
        missing = [name for name in problem.validator_value if message.startswith(repr(name))]
        path, message = [*path, *missing[:1]], "is required"
    elif problem.validator == "type":
        message = _expected(_listed(problem.validator_value), problem.instance)
    return f"{'.'.join(path) or 'arguments'}: {_cut(message, _MAX_PROBLEM_CHARS)}"


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else list(types)


def _expected(types: list[str], value: Any) -> str:
    return f"expected {' or '.join(dict.fromkeys(types))}, got {_shown(value)}"


def _shown(value: Any) -> str:
    """A value as JSON with its type, short."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    if value is None:
        return "null"
    kind = kinds.get(type(value), "object")
    return f"{kind} {_cut(json.dumps(value, ensure_ascii=False, default=str), 80)}"


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"
