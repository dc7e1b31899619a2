"""Prompt templates: Markdown files that a person calls up as ``/name arguments``.

Owns finding them, the language of their arguments and its substitutions. Does not own where to look
(``pi_rpc.harness.resources``)."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from pi_rpc._os.imports import one_at_a_time
from pi_rpc.harness._looking import exists, is_file, is_folder
from pi_rpc.harness._selection import IgnoreRules
from pi_rpc.harness._texts import TooLargeError, read_text
from pi_rpc.harness._written import fitting
from pi_rpc.harness.front_matter import FrontMatterError, parse_front_matter
from pi_rpc.harness.skills import Place, Scope

__all__ = ["PromptTemplate", "find_templates", "parse_arguments", "substitute"]

_MAX_DEFAULT_DESCRIPTION = 60


class PromptTemplate(Struct, frozen=True, kw_only=True):
    """A template that can be used."""

    name: str
    """The file's name without ``.md``."""
    description: str
    """As written, else the beginning of the first line; may be empty."""
    argument_hint: str | None = None
    body: str
    path: Path
    scope: Scope

    def expanded(self, arguments: str) -> str:
        """The message that ``/name arguments`` stands for."""
        return substitute(self.body, parse_arguments(arguments))


def find_templates(places: Iterable[Place], problems: list[str]) -> list[PromptTemplate]:
    """The templates in ``places``, each name once: the first place that has it wins.

    Adds a line to ``problems`` for each thing wrong. Folders are not searched below. Blocking.
    """
    taken: dict[str, PromptTemplate] = {}
    seen: set[str] = set()
    collisions: list[str] = []
    for place in places:
        for path in _files(place, problems):
            real = os.path.realpath(path)
            if real in seen or not place.selection.allows(path):
                continue
            seen.add(real)
            template = _load(path, place.scope, problems)
            if template is None:
                continue
            if (first := taken.get(template.name)) is not None:
                collisions.append(
                    f"{path}: a prompt template named {template.name} is already in {first.path};"
                    " ignored"
                )
            else:
                taken[template.name] = template
    problems += collisions
    return list(taken.values())


def parse_arguments(text: str) -> list[str]:
    """The arguments in ``text``, which white space separates.

    A quote, ``"`` or ``'``, counts only at the beginning of an argument; the argument then goes on
    to where it stops being quoted and white space follows. Inside, a backslash before the same
    quote keeps it as text; any other backslash is text. A quote that is never closed is text.
    ``""`` is an empty argument.
    """
    arguments: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        argument, at = _argument(text, at)
        arguments.append(argument)
    return arguments


def _argument(text: str, at: int) -> tuple[str, int]:
    argument = ""
    if text[at] in "\"'":
        quote = text[at]
        quoted = re.compile(rf"{quote}((?:\\{quote}|[^{quote}])*+){quote}").match(text, at)
        if quoted is not None:
            argument, at = quoted[1].replace("\\" + quote, quote), quoted.end()
    start = at
    while at < len(text) and not text[at].isspace():
        at += 1
    return argument + text[start:at], at


_BRACED = re.compile(
    r"\$\{(?P<target>[0-9]+|ARGUMENTS|@):-(?P<default>[^}]*)\}"
    r"|\$\{@:(?P<start>[0-9]+)(?::(?P<length>[0-9]+))?\}"
    r"|\$(?P<plain>ARGUMENTS|@|[0-9]+)"
)
_PLAIN = re.compile(r"\$(?P<plain>ARGUMENTS|@|[0-9]+)")


def substitute(body: str, arguments: Sequence[str]) -> str:
    """``body`` with its placeholders filled in, in one pass.

    ``$1`` … an argument; ``$@`` and ``$ARGUMENTS`` all of them, with spaces between;
    ``${1:-text}``, ``${@:-text}`` and ``${ARGUMENTS:-text}`` the same, or the text where that is
    missing or empty; ``${@:N}`` those from the Nth on and ``${@:N:L}`` L of them. What is missing
    is empty. Neither arguments nor defaults are looked at for placeholders again.
    """

    def value(target: str) -> str:
        if target in {"@", "ARGUMENTS"}:
            return " ".join(arguments)
        at = _number(target) - 1
        return arguments[at] if 0 <= at < len(arguments) else ""

    def filled(found: re.Match[str]) -> str:
        if found["target"] is not None:
            return value(found["target"]) or found["default"]
        if found["start"] is not None:
            start = max(_number(found["start"]) - 1, 0)
            end = start + _number(found["length"]) if found["length"] is not None else None
            return " ".join(arguments[start:end])
        return value(found["plain"])

    # Behind the last brace none is looked for: each that is opened there would search to the end.
    last = body.rfind("}") + 1
    rest = _PLAIN.sub(lambda found: value(found["plain"]), body[last:])
    return _BRACED.sub(filled, body[:last]) + rest


def _number(digits: str) -> int:
    """``digits`` as a number; one with more digits than any list has items is just large."""
    return int(digits) if len(digits) < 10 else 10**9


def _files(place: Place, problems: list[str]) -> list[Path]:
    if place.named and place.path.suffix == ".md" and is_file(place.path):
        return [place.path]
    if not is_folder(place.path):
        if place.named:
            what = "is no Markdown file" if exists(place.path) else "does not exist"
            problems.append(f"{place.path}: named in prompts but {what}; ignored")
        return []
    try:
        with os.scandir(place.path) as scan:
            names = sorted(entry.name for entry in scan if entry.name.endswith(".md"))
    except OSError as error:
        problems.append(f"{place.path}: cannot be read: {error.strerror}; ignored")
        return []
    rules = IgnoreRules().within(place.path, "")
    return [
        place.path / name
        for name in names
        if not name.startswith(".")
        and is_file(place.path / name)
        and not rules.ignores(name, is_folder=False)
    ]


def _load(path: Path, scope: Scope, problems: list[str]) -> PromptTemplate | None:
    try:
        raw, body = parse_front_matter(read_text(path))
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}; ignored")
        return None
    except (FrontMatterError, TooLargeError) as error:
        problems.append(f"{path}: {error}; ignored")
        return None
    description, hint = None, None
    if raw:
        with one_at_a_time:
            from pi_rpc.harness._front_matter_keys import TemplateKeys

        keys, unfit = fitting(TemplateKeys, raw, path)
        problems += unfit
        description, hint = keys.description, keys.argument_hint
    return PromptTemplate(
        name=path.stem,
        description=(description or "").strip() or _beginning(body),
        argument_hint=hint or None,
        body=body,
        path=path,
        scope=scope,
    )


def _beginning(body: str) -> str:
    line = next((line.strip() for line in body.split("\n") if line.strip()), "")
    return (
        line if len(line) <= _MAX_DEFAULT_DESCRIPTION else f"{line[:_MAX_DEFAULT_DESCRIPTION]}..."
    )
