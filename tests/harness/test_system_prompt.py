"""The system prompt: its sections, their order and what replaces them."""

import re
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.harness.context_files import ContextFile
from pi_rpc.harness.skills import Skill
from pi_rpc.harness.system_prompt import build_system_prompt, prompt_sections

CWD = Path("/home/ada/app")
FILES = [
    ContextFile(Path("/home/ada/AGENTS.md"), "Be kind.\n"),
    ContextFile(Path('/home/ada/"app"/AGENTS.md'), "Use tabs."),
]
SKILLS = [Skill(name="pdf", description="Reads.", path=Path("/s/pdf/SKILL.md"), scope="user")]


async def _run(*_: Any) -> ToolResult:
    raise AssertionError("not called")


def _tool(name: str, snippet: str = "", guidelines: tuple[str, ...] = ()) -> AgentTool:
    return AgentTool(
        name=name,
        label=name,
        description="",
        parameters={"type": "object"},
        execute=_run,
        snippet=snippet,
        guidelines=guidelines,
    )


TOOLS = [
    _tool("read", "reads files", ("Read first.",)),
    _tool("bash", "runs commands", ("Read first.", "Be careful.")),
    _tool("silent"),
]


def test_the_sections_stand_in_order_each_in_a_tag_of_its_name() -> None:
    sections = prompt_sections(TOOLS, CWD, addendum="More.", context_files=FILES, skills=SKILLS)
    assert list(sections) == [
        "preamble",
        "tools",
        "rules",
        "addendum",
        "project_context",
        "skills",
        "cwd",
    ]
    for name, text in list(sections.items())[1:]:
        assert text.startswith(f"<{name}>\n")
        assert text.endswith(f"\n</{name}>")
    assert not sections["preamble"].startswith("<")
    prompt = build_system_prompt(TOOLS, CWD, addendum="More.", context_files=FILES, skills=SKILLS)
    assert prompt == "\n\n".join(sections.values())


def test_what_is_empty_is_left_out() -> None:
    assert list(prompt_sections([], CWD)) == ["preamble", "rules", "cwd"]
    assert list(prompt_sections([], CWD, addendum=" \n", replacement=" ")) == ["cwd"]


def test_a_replacement_takes_the_place_of_preamble_tools_and_rules_alone() -> None:
    sections = prompt_sections(
        TOOLS, CWD, replacement="Mine.\n", addendum="More.", context_files=FILES, skills=SKILLS
    )
    assert list(sections) == ["preamble", "addendum", "project_context", "skills", "cwd"]
    assert sections["preamble"] == "Mine."
    assert sections["addendum"] == "<addendum>\nMore.\n</addendum>"
    assert sections["cwd"] == f"<cwd>\n{CWD}\n</cwd>"


def test_only_tools_with_a_snippet_are_introduced() -> None:
    assert prompt_sections(TOOLS, CWD)["tools"] == (
        "<tools>\n- read: reads files\n- bash: runs commands\n</tools>"
    )


def test_every_rule_is_given_once() -> None:
    rules = prompt_sections(TOOLS, CWD)["rules"].splitlines()
    assert rules.count("- Read first.") == 1
    assert rules.count("- Be careful.") == 1
    assert len(rules) == len(set(rules))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["bash"], True),
        (["read"], False),
        (["bash", "grep"], False),
        (["bash", "find"], False),
        (["bash", "ls"], False),
    ],
)
def test_bash_is_for_finding_files_only_where_no_tool_does_that(
    names: list[str], told: bool
) -> None:
    rules = prompt_sections([_tool(name) for name in names], CWD)["rules"]
    assert ("with bash" in rules) is told


def test_context_files_come_in_order_with_their_paths() -> None:
    text = prompt_sections([], CWD, context_files=FILES)["project_context"]
    found = re.findall(r"<instructions path=(\S+)>\n(.*?)\n</instructions>", text)
    assert found == [
        ('"/home/ada/AGENTS.md"', "Be kind."),
        ('"/home/ada/&quot;app&quot;/AGENTS.md"', "Use tabs."),
    ]


@pytest.mark.parametrize(
    ("names", "listed"), [(["read"], True), (["bash"], True), (["edit"], False)]
)
def test_skills_are_listed_only_when_a_tool_can_read_them(names: list[str], listed: bool) -> None:
    sections = prompt_sections([_tool(name) for name in names], CWD, skills=SKILLS)
    assert ("skills" in sections) is listed
    if listed:
        assert "<name>pdf</name>" in sections["skills"]
        assert f"with {names[0]}" in sections["skills"]
