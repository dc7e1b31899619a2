"""Reading JSON that people write: forgiving, and exact about what is wrong.

Owns the reading of a file, the naming of problems, and dropping what does not fit a pydantic model
so that the rest still counts; and ``WatchedFile``, which reads again when a file has changed. Does
not know what is in any file."""

import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pi_rpc._os.files import read_regular

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["MAX_JSON_BYTES", "WatchedFile", "fitting", "read_object"]

MAX_JSON_BYTES = 10 * 1024 * 1024
"""A file of settings, models, keys or decisions above this is a mistake."""

_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*")
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")

_Value = TypeVar("_Value")
_Model = TypeVar("_Model", bound="BaseModel")
_Path: TypeAlias = tuple[str | int, ...]

_PLAIN = {
    "model_type": "Input should be an object",
    "dict_type": "Input should be an object",
    "missing": "a required key is missing",
}
"""Words for people, where pydantic's name our classes."""


class WatchedFile(Generic[_Value]):
    """What a file says, read when first asked for and again once the file has changed."""

    def __init__(self, path: Path, load: Callable[[Path], _Value]) -> None:
        self.path = path
        self._load = load
        self._stamp: object = None
        self._value: _Value | None = None

    def current(self) -> _Value:
        """What ``load`` made of the file as it is now."""
        try:
            stat = self.path.stat()
            stamp: object = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError:
            stamp = "absent"
        if self._value is None or stamp != self._stamp:
            self._value = self._load(self.path)
            self._stamp = stamp
        return self._value


def read_object(path: Path, *, commented: bool = False) -> tuple[dict[str, Any] | None, list[str]]:
    """The JSON object in ``path`` and what is wrong with it.

    None when there is no such file (no problem) or it holds no JSON object (one problem). Nothing
    but a regular file of at most ``MAX_JSON_BYTES`` is read. ``commented`` allows ``//`` comments
    and trailing commas.
    """
    try:
        raw, left_out = read_regular(path, MAX_JSON_BYTES)
        if left_out:
            limit = MAX_JSON_BYTES // 2**20
            return None, [f"{path}: larger than {limit} MiB; the file is ignored"]
        text = raw.decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None, []
    except UnicodeDecodeError as error:
        return None, [f"{path}: not UTF-8 text (byte {error.start}); the file is ignored"]
    except OSError as error:
        return None, [f"{path}: cannot be read: {error.strerror}"]
    try:
        value = json.loads(_plain(text) if commented else text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        return None, [f"{path}: not valid JSON ({place}: {error.msg}); the file is ignored"]
    except RecursionError:
        return None, [f"{path}: nested too deeply; the file is ignored"]
    except ValueError:
        return None, [f"{path}: holds a number of far too many digits; the file is ignored"]
    if not isinstance(value, dict):
        return None, [f"{path}: must hold a JSON object; the file is ignored"]
    return value, []


def _plain(text: str) -> str:
    """``text`` with blanks in place of comments and trailing commas, so that places stay true."""
    for extra in (_COMMENT, _TRAILING_COMMA):
        text = extra.sub(
            lambda found: found[0] if found[0].startswith('"') else " " * len(found[0]), text
        )
    return text


def fitting(model: type[_Model], raw: dict[str, Any], path: Path) -> tuple[_Model, list[str]]:
    """``raw`` as ``model``, without the values that do not fit it, and a line about each of those.

    Where a required field is missing, what should hold it is dropped. The top level of ``model``
    must have no required field. Problems say where and what, never the value, which may be a key.
    """
    from pydantic import ValidationError

    problems: list[str] = []
    while True:
        try:
            return model.model_validate(raw), problems
        except ValidationError as failure:
            doomed: dict[_Path, str] = {}
            for error in failure.errors(include_url=False, include_context=False):
                where = _deepest(raw, error["loc"])
                missing = f" ({error['loc'][-1]})" if error["type"] == "missing" else ""
                reason = _PLAIN.get(error["type"], error["msg"])
                doomed.setdefault(where, f"{reason}{missing}")
        if not problems:  # what is wrong later only follows from what was dropped
            problems = [
                f"{path}: {_spelled(where)}: {reason}; ignored" for where, reason in doomed.items()
            ]
        # What no key is to blame for is the fault of all of them.
        raw = {} if () in doomed else _without(raw, doomed)


def _deepest(raw: Any, location: tuple[str | int, ...]) -> _Path:
    """The longest beginning of ``location`` that exists in ``raw``.

    pydantic's locations go on into what is missing, and into the names of union members.
    """
    value, found = raw, []
    for step in location:
        inside = isinstance(value, dict) and step in value
        inside = inside or (isinstance(value, list) and isinstance(step, int) and step < len(value))
        if not inside:
            break
        value = value[step]
        found.append(step)
    return tuple(found)


def _without(value: Any, doomed: Collection[_Path]) -> Any:
    """``value`` without what is at the paths ``doomed``; all that is beside them is shared."""
    below: dict[str | int, list[_Path]] = {}
    for first, *rest in doomed:
        below.setdefault(first, []).append(tuple(rest))
    gone = {step for step, paths in below.items() if () in paths}
    steps = enumerate(value) if isinstance(value, list) else value.items()
    kept = {
        step: _without(each, below[step]) if step in below else each
        for step, each in steps
        if step not in gone
    }
    return list(kept.values()) if isinstance(value, list) else kept


def _spelled(where: _Path) -> str:
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "the file"
