"""Commands that a person runs: beside whatever goes on, kept in order, in bounded memory."""

import json
import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from pi_rpc.agent.events import (
    AgentEnd,
    AgentSettled,
    BashOutput,
    Diagnostic,
    MessageEnd,
    MessageStart,
    SavePoint,
    SessionChanged,
    ToolExecutionStart,
)
from pi_rpc.agent.messages import BashExecutionMessage, role_of
from pi_rpc.agent.tool import ToolResult
from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.persistence import message_entry
from pi_rpc.harness.settings import RetrySettings
from pi_rpc.llm.messages import ToolResultMessage, UserMessage, text_of
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.scripted import ScriptedReply, error, text, tool_call, until
from pi_rpc.session.context import build_context
from pi_rpc.session.entries import Entry, MessageEntry, iso_now
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.storage import SessionStorage, SessionStorageError
from pi_rpc.session.store import JsonlSession
from pi_rpc.session.stored import StoredEntry
from pi_rpc.tools import LocalShell
from tests.agent.stage import tool
from tests.harness.branches import call, reply, user
from tests.harness.hall import DEADLINE_S, Hall, hall

pytestmark = pytest.mark.anyio

PYTHON = shlex.quote(sys.executable)


def python(source: str) -> str:
    return f"{PYTHON} -c {shlex.quote(source)}"


def stored(one: Hall) -> list[str]:
    """The roles on the active branch."""
    return [each.role for each in one.harness.session.branch() if each.role]


def shown(one: Hall) -> str:
    return "".join(each.delta for each in one.of(BashOutput))


async def ran(one: Hall, command: str, **choices: Any) -> BashExecutionMessage:
    with anyio.fail_after(DEADLINE_S):
        return await one.harness.bash(command, **choices)


# --- what comes of a command ---------------------------------------------------------------------


async def test_a_command_is_shown_stored_announced_and_given_back_in_this_order() -> None:
    async with hall([]) as one:
        message = await ran(one, "echo out; echo err >&2; exit 3", token="t")
        assert (message.output, message.exit_code) == ("out\nerr\n", 3)
        assert (message.cancelled, message.truncated) == (False, False)
        assert (message.full_output_path, message.exclude_from_context) == (UNSET, UNSET)
        assert shown(one) == "out\nerr\n"
        assert {each.token for each in one.of(BashOutput)} == {"t"}
        kinds = [type(each) for each in one.heard if type(each) is not BashOutput]
        assert kinds == [MessageStart, MessageEnd, SessionChanged]
        (end,) = one.of(MessageEnd)
        assert end.message == message
        assert one.harness.session.leaf_id == end.entry_id == end.message_id
        (changed,) = one.of(SessionChanged)
        assert changed.changes["messageCount"] == 1


async def test_output_is_text_without_escapes_and_controls() -> None:
    source = "import sys; sys.stdout.buffer.write(b'\\x1b[31mred\\x1b[0m\\r\\n\\x00\\xff\\x07\\ta')"
    async with hall([]) as one:
        message = await ran(one, python(source))
        assert message.output == shown(one) == "red\n\ufffd\ta"


async def test_long_output_is_cut_and_whole_in_a_private_file() -> None:
    async with hall([]) as one:
        message = await ran(one, python("for n in range(30000): print(n)"))
        path = Path(str(message.full_output_path))
        try:
            assert message.truncated
            assert message.output.endswith("29998\n29999")
            assert len(message.output.splitlines()) <= 2000
            assert path.read_text() == "".join(f"{n}\n" for n in range(30_000))
            assert path.stat().st_mode & 0o077 == 0
        finally:
            path.unlink()


async def test_a_flood_of_binary_output_stays_small_in_memory_and_on_the_wire() -> None:
    source = "import os, sys\nfor _ in range(64): sys.stdout.buffer.write(os.urandom(2**20))"
    async with hall([]) as one:
        message = await ran(one, python(source))
        path = Path(str(message.full_output_path))
        try:
            assert path.stat().st_size == 64 * 2**20
        finally:
            path.unlink()
        assert message.truncated
        # One byte may become the three of U+FFFD.
        assert len(message.output.encode()) <= 3 * 50 * 1024
        assert len(shown(one)) <= 256 * 1024
        assert one.of(BashOutput)[-1].omitted_bytes == 64 * 2**20 - 256 * 1024


async def test_the_environment_is_that_of_the_session_and_the_directory_as_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "sub").mkdir()
    async with hall([]) as one:
        one.harness.configuration.cwd = tmp_path
        seen = await ran(one, 'pwd; echo "$PI_PROVIDER $PI_MODEL"', cwd="sub")
        assert seen.output == f"{tmp_path.resolve() / 'sub'}\nscripted scripted\n"
        one.harness.configuration.model = None
        seen = await ran(one, 'pwd; echo "<$PI_PROVIDER>"', cwd=tmp_path / "sub")
        assert seen.output == f"{tmp_path.resolve() / 'sub'}\n<>\n"


async def test_several_commands_run_at_once_and_are_stored_as_they_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    async with hall([]) as one:
        first = one.harness.bash("echo first; read -r _ < gate", cwd=tmp_path)
        await one.until(lambda: "first" in shown(one))
        await ran(one, "echo second")
        await ran(one, "echo > gate", cwd=tmp_path)
        with anyio.fail_after(DEADLINE_S):
            await first
        messages: list[Any] = build_context(one.harness.session.branch()).messages
        first_stored, *rest = [each.command for each in messages]
        assert first_stored == "echo second"
        assert set(rest) == {"echo > gate", "echo first; read -r _ < gate"}


# --- stopping ------------------------------------------------------------------------------------


async def test_a_command_that_is_stopped_keeps_what_it_printed() -> None:
    async with hall([]) as one:
        command = one.harness.bash("echo half; sleep 600")
        await one.until(lambda: shown(one) == "half\n")
        command.abort()
        with anyio.fail_after(DEADLINE_S):
            message = await command
        assert (message.output, message.cancelled, message.exit_code) == ("half\n", True, UNSET)
        assert stored(one) == ["bashExecution"]


async def test_an_abort_of_the_session_leaves_commands_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    async with hall([[until(anyio.Event().wait)]]) as one:
        run = one.harness.prompt("go")
        command = one.harness.bash("echo on; read -r _ < gate; echo off", cwd=tmp_path)
        await one.until(lambda: shown(one) == "on\n")
        await one.harness.abort()
        assert (await run).aborted
        (tmp_path / "gate").write_text("\n")
        with anyio.fail_after(DEADLINE_S):
            assert (await command).output == "on\noff\n"


async def test_closing_the_session_ends_commands_and_keeps_what_they_printed(
    tmp_path: Path,
) -> None:
    session = await JsonlSession.create(tmp_path, str(tmp_path))
    async with hall([], session=session) as one:
        command = one.harness.bash("echo half; sleep 600")
        await one.until(lambda: shown(one) == "half\n")
        with anyio.fail_after(DEADLINE_S):
            await one.harness.aclose()
            assert (await command).cancelled
        with pytest.raises(HarnessError):
            await ran(one, "echo late")
    assert session.path is not None
    again = await JsonlSession.open(session.path, read_only=True)
    (entry,) = [each.entry for each in again.branch()]
    assert isinstance(entry, MessageEntry)
    assert entry.agent_message() == command.message
    await again.aclose()


async def test_after_stop_a_command_ends_before_it_begins() -> None:
    async with hall([]) as one:
        one.harness.stop()
        message = await ran(one, "echo never")
        assert (message.output, message.cancelled) == ("", True)


async def test_who_waits_may_go_away_and_the_command_is_stored_all_the_same(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "gate")
    async with hall([]) as one:
        command = one.harness.bash("echo on; read -r _ < gate", cwd=tmp_path)
        await one.until(lambda: shown(one) == "on\n")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await command
        (tmp_path / "gate").write_text("\n")
        await one.until(lambda: stored(one) == ["bashExecution"])


# --- while something goes on ---------------------------------------------------------------------


class Model:
    """Says one thing after the other, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[Any]] = []

    def says(self, *steps: Any) -> ScriptedReply:
        def said(context: Context, _: StreamOptions) -> list[Any]:
            self.asked.append(list(context.messages))
            return list(steps)

        return said

    def read(self, request: int) -> list[str]:
        """What a person had said in a request, commands included."""
        said = [each for each in self.asked[request] if isinstance(each, UserMessage)]
        return [text_of(each.content) for each in said]


@asynccontextmanager
async def in_a_tool(
    *replies: ScriptedReply, session: SessionStorage | None = None
) -> AsyncIterator[tuple[Hall, anyio.Event]]:
    """A run that stands in a tool until the event is set."""
    release = anyio.Event()

    async def waits(*_: Any) -> ToolResult:
        await release.wait()
        return ToolResult.of_text("waited")

    replies = ([tool_call("wait")], *replies)
    async with hall(replies, tools=[tool("wait", waits)], session=session) as one:
        one.harness.prompt("go")
        await one.until(lambda: one.of(ToolExecutionStart))
        yield one, release


async def idle(one: Hall) -> None:
    await one.until(lambda: one.harness.phase == "idle")


async def test_during_a_turn_it_is_stored_after_the_results_and_the_next_turn_reads_it() -> None:
    model = Model()
    async with in_a_tool(model.says(text("done"))) as (one, release):
        message = await ran(one, "echo aside")
        assert stored(one) == ["user", "assistant"]
        release.set()
        await idle(one)
        assert stored(one) == ["user", "assistant", "toolResult", "bashExecution", "assistant"]
        (end,) = [each for each in one.of(MessageEnd) if each.message == message]
        parent = one.harness.session.entry(end.parent_id)
        assert parent is not None
        assert parent.role == "toolResult"
        assert [each.had_pending_mutations for each in one.of(SavePoint)] == [True, False]
        roles = [role_of(each) for end in one.of(AgentEnd) for each in end.messages]
        assert "bashExecution" not in roles
        assert not one.harness.interrupted
    assert model.read(0) == ["go", "Ran `echo aside`\n```\naside\n```"]


async def test_what_is_kept_from_the_model_is_stored_and_never_sent() -> None:
    model = Model()
    replies = [model.says(text("one")), model.says(text("two"))]
    async with hall(replies) as one:
        await ran(one, "echo secret", exclude_from_context=True)
        await ran(one, "echo known")
        with anyio.fail_after(DEADLINE_S):
            await one.harness.prompt("go")
        assert stored(one) == ["bashExecution", "bashExecution", "user", "assistant"]
    assert model.read(0) == ["Ran `echo known`\n```\nknown\n```", "go"]


async def test_a_command_that_ends_a_run_is_in_the_file_before_the_run_has_settled() -> None:
    async with hall([[until((release := anyio.Event()).wait), text("done")]]) as one:
        run = one.harness.prompt("go")
        await one.until(lambda: one.of(MessageStart))
        message = await ran(one, "echo aside")
        assert "bashExecution" not in stored(one)
        release.set()
        with anyio.fail_after(DEADLINE_S):
            await run
        assert stored(one)[-1] == "bashExecution"
        kinds = [type(each) for each in one.heard]
        told = [each.message for each in one.of(MessageEnd)]
        assert told[-1] == message
        last_message = len(kinds) - kinds[::-1].index(MessageEnd)
        assert last_message < kinds.index(AgentSettled)


async def test_an_abort_stores_what_ended_meanwhile_and_keeps_calls_and_results_together() -> None:
    async with in_a_tool() as (one, _):
        await ran(one, "echo aside")
        with anyio.fail_after(DEADLINE_S):
            await one.harness.abort()
        assert stored(one) == ["user", "assistant", "toolResult", "bashExecution"]
        assert not one.harness.interrupted


async def test_a_failed_reply_is_hidden_and_asked_for_again_though_a_command_ended() -> None:
    model = Model()
    release = anyio.Event()
    failing = [until(release.wait), error("overloaded", status=503)]
    async with hall([failing, model.says(text("at last"))]) as one:
        one.harness.configuration.retries = RetrySettings(base_delay_ms=1)
        run = one.harness.prompt("go")
        await one.until(lambda: one.of(MessageStart))
        await ran(one, "echo aside")
        release.set()
        with anyio.fail_after(DEADLINE_S):
            assert (await run).text == "at last"
        kept = [role_of(each) for each in build_context(one.harness.session.branch()).messages]
        assert kept == ["user", "bashExecution", "assistant"]
    assert model.read(0) == ["go", "Ran `echo aside`\n```\naside\n```"]


async def test_during_a_branch_it_goes_with_the_session_to_the_new_place() -> None:
    release = anyio.Event()
    replies: list[ScriptedReply] = [
        [text("one")],
        [text("two")],
        [until(release.wait), text("## Goal")],
    ]
    async with hall(replies) as one:
        with anyio.fail_after(DEADLINE_S):
            await one.harness.prompt("first")
            back = one.harness.session.leaf_id
            await one.harness.prompt("second")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.harness.branch, BranchRequest(back, summarize=True))
            await one.until(lambda: one.harness.phase == "branch_summary")
            await ran(one, "echo aside")
            assert "bashExecution" not in stored(one)
            release.set()
        kinds = [each.role or each.type for each in one.harness.session.branch()]
        assert kinds[-2:] == ["branch_summary", "bashExecution"]


async def test_a_prompt_that_comes_while_a_command_is_stored_follows_it() -> None:
    class Slow(MemorySession):
        def __init__(self) -> None:
            super().__init__(Path.cwd())
            self.writing = anyio.Event()
            self.go_on = anyio.Event()

        async def append_many(
            self, entries: Iterable[Entry], *, strict: bool = True
        ) -> list[StoredEntry]:
            self.writing.set()
            await self.go_on.wait()
            return await super().append_many(entries, strict=strict)

    session = Slow()
    async with hall([[text("done")]], session=session) as one:
        command = one.harness.bash("echo aside")
        with anyio.fail_after(DEADLINE_S):
            await session.writing.wait()
            run = one.harness.prompt("go")
            session.go_on.set()
            await run
            await command
        assert stored(one) == ["bashExecution", "user", "assistant"]
        nested = [type(each) for each in one.heard if isinstance(each, MessageStart | MessageEnd)]
        assert nested == [MessageStart, MessageEnd] * 3


# --- where a conversation stands afterwards ------------------------------------------------------


async def test_a_command_after_a_run_without_an_answer_does_not_make_it_look_interrupted() -> None:
    async def ends(*_: Any) -> ToolResult:
        return ToolResult(content=[], terminate=True)

    async with hall([[tool_call("end")]], tools=[tool("end", ends)]) as one:
        with anyio.fail_after(DEADLINE_S):
            await one.harness.prompt("go")
        assert not one.harness.interrupted
        await ran(one, "echo aside")
        assert not one.harness.interrupted


async def test_a_command_in_a_crashed_session_comes_after_the_results_of_its_open_calls() -> None:
    session = MemorySession(Path.cwd())
    for message in (user("go"), reply("", call("c1", "look"), stop_reason="toolUse")):
        make = message_entry(message)
        await session.append(make(session.new_id(), session.leaf_id, iso_now()))
    model = Model()
    async with hall([model.says(text("done"))], session=session) as one:
        assert one.harness.interrupted
        await ran(one, "echo aside")
        assert stored(one) == ["user", "assistant", "toolResult", "bashExecution"]
        assert one.harness.interrupted
        with anyio.fail_after(DEADLINE_S):
            await one.harness.continue_()
    (asked,) = model.asked
    assert [role_of(each) for each in asked] == ["user", "assistant", "toolResult", "user"]
    assert isinstance(asked[2], ToolResultMessage)
    assert asked[2].tool_call_id == "c1"


async def test_a_finished_conversation_goes_on_with_what_a_command_said_unless_it_is_secret() -> (
    None
):
    model = Model()
    replies = [model.says(text("one")), model.says(text("two"))]
    async with hall(replies) as one:
        with anyio.fail_after(DEADLINE_S):
            await one.harness.prompt("go")
        await ran(one, "echo secret", exclude_from_context=True)
        with pytest.raises(HarnessError) as refused:
            one.harness.continue_()
        assert refused.value.kind == "nothingToContinue"
        await ran(one, "echo known")
        with anyio.fail_after(DEADLINE_S):
            assert (await one.harness.continue_()).text == "two"
    assert model.read(1) == ["go", "Ran `echo known`\n```\nknown\n```"]


# --- refusals and failures -----------------------------------------------------------------------


async def test_what_cannot_be_run_or_kept_is_refused_and_leaves_nothing_behind() -> None:
    async with hall([]) as one:
        for command, choices, field in [
            (" ", {}, "command"),
            ("echo \0", {}, "command"),
            ("echo", {"cwd": "a\0b"}, "cwd"),
            ("echo", {"cwd": "nowhere"}, "cwd"),
        ]:
            with pytest.raises(HarnessError) as refused:
                await ran(one, command, **choices)
            assert (refused.value.kind, refused.value.fields["path"]) == ("invalidParams", field)
        one.harness.configuration.permission_mode = "readonly"
        with pytest.raises(HarnessError) as refused:
            await ran(one, "echo")
        assert refused.value.kind == "permissionDenied"
        assert stored(one) == []
        assert one.heard == []


async def test_a_session_that_is_open_for_reading_runs_nothing(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, str(tmp_path))
    async with hall([], session=session) as one:
        await ran(one, "true")
    assert session.path is not None
    before = session.path.read_bytes()
    reading = await JsonlSession.open(session.path, read_only=True)
    async with hall([], session=reading) as one:
        with pytest.raises(HarnessError) as refused:
            await ran(one, f"touch {tmp_path}/never")
        assert refused.value.kind == "storage"
    assert not (tmp_path / "never").exists()
    assert session.path.read_bytes() == before


async def test_a_shell_that_does_not_exist_is_unsupported() -> None:
    async with hall([]) as one:
        context = one.harness._loop.tool_context
        one.harness._loop.tool_context = replace(
            context, shell=LocalShell(shell_path="/no/such/shell")
        )
        with pytest.raises(HarnessError, match="/no/such/shell") as refused:
            await ran(one, "true")
        assert refused.value.kind == "unsupported"


async def test_a_full_disk_is_told_and_the_command_is_stored_when_there_is_room_again() -> None:
    class Full(MemorySession):
        full = True

        async def append_many(
            self, entries: Iterable[Entry], *, strict: bool = True
        ) -> list[StoredEntry]:
            if self.full:
                raise SessionStorageError("the disk is full")
            return await super().append_many(entries, strict=strict)

    session = Full(Path.cwd())
    async with hall([[text("done")]], session=session) as one:
        message = await ran(one, "echo kept")
        assert message.output == "kept\n"
        (told,) = one.of(Diagnostic)
        assert "the disk is full" in told.message
        assert one.of(MessageEnd) == []
        session.full = False
        with anyio.fail_after(DEADLINE_S):
            await one.harness.prompt("go")
        assert stored(one) == ["bashExecution", "user", "assistant"]


async def test_what_another_program_wrote_is_taken_in_first(tmp_path: Path) -> None:
    session = await JsonlSession.create(tmp_path, str(tmp_path))
    async with hall([], session=session) as one:
        await ran(one, "echo one")
        assert session.path is not None
        theirs = {
            "type": "message",
            "id": "ffffffff",
            "parentId": session.leaf_id,
            "timestamp": iso_now(),
            "message": {"role": "user", "content": "from pi", "timestamp": 1},
        }
        with session.path.open("a") as file:
            file.write(json.dumps(theirs) + "\n")
        await ran(one, "echo two")
        assert [each.role for each in session.branch()] == [
            "bashExecution",
            "user",
            "bashExecution",
        ]
