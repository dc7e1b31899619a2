"""Resources: everything people write for a session beside its settings.

Owns where skills, prompt templates, ``SYSTEM.md`` and ``APPEND_SYSTEM.md`` are looked for, in which
order, and what ``/name arguments`` stands for. Does not own how each kind is read (``skills``,
``prompt_templates``, ``context_files``) nor whether a project is trusted (``trust``)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from pi_rpc.harness._selection import Selection
from pi_rpc.harness._texts import TooLargeError, read_text
from pi_rpc.harness.context_files import ContextFile, load_context_files
from pi_rpc.harness.paths import project_folder, project_skill_folders, shared_skill_folder
from pi_rpc.harness.prompt_templates import PromptTemplate, find_templates
from pi_rpc.harness.settings import ResourcePaths, Settings
from pi_rpc.harness.skills import Place, Scope, Skill, find_skills, skill_invocation

__all__ = ["Command", "CommandSource", "Expansion", "ResourceError", "Resources", "load_resources"]

CommandSource: TypeAlias = Literal["prompt", "skill"]

_COMMAND = re.compile(r"/(?P<name>\S+)(?:\s+(?P<arguments>.*))?", re.DOTALL)
_SKILL = "skill:"


class ResourceError(Exception):
    """A resource that was asked for cannot be read any more; the message names its file."""


class Command(Struct, frozen=True, kw_only=True):
    """Something that ``/name`` at the beginning of a prompt calls up."""

    name: str
    """Without the slash; a skill's begins with ``skill:``."""
    description: str
    argument_hint: str | None = None
    source: CommandSource
    path: Path


class Expansion(Struct, frozen=True, kw_only=True):
    """What a command stands for."""

    text: str
    name: str
    source: CommandSource


class Resources(Struct, frozen=True, kw_only=True):
    """What was found when it was looked for; files changed later do not change it."""

    skills: tuple[Skill, ...] = ()
    prompt_templates: tuple[PromptTemplate, ...] = ()
    context_files: tuple[ContextFile, ...] = ()
    system_prompt: str | None = None
    """Of ``SYSTEM.md``: takes the place of preamble, tools and rules."""
    append_system_prompt: str = ""
    """Of ``APPEND_SYSTEM.md``."""
    diagnostics: tuple[str, ...] = ()
    """A line about each thing that is wrong; it names the file."""
    skill_commands: bool = True
    """Skills are among the commands."""

    def commands(self) -> list[Command]:
        """What a client may offer, prompt templates first."""
        commands = [
            Command(
                name=template.name,
                description=template.description,
                argument_hint=template.argument_hint,
                source="prompt",
                path=template.path,
            )
            for template in self.prompt_templates
        ]
        if self.skill_commands:
            commands += [
                Command(
                    name=_SKILL + skill.name,
                    description=skill.description,
                    source="skill",
                    path=skill.path,
                )
                for skill in self.skills
            ]
        return commands

    def expand(self, text: str) -> Expansion | None:
        """What ``text`` stands for if it is ``/skill:name arguments`` or ``/template arguments``.

        None for anything else, an unknown name too: such a text is a prompt like any other. A
        result is not expanded again. Reads a skill's file, so it blocks; raises ``ResourceError``.
        """
        found = _COMMAND.fullmatch(text)
        if found is None:
            return None
        name, arguments = found["name"], found["arguments"] or ""
        for skill in self.skills:
            if name == _SKILL + skill.name:
                try:
                    body = skill_invocation(skill, arguments)
                except (OSError, TooLargeError) as error:
                    raise ResourceError(f"{skill.path}: {_reason(error)}") from None
                return Expansion(text=body, name=name, source="skill")
        for template in self.prompt_templates:
            if name == template.name:
                return Expansion(text=template.expanded(arguments), name=name, source="prompt")
        return None


def load_resources(
    cwd: Path, agent_dir: Path, settings: Settings, trusted: bool, *, home: Path | None = None
) -> Resources:
    """Find everything that holds in ``cwd``. Never fails; what is wrong is in ``diagnostics``.

    A project that is not ``trusted`` gives its context files and nothing else. What comes first
    wins: a project before its person, and what settings name before what lies in the usual folders.
    Blocking, and cheap where nothing exists.
    """
    cwd, agent_dir = cwd.absolute(), agent_dir.absolute()
    project = project_folder(cwd)
    problems: list[str] = []

    def places(kind: Literal["skills", "prompts"]) -> Iterator[Place]:
        skills = kind == "skills"
        if trusted:
            yield from _places(
                settings.project_skills if skills else settings.project_prompts,
                "project",
                project / kind,
                project_skill_folders(cwd, home) if skills else [],
            )
        yield from _places(
            settings.skills if skills else settings.prompts,
            "user",
            agent_dir / kind,
            [shared_skill_folder(home)] if skills else [],
        )

    folders = [project, agent_dir] if trusted else [agent_dir]
    context_files = load_context_files(cwd, agent_dir, problems, trusted=trusted)
    system_prompt = _prompt_file("SYSTEM.md", folders, problems)
    addendum = _prompt_file("APPEND_SYSTEM.md", folders, problems)
    skills = find_skills(places("skills"), problems)
    templates = find_templates(places("prompts"), problems)
    return Resources(
        skills=tuple(skills),
        prompt_templates=tuple(templates),
        context_files=tuple(context_files),
        system_prompt=system_prompt,
        append_system_prompt=addendum or "",
        diagnostics=tuple(problems),
        skill_commands=settings.enable_skill_commands,
    )


def _places(written: ResourcePaths, scope: Scope, own: Path, shared: list[Path]) -> Iterator[Place]:
    """Where to look in one scope: what settings name, pi's folder, and those of every agent."""
    selection = Selection(written.entries, written.base)
    for path in selection.paths():
        yield Place(path=path, scope=scope, selection=selection, named=True)
    yield Place(path=own, scope=scope, selection=selection)
    for folder in shared:
        yield Place(path=folder, scope=scope, selection=selection, loose_files=False)


def _prompt_file(name: str, folders: list[Path], problems: list[str]) -> str | None:
    """The text of the first of ``folders`` that has the file; None where it is empty too."""
    for folder in folders:
        path = folder / name
        try:
            return read_text(path).strip() or None
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, TooLargeError) as error:
            problems.append(f"{path}: {_reason(error)}; ignored")
    return None


def _reason(error: OSError | TooLargeError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror}"
    return str(error)
