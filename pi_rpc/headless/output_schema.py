"""Answers that are JSON of a given shape.

Owns reading the schema, what the model is told of it, and checking an answer. Does not own when it
is asked again (``pi_rpc.headless.job``).
"""

import json
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pi_rpc._os.files import read_regular
from pi_rpc.headless.exit_codes import UsageError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["OutputSchema", "UnfitError"]

_MAX_BYTES = 1024 * 1024
_MAX_PROBLEMS = 10
_BRIEF = 300
_PATIENCE_S = 20.0
"""More than any answer takes that is checked at all."""
_CHECK = "pi_rpc.headless.output_schema:check"
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class UnfitError(Exception):
    """An answer does not match; the text says why, for people and for the model."""


class OutputSchema:
    """What an answer has to look like."""

    def __init__(self, path: Path) -> None:
        """Reads the schema; raises ``UsageError``. Blocks, and imports what checking needs."""
        self._path = path
        self._schema = _read(path)
        _check_schema(self._schema, path)

    @property
    def instructions(self) -> str:
        """What the model is told."""
        return (
            "Your final answer is read by a program. It must be one JSON value that matches the"
            " JSON Schema below, and nothing else: no words before or after it, no code fence.\n\n"
            + json.dumps(self._schema, ensure_ascii=False)
        )

    async def value_of(self, answer: str) -> Any:
        """The answer's value; raises ``UnfitError``, and ``UsageError`` where the schema cannot be
        applied. A code fence around the answer is forgiven."""
        from pi_rpc.tools._apart import ApartError, run_apart

        text = answer.strip()
        if (fenced := _FENCED.fullmatch(text)) is not None:
            text = fenced[1]
        try:
            # Not the json module, which takes for JSON what cannot be written as such again.
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError) as error:
            raise UnfitError(f"the answer is not JSON: {error}") from None
        request = {"schema": self._schema, "value": value}
        try:
            # A pattern may take years, and nothing ends one in this process.
            found, _ = await run_apart(_CHECK, request, b"", time_limit_s=_PATIENCE_S)
        except ApartError as error:
            raise UnfitError(f"the answer cannot be checked: {error}") from error
        if reason := found["inapplicable"]:
            raise UsageError(f"--output-schema {self._path} cannot be applied: {reason}")
        if problems := found["problems"]:
            raise UnfitError(f"the answer does not match: {'; '.join(problems)}")
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


def _check_schema(schema: Any, path: Path) -> None:
    from jsonschema.exceptions import SchemaError

    try:
        _kind(schema).check_schema(schema)
        return
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "its root"
        said = f"{_brief(error.message)} (at {where})"
    except RecursionError:
        said = "it is nested too deeply"
    raise UsageError(f"--output-schema {path} is no JSON Schema: {said}")


def _kind(schema: Any) -> "type[Validator]":
    from jsonschema.validators import Draft202012Validator, validator_for

    # Only a text names a kind; of anything else the usual one says what is wrong.
    is_named = isinstance(schema, Mapping) and isinstance(schema.get("$schema"), str)
    return validator_for(schema, default=Draft202012Validator) if is_named else Draft202012Validator


def check(request: Mapping[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
    """What is wrong with a ``value`` for a ``schema``; in a process of its own."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    del content
    schema = request["schema"]
    # An empty registry: no reference is ever fetched.
    validator = _kind(schema)(schema, registry=Registry())
    found: dict[str, Any] = {"inapplicable": "", "problems": []}
    try:
        errors = islice(validator.iter_errors(request["value"]), _MAX_PROBLEMS)
        found["problems"] = [_problem(each) for each in errors]
    except Unresolvable as error:
        # Only found when it is followed.
        found["inapplicable"] = f"the reference {_brief(str(error.ref))!r} leads nowhere"
    except RecursionError:
        found["problems"] = ["it is nested too deeply"]
    return found, b""


def _problem(error: Any) -> str:
    where = "/".join(map(str, error.absolute_path))
    return f"{where or 'the value'}: {_brief(error.message)}"


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"
