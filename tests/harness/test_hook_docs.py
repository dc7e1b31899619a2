"""The pages about hooks and extensions: their examples run, and their tables are complete."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import fields, replace

from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.ports import Asker, NobodyAsks
from pi_rpc.harness import hook_payloads
from pi_rpc.harness.extensions import ExtensionApi, ExtensionSource, find_extensions
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import text_of
from pi_rpc.llm.scripted import text, tool_call
from tests.agent.stage import tool
from tests.harness.hall import DEADLINE_S, Hall, hall, said

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
HOOKS = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
EXTENSIONS = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_the_example_of_hooks_prints_what_stands_below_it() -> None:
    (code,), (output,) = blocks(HOOKS, "python"), blocks(HOOKS, "text")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ran.stderr.decode() == ""
    assert ran.stdout.decode() == output


def test_the_page_names_every_hook_and_every_field_that_it_is_given() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", HOOKS, re.MULTILINE))
    assert list(rows) == list(hook_payloads.RESULTS)
    for name, row in rows.items():
        words = "".join(part.capitalize() for part in name.split("_"))
        payload = getattr(hook_payloads, words, None) or getattr(hook_payloads, f"{words}Hook")
        known = row.replace("as `tool_call`", "`tool_call_id` `tool_name` `input`")
        for field in fields(payload):
            assert field.name == "signal" or f"`{field.name}`" in known, (name, field.name)


def test_the_page_names_everything_that_an_extension_is_given() -> None:
    (table,) = re.findall(r"## What `api` has\n\n(.*?)\n\n", EXTENSIONS, re.DOTALL)
    public = {"on", "ui", "cwd", "session_id", "source", "tool", "command", "role", "notify"}
    assert public <= set(re.findall(r"`(\w+)", table))
    assert all(hasattr(ExtensionApi, name) for name in ("tool", "command", "role", "notify"))


async def loaded(here: Hall, tmp_path: Path, number: int) -> None:
    (tmp_path / "it.py").write_text(blocks(EXTENSIONS, "python")[number], encoding="utf-8")
    (source,) = find_extensions(tmp_path)
    assert isinstance(source, ExtensionSource)
    assert await here.harness.extensions.load([source]) == []


async def asked(here: Hall, prompt: str) -> Any:
    run: Any = here.harness.prompt(PromptInput(prompt))
    with anyio.fail_after(DEADLINE_S):
        return await run.wait()


def results(here: Hall) -> list[str]:
    messages = [each.message for each in here.heard if hasattr(each, "message")]
    found = [each for each in messages if getattr(each, "tool_call_id", None)]
    return [text_of(each.content) for each in found[::2]]


async def test_the_first_extension_asks_the_person(tmp_path: Path) -> None:
    replies = [
        [tool_call("bash", {"command": "rm x"}), tool_call("bash", {"command": "ls"})],
        [text("ok")],
    ]
    async with hall(replies, tools=[tool("bash")]) as here:
        await loaded(here, tmp_path, 0)
        await asked(here, "tidy up")
        assert results(here) == ["The person said no.", "bash done"]


async def test_the_second_extension_keeps_notes(tmp_path: Path) -> None:
    async with hall([[tool_call("recall")], [text("ok")]]) as here:
        await loaded(here, tmp_path, 1)
        here.harness.configuration.activate(["recall"])
        found = here.harness.extensions.command("/note buy milk")
        assert found is not None
        signal = AbortController().signal
        assert await here.harness.extensions.run(*found, signal) is None
        await here.until(lambda: here.of(Diagnostic))
        assert here.of(Diagnostic)[0].message == "noted: buy milk"
        await asked(here, "what did I note?")
        assert results(here) == ["buy milk"]


async def test_the_third_extension_tells_the_weather(tmp_path: Path) -> None:
    seen: list[Any] = []

    def reply(context: Any, _options: Any) -> Any:
        seen.extend(context.messages)
        return [text("warm")]

    async with hall([reply, reply]) as here:
        await loaded(here, tmp_path, 2)
        await asked(here, "how is it?")
        assert said(seen) == ["user: how is it?", "user: It is 21 °C."]
        seen.clear()
        await asked(here, "and now?")
        assert said(seen)[1] == "user: It is 21 °C."


async def test_the_fourth_extension_asks_where_to_deploy(tmp_path: Path) -> None:
    shown: list[Any] = []

    class Person(NobodyAsks):
        async def choose(self, title: str, options: Any, **_: Any) -> str | None:
            shown.append([each.label for each in options])
            return str(options[0].value)

        async def edit(self, title: str, text: str = "", **_: Any) -> str | None:
            return "a valve"

        def notify(self, message: str, level: str = "info") -> None:
            shown.append(message)

        def status(self, key: str, text: str | None) -> None:
            shown.append((key, text))

    async with hall([]) as here:
        loop = here.harness._loop
        loop.tool_context = replace(loop.tool_context, asker=Person())
        await loaded(here, tmp_path, 3)
        found = here.harness.extensions.command("/deploy")
        assert found is not None
        assert await here.harness.extensions.run(*found, AbortController().signal) is None
        assert shown == [
            ["Staging", "Live"],
            ("deploy", "deploying to staging"),
            ("deploy", None),
            "deployed: a valve",
        ]


def test_the_page_names_everything_that_a_person_can_be_asked() -> None:
    _, _, section = EXTENSIONS.partition("## Asking the person")
    methods = {name for name in vars(Asker) if not name.startswith("_")}
    assert set(re.findall(r"ui\.(\w+)\(", section.partition("```")[0])) == methods


def test_there_are_no_examples_that_nobody_runs() -> None:
    assert len(blocks(EXTENSIONS, "python")) == 4
    assert len(blocks(HOOKS, "python")) == 1
