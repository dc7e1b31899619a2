"""Skills: instructions a model reads when a task calls for them (agentskills.io).

Owns finding ``SKILL.md`` files, what is wrong with them, how they are listed for a model and what
``/skill:name`` says. Does not own where to look (``pi_rpc.harness.resources``). Nothing wrong in a
skill is fatal; every problem is a line that names the file."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from pi_rpc._os.imports import one_at_a_time
from pi_rpc.harness._looking import exists, is_file, is_folder
from pi_rpc.harness._selection import IgnoreRules, Selection
from pi_rpc.harness._texts import TooLargeError, read_text
from pi_rpc.harness._written import fitting
from pi_rpc.harness.front_matter import FrontMatterError, parse_front_matter, split_front_matter
from pi_rpc.harness.markup import escaped

__all__ = ["Place", "Scope", "Skill", "find_skills", "skill_invocation", "skill_listing"]

Scope: TypeAlias = Literal["project", "user"]

_FILE_NAME = "SKILL.md"
_MAX_NAME = 64
_MAX_DESCRIPTION = 1024
_MAX_FOLDERS = 2000
"""Of one place: a link to a whole disk is a mistake that must not be walked."""


class Skill(Struct, frozen=True, kw_only=True):
    """A skill that can be used."""

    name: str
    description: str
    path: Path
    """Its Markdown file."""
    scope: Scope
    disable_model_invocation: bool = False
    """Only a person may call it up; the model is not told of it."""

    @property
    def folder(self) -> Path:
        """What paths inside the skill are relative to."""
        return self.path.parent


class Place(Struct, frozen=True, kw_only=True):
    """Somewhere to look for resources."""

    path: Path
    """A folder, or, when settings name it, a file too."""
    scope: Scope
    selection: Selection
    """What of it settings leave out."""
    named: bool = False
    """A person named it, so it should exist."""
    loose_files: bool = True
    """Markdown files right in the folder are looked at too."""


def find_skills(places: Iterable[Place], problems: list[str]) -> list[Skill]:
    """The skills in ``places``, each name once: the first place that has it wins.

    Adds a line to ``problems`` for each thing wrong. A file that is reached twice, by a link, is
    taken once and silently. Blocking.
    """
    taken: dict[str, Skill] = {}
    seen: set[str] = set()
    collisions: list[str] = []
    for place in places:
        for path, declared in _files(place, problems):
            real = os.path.realpath(path)
            if real in seen or not place.selection.allows(path):
                continue
            seen.add(real)
            skill = _load(path, place, problems, declared=declared)
            if skill is None:
                continue
            if (first := taken.get(skill.name)) is not None:
                collisions.append(
                    f"{path}: a skill named {skill.name} is already in {first.path}; ignored"
                )
            else:
                taken[skill.name] = skill
    problems += collisions
    return list(taken.values())


def skill_listing(skills: Sequence[Skill], tool_names: Iterable[str]) -> str:
    """What the model is told of ``skills``; empty when it could not read one.

    ``tool_names`` are the active tools: ``read`` is to be used for it, else ``bash``.
    """
    names = set(tool_names)
    reader = next((name for name in ("read", "bash") if name in names), None)
    offered = [skill for skill in skills if not skill.disable_model_invocation]
    if reader is None or not offered:
        return ""
    entries = [
        f"<skill>\n<name>{_quoted(skill.name)}</name>\n"
        f"<description>{_quoted(skill.description)}</description>\n"
        f"<location>{_quoted(str(skill.path))}</location>\n</skill>"
        for skill in offered
    ]
    introduction = (
        "Each skill below is a file with instructions for one kind of task. When a task fits a"
        f" description, read that file with {reader} before you begin, and follow it. Relative"
        " paths inside a skill start at the folder of its file; make them absolute in tool calls."
    )
    listed = ["<available_skills>", *entries, "</available_skills>"]
    return "\n".join([introduction, *listed])


def skill_invocation(skill: Skill, arguments: str = "") -> str:
    """The message that ``/skill:name arguments`` stands for, read from the file as it is now.

    Raises ``OSError`` and ``pi_rpc.harness._texts.TooLargeError``. Blocking.
    """
    body = split_front_matter(read_text(skill.path))[1].strip()
    text = (
        f'<skill name="{_quoted(skill.name)}" location="{_quoted(str(skill.path))}">\n'
        f"References are relative to {skill.folder}.\n\n{body}\n</skill>"
    )
    return f"{text}\n\n{arguments.strip()}" if arguments.strip() else text


def _quoted(text: str) -> str:
    return escaped(text)


def _files(place: Place, problems: list[str]) -> Iterable[tuple[Path, bool]]:
    """Candidates in ``place``, and whether each is declared a skill by its name."""
    if is_folder(place.path):
        yield from _Walk(place, problems).files(place.path, "", IgnoreRules())
    elif not place.named:
        return
    elif is_file(place.path) and place.path.suffix == ".md":
        yield place.path, True
    else:
        what = "is no Markdown file" if exists(place.path) else "does not exist"
        problems.append(f"{place.path}: named in skills but {what}; ignored")


class _Walk:
    """One walk below one place."""

    def __init__(self, place: Place, problems: list[str]) -> None:
        self._loose_files = place.loose_files
        self._root = place.path
        self._problems = problems
        self._visited: set[str] = set()
        self._full = False

    def files(self, folder: Path, prefix: str, rules: IgnoreRules) -> Iterable[tuple[Path, bool]]:
        """Candidates in ``folder``, which is ``prefix`` (empty or ending in a slash) below."""
        real = os.path.realpath(folder)
        if real in self._visited or self._stopped():
            return
        self._visited.add(real)
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            self._problems.append(f"{folder}: cannot be read: {error.strerror}; ignored")
            return
        rules = rules.within(folder, prefix)
        own = next((entry for entry in entries if entry.name == _FILE_NAME), None)
        if (
            own is not None
            and _is_file(own)
            and not rules.ignores(prefix + _FILE_NAME, is_folder=False)
        ):
            yield folder / _FILE_NAME, True
            return
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "node_modules":
                continue
            below = prefix + entry.name
            if _is_folder(entry):
                if not rules.ignores(below, is_folder=True):
                    yield from self.files(folder / entry.name, below + "/", rules)
            elif (
                not prefix
                and self._loose_files
                and entry.name.endswith(".md")
                and _is_file(entry)
                and not rules.ignores(below, is_folder=False)
            ):
                yield folder / entry.name, False

    def _stopped(self) -> bool:
        if len(self._visited) < _MAX_FOLDERS:
            return False
        if not self._full:
            self._full = True
            self._problems.append(
                f"{self._root}: more than {_MAX_FOLDERS} folders; the rest is not searched"
            )
        return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _load(path: Path, place: Place, problems: list[str], *, declared: bool) -> Skill | None:
    """The skill in ``path``; None, and a problem where it was ``declared`` one, if it is none."""
    try:
        raw, _ = parse_front_matter(read_text(path))
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}; ignored")
        return None
    except (FrontMatterError, TooLargeError) as error:
        if declared:
            problems.append(f"{path}: {error}; ignored")
        return None
    if not raw and not declared:
        return None
    with one_at_a_time:
        from pi_rpc.harness._front_matter_keys import SkillKeys

    keys, unfit = fitting(SkillKeys, raw, path)
    description = (keys.description or "").strip()
    if not description:
        if declared:
            problems += unfit or [f"{path}: a description is required; ignored"]
        return None
    problems += unfit
    name = keys.name or (path.parent.name if path.name == _FILE_NAME else path.stem)
    problems += [f"{path}: {complaint}" for complaint in _complaints(name, description)]
    return Skill(
        name=name,
        description=description,
        path=path,
        scope=place.scope,
        disable_model_invocation=keys.disable_model_invocation,
    )


def _complaints(name: str, description: str) -> Iterable[str]:
    """What agentskills.io forbids and we let pass."""
    if len(name) > _MAX_NAME:
        yield f"the name is longer than {_MAX_NAME} characters ({len(name)})"
    if not re.fullmatch(r"[a-z0-9-]+", name):
        yield "the name should have only lowercase letters, digits and hyphens"
    elif name.startswith("-") or name.endswith("-") or "--" in name:
        yield "the name should not begin or end with a hyphen, nor have two in a row"
    if len(description) > _MAX_DESCRIPTION:
        yield f"the description is longer than {_MAX_DESCRIPTION} characters ({len(description)})"
