"""The system prompt: what the model is told before the conversation.

Owns its text and order. Context files, skills and users' own prompt files are not part of it yet.
"""

from collections.abc import Iterable
from pathlib import Path

from pi_rpc.agent.tool import AgentTool

__all__ = ["build_system_prompt"]

_PREAMBLE = """\
You are a coding assistant working inside a person's editor. You help by reading and changing the \
files of their project and by running commands, with the tools you are given. The person sees your \
text and every tool call as it happens and may interrupt or redirect you at any time."""

_RULES = (
    "Say what you find in few words; the person can see the files themselves.",
    "Name files by their path, so that the editor can link to them.",
    "When a tool fails, read its message and act on it instead of repeating the same call.",
)


def build_system_prompt(
    tools: Iterable[AgentTool], cwd: Path, *, replacement: str | None = None, addendum: str = ""
) -> str:
    """The system prompt for a turn.

    ``replacement`` takes the place of everything but ``addendum`` and the working directory.
    """
    active = list(tools)
    if replacement is not None:
        sections = [replacement.strip()]
    else:
        sections = [_PREAMBLE]
        snippets = [f"- {tool.name}: {tool.snippet}" for tool in active if tool.snippet]
        if snippets:
            sections.append(_section("tools", "\n".join(snippets)))
        rules = [*_RULES, *(line for tool in active for line in tool.guidelines)]
        sections.append(_section("rules", "\n".join(f"- {line}" for line in rules)))
    if addendum.strip():
        sections.append(_section("addendum", addendum.strip()))
    sections.append(_section("cwd", str(cwd)))
    return "\n\n".join(section for section in sections if section)


def _section(tag: str, body: str) -> str:
    return f"<{tag}>\n{body}\n</{tag}>"
