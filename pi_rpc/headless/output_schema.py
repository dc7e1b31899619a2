"""Answers that are JSON of a given shape.

Owns reading the schema, what the model is told of it, and checking an answer. Does not own when it
is asked again (``pi_rpc.headless.job``).
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pi_rpc._os.files import read_regular
from pi_rpc.headless.exit_codes import UsageError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["OutputSchema", "UnfitError"]

_MAX_BYTES = 1024 * 1024
_MAX_PROBLEMS = 10
_BRIEF = 300
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class UnfitError(Exception):
    """An answer does not match; the text says why, for people and for the model."""


class OutputSchema:
    """What an answer has to look like."""

    def __init__(self, path: Path) -> None:
        """Reads the schema; raises ``UsageError``. Blocks, and imports what checking needs."""
        self._schema = _read(path)
        self._validator = _validator(self._schema, path)

    @property
    def instructions(self) -> str:
        """What the model is told."""
        return (
            "Your final answer is read by a program. It must be one JSON value that matches the"
            " JSON Schema below, and nothing else: no words before or after it, no code fence.\n\n"
            + json.dumps(self._schema, ensure_ascii=False)
        )

    def value_of(self, answer: str) -> Any:
        """The answer's value; raises ``UnfitError``. A code fence around it is forgiven."""
        text = answer.strip()
        if (fenced := _FENCED.fullmatch(text)) is not None:
            text = fenced[1]
        try:
            value = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise UnfitError(f"the answer is not JSON: {error}") from None
        try:
            problems = [_problem(each) for each in self._validator.iter_errors(value)]
        except Exception as error:
            # A reference that leads nowhere is only found when it is followed.
            raise UnfitError(f"the schema cannot be applied: {_brief(str(error))}") from error
        if problems:
            raise UnfitError("the answer does not match: " + "; ".join(problems[:_MAX_PROBLEMS]))
        return value

    @staticmethod
    def repair(problem: UnfitError) -> str:
        """What the model is asked after a wrong answer."""
        return (
            f"Your answer cannot be used: {problem}. Answer again with the corrected JSON value and"
            " nothing else. Call no tools."
        )


def _read(path: Path) -> Any:
    try:
        data, left_out = read_regular(path, _MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--output-schema {path} cannot be read: {reason}") from None
    if left_out:
        raise UsageError(f"--output-schema {path} is larger than {_MAX_BYTES // 1024} KiB")
    try:
        schema = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--output-schema {path} is not JSON: {error}") from None
    if not isinstance(schema, Mapping | bool):
        raise UsageError(f"--output-schema {path} is no JSON Schema: expected an object")
    return schema


def _validator(schema: Any, path: Path) -> "Validator":
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "its root"
        said = f"{_brief(error.message)} (at {where})"
        raise UsageError(f"--output-schema {path} is no JSON Schema: {said}") from None
    # An empty registry: no reference is ever fetched.
    validator: Validator = kind(schema, registry=Registry())
    return validator


def _problem(error: Any) -> str:
    where = "/".join(map(str, error.absolute_path))
    return f"{where or 'the value'}: {_brief(error.message)}"


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
