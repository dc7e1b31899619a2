"""Extensions: what they can add, and that a broken one takes nothing down."""

import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from pi_rpc.agent.events import Diagnostic, ToolExecutionEnd
from pi_rpc.agent.messages import OpaqueMessage
from pi_rpc.agent.ports import NobodyAsks
from pi_rpc.harness._extension_modules import installed_extensions
from pi_rpc.harness.extensions import ExtensionSource, find_extensions
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import text_of
from pi_rpc.llm.scripted import text, tool_call
from tests.harness.hall import DEADLINE_S, Hall, hall, said

pytestmark = pytest.mark.anyio

TOOL = """
from pi_rpc.agent.tool import AgentTool, ToolResult

def execute(tool_call_id, params, signal, on_update):
    return ToolResult.of_text("shouted")

def setup(api):
    api.tool(AgentTool(name="shout", label="Shout", description="Shouts.",
                       parameters={"type": "object"}, execute=execute))
"""
SHORT_S = 0.5


def written(folder: Path, **files: str) -> tuple[ExtensionSource, ...]:
    """The extensions in ``folder``, each a file of that name."""
    folder.mkdir(exist_ok=True)
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)
    return find_extensions(folder)


@asynccontextmanager
async def loaded(
    sources: tuple[ExtensionSource, ...], replies: Any = (), **limits: float
) -> AsyncIterator[tuple[Hall, list[Diagnostic]]]:
    async with hall(replies) as here:
        here.harness.configuration.named_tools = None
        here.harness.configuration.permission_mode = "full"
        here.harness.hooks.time_limit_s = limits.get("limit_s", DEADLINE_S)
        with anyio.fail_after(DEADLINE_S):
            yield here, await here.harness.extensions.load(sources)


async def settled(here: Hall, prompt: str = "go") -> None:
    run = here.harness.prompt(PromptInput(prompt))
    assert isinstance(run, Run)
    with anyio.fail_after(DEADLINE_S):
        await run.wait()


def own_modules() -> list[str]:
    return [name for name in sys.modules if name.startswith("pi_rpc_extension_")]


def test_files_and_packages_are_found_by_name_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "no_pack").mkdir()
    for name in ("b.py", "a.py", "_private.py", ".hidden.py", "notes.txt"):
        (tmp_path / name).touch()
    found = find_extensions(tmp_path / "missing", tmp_path)
    assert [Path(each.name).name for each in found] == ["a.py", "b.py", "pack"]


async def test_a_tool_of_an_extension_is_called_like_any_other(tmp_path: Path) -> None:
    sources = written(tmp_path, shout=TOOL)
    async with loaded(sources, [[tool_call("shout")], [text("ok")]]) as (here, told):
        assert told == []
        assert [each.name for each in here.harness.configuration.usable_tools()] == ["shout"]
        await settled(here)
        (end,) = here.of(ToolExecutionEnd)
        assert text_of(end.result.content) == "shouted"


async def test_a_hook_of_an_extension_is_asked_and_named_when_it_fails(tmp_path: Path) -> None:
    source = "def setup(api):\n    api.on('context', lambda payload: 1 / 0)\n"
    async with loaded(written(tmp_path, wrong=source), [[text("ok")]]) as (here, _):
        await settled(here)
        (told,) = here.of(Diagnostic)
        assert told.source == str(tmp_path / "wrong.py")
        assert "ZeroDivisionError" in told.message


BROKEN = {
    "raises": ("raise RuntimeError('not today')", "RuntimeError: not today"),
    "exits": ("import sys\nsys.exit('bye')", "SystemExit: bye"),
    "syntax": ("def setup(api:", "SyntaxError"),
    "missing": ("import no_such_module_anywhere", "ModuleNotFoundError"),
    "nothing": ("x = 1", "it has no function setup(api)"),
    "late": (TOOL + "    raise ValueError('after the tool')\n", "ValueError: after the tool"),
    "asynchronous": ("async def setup(api):\n    raise KeyError('k')", "KeyError"),
    "clash": (TOOL + "    api.command('a b', '', print)\n", "is no name of a command"),
    "hook": (TOOL + "    api.on('turn', print)\n", "there is no hook 'turn'"),
    "no_tool": ("def setup(api):\n    api.tool('shout')\n", "a tool is an AgentTool, not str"),
    "no_role": ("def setup(api):\n    api.role(dict)\n", "a role is a msgspec Struct"),
}


@pytest.mark.parametrize(("source", "said"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_extension_is_named_and_skipped_and_nothing_of_it_stays(
    tmp_path: Path, source: str, said: str
) -> None:
    sources = written(tmp_path, a_broken=source, b_good="def setup(api):\n    api.notify('here')\n")
    async with loaded(sources, [[text("ok")]]) as (here, told):
        assert [each.severity for each in told] == ["error", "info"]
        assert told[0].source == str(tmp_path / "a_broken.py")
        assert f"{tmp_path / 'a_broken.py'}: the extension was skipped: " in told[0].message
        assert said in told[0].message
        assert here.harness.configuration.tools == {}
        assert here.harness.extensions.commands() == []
        assert len(own_modules()) == 1
        await settled(here)


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nthreading.Event().wait(8)",
        "import threading\ndef setup(api):\n    threading.Event().wait(8)",
        "import anyio\nasync def setup(api):\n    await anyio.sleep_forever()",
    ],
)
async def test_an_extension_that_hangs_is_named_and_left_behind(
    tmp_path: Path, source: str
) -> None:
    sources = written(tmp_path, a_hangs=source, b_good=TOOL)
    # The other one has as long, on a machine that may be busy.
    async with loaded(sources, limit_s=4 * SHORT_S) as (here, told):
        (one,) = told
        assert "a_hangs.py: the extension was skipped: it took longer" in one.message
        assert list(here.harness.configuration.tools) == ["shout"]


async def test_what_an_extension_adds_after_it_was_given_up_has_no_effect(tmp_path: Path) -> None:
    release = threading.Event()
    added = threading.Event()

    def setup(api: Any) -> None:
        release.wait(DEADLINE_S)
        api.command("late", "", print)
        api.notify("late")
        added.set()

    source = ExtensionSource("slow", lambda _: setup)
    async with loaded((source,), limit_s=SHORT_S) as (here, told):
        assert len(told) == 1
        release.set()
        assert added.wait(DEADLINE_S)
        assert here.harness.extensions.commands() == []
        assert here.of(Diagnostic) == []


async def test_each_session_runs_the_file_as_it_is_under_a_name_of_its_own(tmp_path: Path) -> None:
    sources = written(tmp_path, it="def setup(api):\n    api.notify(f'1 {__name__}')\n")
    async with loaded(sources) as (_, first):
        written(tmp_path, it="def setup(api):\n    api.notify(f'2 {__name__}')\n")
        async with loaded(sources) as (_, second):
            assert len(own_modules()) == 2
    (one, name), (two, other) = first[0].message.split(), second[0].message.split()
    assert (one, two) == ("1", "2")
    assert name != other
    assert own_modules() == []
    assert not (tmp_path / "__pycache__").exists()


async def test_a_package_may_import_its_own_modules_and_define_dataclasses(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "words.py").write_text("WORD = 'found'\n")
    (package / "__init__.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from .words import WORD\n"
        "@dataclass\nclass Note:\n    text: str\n"
        "def setup(api):\n    api.notify(Note(WORD).text)\n"
    )
    async with loaded(find_extensions(tmp_path)) as (_, told):
        assert [each.message for each in told] == ["found"]
    assert own_modules() == []


async def test_a_command_gets_its_arguments_and_may_fail_hang_or_be_stopped() -> None:
    called: list[str] = []
    stop = AbortController()

    async def hangs(_: str) -> None:
        stop.abort()
        await anyio.sleep_forever()

    def setup(api: Any) -> None:
        api.command("note", "Takes a note", called.append)
        api.command("fails", "", lambda _: 1 / 0)
        api.command("slow", "", lambda _: threading.Event().wait(5), time_limit_s=SHORT_S)
        api.command("hangs", "", hangs)

    async with loaded((ExtensionSource("mine", lambda _: setup),)) as (here, told):
        assert told == []
        extensions = here.harness.extensions

        async def run(prompt: str, signal: Any = None) -> str | None:
            found = extensions.command(prompt)
            assert found is not None
            return await extensions.run(*found, signal or AbortController().signal)

        assert await run("/note  milk and\nbread") is None
        assert await run("/note") is None
        assert called == ["milk and\nbread", ""]
        assert "ZeroDivisionError" in (await run("/fails") or "")
        assert "time limit" in (await run("/slow") or "")
        assert "was stopped" in (await run("/hangs", stop.signal) or "")
        assert [each.source for each in here.of(Diagnostic)] == ["mine", "mine"]
        for prompt in ("note", "/other", " /note", "/notes x"):
            assert extensions.command(prompt) is None


async def test_two_extensions_cannot_have_the_same_command() -> None:
    def setup(api: Any) -> None:
        api.command("note", "", print)

    sources = (ExtensionSource("one", lambda _: setup), ExtensionSource("two", lambda _: setup))
    async with loaded(sources) as (here, told):
        assert "there is a command 'note' already, of one" in told[0].message
        assert [each.source for each in here.harness.extensions.commands()] == ["one"]


ROLE = """
from pi_rpc.llm.messages import UserMessage, Wire

class Memo(Wire, tag_field="role", tag="memo", frozen=True, kw_only=True):
    text: str
    timestamp: int

def reads(memo):
    if memo.text == "bad":
        raise ValueError("unreadable")
    return [UserMessage(content=f"memo: {memo.text}", timestamp=0)]

def setup(api):
    api.role(Memo, reads)
"""


async def test_messages_of_an_extensions_role_read_as_it_says(tmp_path: Path) -> None:
    asked: list[Any] = []

    def reply(context: Any, _options: Any) -> Any:
        asked.extend(context.messages)
        return [text("ok")]

    async with loaded(written(tmp_path, memo=ROLE), [reply]) as (here, told):
        assert told == []
        from pi_rpc.harness import hook_payloads as h

        memos = [
            OpaqueMessage("memo", b'{"role":"memo","text":"%s","timestamp":1}' % word)
            for word in (b"milk", b"bad")
        ]
        here.harness.on(
            "context", lambda hook: h.ContextHookResult(messages=[*hook.messages, *memos])
        )
        await settled(here)
        assert said(asked) == ["user: go", "user: memo: milk"]
        (problem,) = here.of(Diagnostic)
        assert "memo.py: a message of the role 'memo' cannot be read" in problem.message


class Slow(NobodyAsks):
    """A person who thinks for longer than the time limit of who asks, and agrees with all."""

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        await anyio.sleep(2 * SHORT_S)
        return True

    async def choose(self, title: str, options: Any, **_: Any) -> str | None:
        return str(options[0])

    async def enter(self, title: str, placeholder: str = "", **more: Any) -> str | None:
        return placeholder

    async def edit(self, title: str, text: str = "", **_: Any) -> str | None:
        return text


async def test_a_person_is_asked_without_the_clock_running() -> None:
    got: list[Any] = []

    def setup(api: Any) -> None:
        async def ask(_: str) -> None:
            got.append(await api.ui.confirm("Sure?", "Really?"))
            got.append(await api.ui.choose("Which?", ["a", "b"]))
            got.append(await api.ui.enter("Name?", "me"))
            got.append(await api.ui.edit("Text?", "as it was"))

        api.command("ask", "", ask, time_limit_s=SHORT_S)
        got.extend([api.cwd, api.session_id])

    async with loaded((ExtensionSource("mine", lambda _: setup),)) as (here, _):
        loop = here.harness._loop
        loop.tool_context = replace(loop.tool_context, asker=Slow())
        found = here.harness.extensions.command("/ask")
        assert found is not None
        assert await here.harness.extensions.run(*found, AbortController().signal) is None
        session_id = here.harness.session.session_id
        assert got == [Path.cwd(), session_id, True, "a", "me", "as it was"]


async def test_the_clock_stands_still_until_the_last_of_several_questions_is_answered() -> None:
    got: list[str] = []

    def setup(api: Any) -> None:
        async def ask(_: str) -> None:
            async def one(name: str, ask: Any) -> None:
                await ask()
                got.append(name)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "slow", lambda: api.ui.confirm("Sure?"))
                tasks.start_soon(one, "quick", lambda: api.ui.enter("Name?"))

        async def dawdle(_: str) -> None:
            await api.ui.confirm("Sure?")
            await anyio.sleep_forever()

        api.command("ask", "", ask, time_limit_s=SHORT_S)
        api.command("dawdle", "", dawdle, time_limit_s=SHORT_S)

    async with loaded((ExtensionSource("mine", lambda _: setup),)) as (here, _):
        loop = here.harness._loop
        loop.tool_context = replace(loop.tool_context, asker=Slow())
        extensions, signal = here.harness.extensions, AbortController().signal
        found = extensions.command("/ask")
        assert found is not None
        assert await extensions.run(*found, signal) is None
        assert got == ["quick", "slow"]
        found = extensions.command("/dawdle")
        assert found is not None
        assert "took longer" in str(await extensions.run(*found, signal))


async def test_where_nobody_is_asked_the_answers_are_no_and_none() -> None:
    got: list[Any] = []

    def setup(api: Any) -> None:
        async def ask(_: str) -> None:
            ui = api.ui
            got.extend([await ui.confirm("Sure?"), await ui.choose("Which?", ["a"])])
            got.extend([await ui.enter("Name?"), await ui.edit("Text?", "as it was")])
            got.extend([ui.notify("here"), ui.status("job", "going on")])

        api.command("ask", "", ask)

    async with loaded((ExtensionSource("mine", lambda _: setup),)) as (here, _):
        found = here.harness.extensions.command("/ask")
        assert found is not None
        assert await here.harness.extensions.run(*found, AbortController().signal) is None
        assert got == [False, None, None, None, None, None]


async def test_a_plain_handler_may_notify_from_its_thread() -> None:
    def setup(api: Any) -> None:
        api.command("tell", "", lambda words: api.notify(words, "warning"))

    async with loaded((ExtensionSource("mine", lambda _: setup),)) as (here, _):
        found = here.harness.extensions.command("/tell it works")
        assert found is not None
        await here.harness.extensions.run(*found, AbortController().signal)
        await here.until(lambda: here.of(Diagnostic))
        (told,) = here.of(Diagnostic)
        assert (told.message, told.severity, told.source) == ("it works", "warning", "mine")


async def test_an_installed_package_brings_its_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_notes.py").write_text("def begin(api):\n    api.notify('installed')\n")
    metadata = tmp_path / "acme_notes-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-notes\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[pi_rpc.extensions]\nnotes = acme_notes:begin\n")
    monkeypatch.syspath_prepend(tmp_path)
    sources = tuple(each for each in installed_extensions() if "acme_notes" in each.name)
    async with loaded(sources) as (_, told):
        (one,) = told
        assert (one.message, one.source) == ("installed", "entry point notes (acme_notes:begin)")
    sys.modules.pop("acme_notes")
