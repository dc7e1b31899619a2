"""What people write beside the code, over the real process: whether it reaches the model."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import Editor, editor
from tests.e2e.provider import MODEL, Provider, provider

pytestmark = pytest.mark.anyio

EXTENSION = "def setup(api):\n    api.command('{0}', 'Does {0}', lambda arguments: None)\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def skill(folder: Path, name: str, text: str) -> None:
    write(folder / "skills" / name / "SKILL.md", f"---\nname: {name}\ndescription: D\n---\n{text}")


@asynccontextmanager
async def working(home: Path, cwd: Path) -> AsyncIterator[tuple[Editor, Provider]]:
    """An editor in ``cwd``, and the provider that its model is asked of."""
    cwd.mkdir(parents=True, exist_ok=True)
    with provider(home) as asked:
        environ = {"HOME": str(home.parent)}
        async with editor(home, (), "--model", MODEL, cwd=cwd, environ=environ) as client:
            yield client, asked


async def prompt(client: Editor, message: str, **more: Any) -> Any:
    return await client.request("prompt", {"message": message, **more})


async def names(client: Editor) -> list[str]:
    listed = await client.request("command/list")
    return [each["name"] for each in listed["commands"]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home" / "agent"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    return tmp_path / "work" / "engine"


async def test_templates_and_skills_are_expanded_for_every_verb_that_says_something(
    home: Path, cwd: Path
) -> None:
    write(home / "prompts" / "greet.md", "Say hello to $1 and ${@:2}.")
    skill(home, "brew", "Boil water.")
    async with working(home, cwd) as (client, asked):
        result = await prompt(client, "/greet Ada 'Grace Hopper' Mary")
        assert (result["disposition"], result["text"]) == ("completed", "yes")
        assert asked.said[-1].strip() == "Say hello to Ada and Grace Hopper Mary."
        await prompt(client, "/skill:brew twice")
        assert "Boil water." in asked.said[-1]
        assert asked.said[-1].rstrip().endswith("twice")
        settled = len([each for each in client.events if each["type"] == "agent_settled"])
        await client.request("steer", {"message": "/greet Jean"})
        await client.until("agent_settled", count=settled + 1)
        assert asked.said[-1].strip() == "Say hello to Jean and ."
        await prompt(client, "/nothing here")
        assert asked.said[-1] == "/nothing here"


async def test_commands_are_listed_by_what_a_prompt_with_their_name_does(
    home: Path, cwd: Path
) -> None:
    greet = "---\ndescription: Greets\nargument-hint: <who>\n---\nHello $1."
    write(home / "prompts" / "greet.md", greet)
    write(home / "prompts" / "note.md", "Never seen.")
    skill(home, "brew", "Boil water.")
    write(home / "extensions-py" / "notes.py", EXTENSION.format("note"))
    async with working(home, cwd) as (client, asked):
        listed = await client.request("command/list")
        assert listed["commands"] == [
            {
                "name": "greet",
                "source": "prompt",
                "description": "Greets",
                "argumentHint": "<who>",
            },
            {"name": "note", "source": "extension", "description": "Does note"},
            {"name": "skill:brew", "source": "skill", "description": "D"},
        ]
        handled = await prompt(client, "/note that")
        assert handled["disposition"] == "handled"
        assert asked.requests == []
        assert await names(client) == ["greet", "note", "skill:brew"]


async def test_a_command_that_an_extension_adds_later_is_told(home: Path, cwd: Path) -> None:
    source = (
        "def setup(api):\n"
        "    def add(name):\n"
        "        api.command(name, 'Late', lambda arguments: None)\n"
        "    api.command('add', 'Adds one', add)\n"
    )
    write(home / "extensions-py" / "adder.py", source)
    async with working(home, cwd) as (client, _):
        assert await names(client) == ["add"]
        assert "commands_changed" not in client.types
        await prompt(client, "/add late")
        await client.until("commands_changed")
        assert await names(client) == ["add", "late"]


async def test_context_files_of_person_ancestors_and_project_reach_the_model(
    home: Path, cwd: Path
) -> None:
    write(home / "AGENTS.md", "rule of the person")
    write(cwd.parent / "AGENTS.md", "rule of the ancestor")
    write(cwd / "AGENTS.md", "rule of the project")
    async with working(home, cwd) as (client, asked):
        await prompt(client, "go")
        places = [
            asked.system_prompt.index(f"rule of the {who}")
            for who in ("person", "ancestor", "project")
        ]
        assert places == sorted(places)


@pytest.mark.parametrize("trusted", [False, True])
async def test_prompt_files_replace_and_extend_the_system_prompt(
    home: Path, cwd: Path, trusted: bool
) -> None:
    for folder, who in ((home, "person"), (cwd / ".pi", "project")):
        write(folder / "SYSTEM.md", f"You serve the {who}.")
        write(folder / "APPEND_SYSTEM.md", f"Obey the {who}.")
    write(cwd / "AGENTS.md", "rule of the project")
    if trusted:
        write(home / "trust.json", json.dumps({str(cwd.resolve()): True}))
    async with working(home, cwd) as (client, asked):
        await prompt(client, "go")
        who, other = ("project", "person") if trusted else ("person", "project")
        system = asked.system_prompt
        assert system.startswith(f"You serve the {who}.")
        assert f"Obey the {who}." in system
        assert f"the {other}." not in system
        assert "rule of the project" in system


async def test_what_a_project_brings_along_waits_for_trust_and_goes_with_it(
    home: Path, cwd: Path
) -> None:
    own = cwd / ".pi"
    write(own / "prompts" / "oil.md", "Oil it.")
    skill(own, "steam", "Let it off.")
    write(own / "extensions-py" / "engine.py", EXTENSION.format("start"))
    write(own / "SYSTEM.md", "You are an engine.")
    write(own / "settings.json", json.dumps({"steeringMode": "all"}))
    write(cwd / "AGENTS.md", "rule of the project")
    skill(home, "brew", "Boil water.")
    needed = [
        str(own.resolve() / name)
        for name in ("settings.json", "extensions-py", "skills", "prompts", "SYSTEM.md")
    ]
    async with working(home, cwd) as (client, asked):
        assert await client.request("trust/get") == {"trusted": False, "needed": needed}
        assert await names(client) == ["skill:brew"]
        await prompt(client, "/oil")
        assert asked.said[-1] == "/oil"
        assert "You are an engine." not in asked.system_prompt
        assert "rule of the project" in asked.system_prompt

        answer = await client.request("trust/set", {"trusted": True})
        assert answer == {"trusted": True, "needed": []}
        assert client.types[-1] == "commands_changed"
        everything = ["oil", "skill:brew", "skill:steam", "start"]
        assert await names(client) == everything
        assert (await client.request("session/state"))["steeringMode"] == "all"
        assert (await prompt(client, "/start"))["disposition"] == "handled"
        await prompt(client, "/oil")
        assert asked.said[-1] == "Oil it."
        assert asked.system_prompt.startswith("You are an engine.")
        fresh = await client.request("session/new")
        listed = await client.request("command/list", {"sessionId": fresh["sessionId"]})
        assert [each["name"] for each in listed["commands"]] == everything

        assert (await client.request("trust/set"))["trusted"] is False
        assert await names(client) == ["skill:brew"]
        state = await client.request("session/state")
        assert state["steeringMode"] == "one-at-a-time"
        await prompt(client, "/start")
        assert asked.said[-1] == "/start"
        assert "You are an engine." not in asked.system_prompt


async def test_a_decision_reaches_open_sessions_below_and_no_others(
    home: Path, cwd: Path, tmp_path: Path
) -> None:
    below, beside = cwd / "part", tmp_path / "beside"
    for folder in (below, beside):
        write(folder / ".pi" / "prompts" / "oil.md", "Oil it.")
    async with working(home, cwd) as (client, _):
        opened = {}
        for folder in (below, beside):
            state = await client.request("session/new", {"cwd": str(folder)})
            opened[folder] = {"sessionId": state["sessionId"]}
        await client.request("trust/set", {"trusted": True, "cwd": str(cwd)})
        for folder, expected in ((below, ["oil"]), (beside, [])):
            listed = await client.request("command/list", opened[folder])
            assert [each["name"] for each in listed["commands"]] == expected
        told = {f["sessionId"] for f in client.frames if f["event"]["type"] == "commands_changed"}
        assert told == {opened[below]["sessionId"]}
        assert (await client.request("trust/get", {"cwd": str(below)}))["trusted"] is True
        await client.request("trust/set", {"trusted": False, "cwd": str(below)})
        assert (await client.request("trust/get", {"cwd": str(below)}))["trusted"] is False
        assert (await client.request("trust/get", {"cwd": str(cwd)}))["trusted"] is True
    written = json.loads((home / "trust.json").read_text())
    assert written == {str(cwd.resolve()): True, str(below.resolve()): False}
