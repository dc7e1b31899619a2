"""The system prompt: what the model is told before the conversation.

Owns its text, its sections and their order. Does not find what goes into it: context files, skills
and users' own prompt files come from ``pi_rpc.harness.resources``.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness.markup import escaped

if TYPE_CHECKING:
    from pi_rpc.harness.context_files import ContextFile
    from pi_rpc.harness.skills import Skill

__all__ = ["build_system_prompt", "prompt_sections"]

_PREAMBLE = """\
You are a coding assistant working inside a person's editor. You help by reading and changing the \
files of their project and by running commands, with the tools you are given. The person sees your \
text and every tool call as it happens and may interrupt or redirect you at any time."""

_RULES = (
    "Say what you find in few words; the person can see the files themselves.",
    "Name files by their path, so that the editor can link to them.",
    "When a tool fails, read its message and act on it instead of repeating the same call.",
)

_BASH_RULE = "List and search files with bash (ls, find, grep or rg)."
_SEARCH_TOOLS = frozenset({"grep", "find", "ls"})

_CONTEXT_INTRODUCTION = (
    "Instructions of the person and of this project. The later ones are closer to the working"
    " directory and count for more where they disagree."
)


def build_system_prompt(
    tools: Iterable[AgentTool],
    cwd: Path,
    *,
    replacement: str | None = None,
    addendum: str = "",
    context_files: Sequence["ContextFile"] = (),
    skills: Sequence["Skill"] = (),
) -> str:
    """The system prompt for a turn; see ``prompt_sections``."""
    sections = prompt_sections(
        tools,
        cwd,
        replacement=replacement,
        addendum=addendum,
        context_files=context_files,
        skills=skills,
    )
    return "\n\n".join(sections.values())


def prompt_sections(
    tools: Iterable[AgentTool],
    cwd: Path,
    *,
    replacement: str | None = None,
    addendum: str = "",
    context_files: Sequence["ContextFile"] = (),
    skills: Sequence["Skill"] = (),
) -> dict[str, str]:
    """The sections by name, in order: preamble, tools, rules, addendum, project_context, skills,
    cwd. Each but the preamble stands in a tag of its name; an empty one is left out.

    ``replacement`` takes the place of preamble, tools and rules. ``skills`` are listed only if one
    of ``tools``, the active ones, can read them.
    """
    active = list(tools)
    sections: dict[str, str] = {}
    if replacement is not None:
        bodies = {"preamble": replacement}
    else:
        snippets = [f"- {tool.name}: {tool.snippet}" for tool in active if tool.snippet]
        bodies = {"preamble": _PREAMBLE, "tools": "\n".join(snippets), "rules": _rules(active)}
    bodies["addendum"] = addendum
    bodies["project_context"] = _project_context(context_files)
    bodies["skills"] = _listing(skills, active)
    bodies["cwd"] = str(cwd)
    for name, body in bodies.items():
        if text := body.strip():
            sections[name] = text if name == "preamble" else f"<{name}>\n{text}\n</{name}>"
    return sections


def _rules(active: list[AgentTool]) -> str:
    names = {tool.name for tool in active}
    rules = list(_RULES)
    if "bash" in names and not names & _SEARCH_TOOLS:
        rules.append(_BASH_RULE)
    rules += [line.strip() for tool in active for line in tool.guidelines]
    return "\n".join(f"- {line}" for line in dict.fromkeys(rules) if line)


def _project_context(files: Sequence["ContextFile"]) -> str:
    if not files:
        return ""
    texts = [
        f'<instructions path="{escaped(str(file.path))}">\n{file.text.strip()}\n</instructions>'
        for file in files
    ]
    return "\n\n".join((_CONTEXT_INTRODUCTION, *texts))


def _listing(skills: Sequence["Skill"], active: list[AgentTool]) -> str:
    if not skills:
        return ""
    from pi_rpc.harness.skills import skill_listing

    return skill_listing(skills, [tool.name for tool in active])
