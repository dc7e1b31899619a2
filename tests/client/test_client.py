"""The client with a real daemon: verbs, events, questions, cancellation, and every end."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.agent.events import AgentSettled, BashOutput
from pi_rpc.client import DaemonEnded, Missed, PiRpc, RpcError
from pi_rpc.client import client as client_module
from pi_rpc.client._incoming import Incoming, capabilities
from pi_rpc.llm.messages import AssistantMessage
from pi_rpc.protocol.base import SessionNewParams
from pi_rpc.protocol.client_requests import (
    UiConfirmParams,
    UiConfirmResult,
    UiNotifyParams,
    UiSelectParams,
    UiTextResult,
)
from pi_rpc.protocol.editor import (
    EditorDidChangeParams,
    OpenDocument,
    ReadDocumentParams,
    ReadDocumentResult,
)
from pi_rpc.protocol.events import AgentStart, MessageEnd, MessageUpdate
from pi_rpc.protocol.handshake import EventPreferences
from pi_rpc.protocol.methods import METHODS
from pi_rpc.protocol.permissions import PermissionRequestParams, PermissionRequestResult
from tests.client.daemon import connected, environment, until
from tests.e2e.editor import DEADLINE_S, call, hold, say
from tests.os.survivors import (
    new_marker,
    open_descriptors,
    survivors,
    wait_until_alive,
    wait_until_gone,
)

pytestmark = pytest.mark.anyio

FULL = SessionNewParams(permission_mode="full")


async def test_a_prompt_is_answered_and_its_events_come_typed(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("Good "), say("day.")]]) as client:
        assert client.server.server_info.name == "pi-rpc"
        session = await client.default_session()
        events = session.events()
        result = await session.prompt("hello", client_message_id="mine")
        assert (result.disposition, result.stop_reason) == ("completed", "stop")
        assert result.text == "Good day."
        seen = await until(events, AgentSettled)
        ends = [event for event in seen if isinstance(event, MessageEnd)]
        assert ends[0].client_message_id == "mine"
        assert isinstance(ends[1].message, AssistantMessage)
        stored = await session.messages()
        assert stored.messages[1] == ends[1].message
        assert events.last_seq == stored.last_seq


async def test_sessions_are_apart(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("x")], [say("x")]]) as client:
        one, two = await client.new_session(name="one"), await client.new_session(name="two")
        of_one, of_two = one.events(), two.events()
        await one.prompt("hello")
        await two.close()
        assert [event async for event in of_two if isinstance(event, AgentStart)] == []
        assert len([e for e in await until(of_one, AgentSettled) if isinstance(e, AgentStart)]) == 1
        listed = (await client.list_sessions()).sessions
        assert {each.name for each in listed if each.open} == {"one"}
        assert (await client.session(one.id).state()).name == "one"


async def test_a_refusal_says_its_kind(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        session = await client.default_session()
        with pytest.raises(RpcError) as refused:
            await session.entry("nowhere")
        assert (refused.value.kind, refused.value.code) == ("entryNotFound", 1004)
        with pytest.raises(RpcError) as unknown:
            await client.request("no/such/method", {"x": 1})
        assert unknown.value.kind == "methodNotFound"
        assert await client.request("ping") == {}


async def test_cancelling_the_task_that_waits_cancels_the_request(tmp_path: Path) -> None:
    async with connected(tmp_path, [[say("so"), hold()], [say("again")]]) as client:
        session = await client.default_session()
        events = session.events()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.prompt, "hello")
            await until(events, MessageUpdate)
            tasks.cancel_scope.cancel()
        settled = (await until(events, AgentSettled))[-1]
        assert isinstance(settled, AgentSettled)
        assert settled.stop_reason == "aborted"
        assert (await session.prompt("once more")).text == "again"


async def test_a_slow_consumer_stops_neither_the_run_nor_other_requests_and_learns_what_it_missed(
    tmp_path: Path,
) -> None:
    events_as_they_are = EventPreferences(min_interval_ms=0)
    replies = [[say(f"{n} " + "x" * 500) for n in range(100)]]
    async with connected(tmp_path, replies, events=events_as_they_are) as client:
        session = await client.default_session()
        slow, quick = session.events(limit_bytes=4_000), session.events()
        result = await session.prompt("hello")
        assert result.stop_reason == "stop"
        await client.ping()
        missed, *others = await until(slow, AgentSettled)
        assert isinstance(missed, Missed)
        assert missed.after_seq == 0
        everything = await until(quick, AgentSettled)
        assert everything[-len(others) :] == others
        assert slow.last_seq == quick.last_seq == missed.up_to_seq + len(others)
        again = await session.missed_events(missed.after_seq)
        assert again.last_seq == slow.last_seq


CAREFUL = """
def setup(api):
    async def confirm(call):
        if await api.ui.confirm("Run this?", call.input["command"]):
            api.ui.notify("it ran " + await api.ui.choose("Where?", ["here", "there"]))

    api.on("tool_call", confirm)
"""


async def test_questions_of_the_daemon_are_answered_by_handlers(tmp_path: Path) -> None:
    extensions = tmp_path / "extensions-py"
    extensions.mkdir()
    (extensions / "careful.py").write_text(CAREFUL)
    notified = anyio.Event()
    heard: list[str] = []

    async def confirm(params: UiConfirmParams) -> UiConfirmResult:
        heard.append(f"{params.title} {params.message}")
        return UiConfirmResult(confirmed=True)

    def select(params: UiSelectParams) -> UiTextResult:
        return UiTextResult(value=params.options[1].value)

    def notify(params: UiNotifyParams) -> None:
        heard.append(params.message)
        notified.set()

    replies = [[call("bash", command="echo yes")], [say("done")]]
    handlers: dict[str, Any] = {"ui/confirm": confirm, "ui/select": select, "ui/notify": notify}
    async with connected(tmp_path, replies, handlers=handlers, session=FULL) as client:
        await (await client.default_session()).prompt("go")
        with anyio.fail_after(DEADLINE_S):
            await notified.wait()
    assert heard == ["Run this? echo yes", "it ran there"]


async def test_a_handler_that_fails_counts_as_no_answer_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    extensions = tmp_path / "extensions-py"
    extensions.mkdir()
    (extensions / "careful.py").write_text(CAREFUL)

    def confirm(_: UiConfirmParams) -> UiConfirmResult:
        raise LookupError("nobody is here")

    replies = [[call("bash", command="echo yes")], [say("done")]]
    handlers = {"ui/confirm": confirm}
    async with connected(tmp_path, replies, handlers=handlers, session=FULL) as client:
        assert (await (await client.default_session()).prompt("go")).text == "done"
    assert "nobody is here" in caplog.text


async def test_a_person_is_asked_for_permission(tmp_path: Path) -> None:
    asked: list[PermissionRequestParams] = []

    def allow(params: PermissionRequestParams) -> PermissionRequestResult:
        asked.append(params)
        (option,) = [each for each in params.options if each.kind == "allow_once"]
        return PermissionRequestResult(option_id=option.id)

    replies = [[call("bash", command="echo yes > x")], [say("done")]]
    handlers = {"permission/request": allow}
    async with connected(tmp_path, replies, handlers=handlers) as client:
        await (await client.default_session()).prompt("go")
    assert [each.tool_name for each in asked] == ["bash"]
    assert (tmp_path / "x").read_text() == "yes\n"


async def test_an_editor_is_asked_for_its_documents(tmp_path: Path) -> None:
    path = tmp_path / "open.txt"
    path.write_text("on the disk\n")
    asked: list[str] = []

    def read(params: ReadDocumentParams) -> ReadDocumentResult:
        asked.append(params.uri)
        return ReadDocumentResult(open=True, text="in the editor\n", version=1, eol="\n")

    replies = [[call("read", path="open.txt")], [say("done")]]
    handlers = {"editor/readDocument": read}
    async with connected(tmp_path, replies, handlers=handlers) as client:
        document = OpenDocument(uri=path.as_uri(), version=1, dirty=True)
        client.notify("editor/didChange", EditorDidChangeParams(open_documents=[document]))
        session = await client.default_session()
        await session.prompt("read it")
        assert "in the editor" in str((await session.messages()).messages)
    assert asked == [path.as_uri()]


def test_every_request_of_the_daemon_can_be_handled_and_declares_what_it_needs() -> None:
    for name, row in METHODS.items():
        if row.sender == "daemon" and name != "agent/event":
            Incoming({name: print})
        if row.sender == "daemon" and row.is_request:
            declared = capabilities({name: print}, EventPreferences())
            assert declared != capabilities({}, EventPreferences()), name


@pytest.mark.parametrize("name", ["agent/event", "prompt", "ui/confrim"])
async def test_a_handler_of_what_is_never_sent_is_refused_at_once(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match=name):
        async with connected(tmp_path, handlers={name: print}):
            pass


async def test_what_the_block_raises_comes_out_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with connected(tmp_path):
            raise KeyError("mine")


# Ends.


async def test_who_waits_learns_how_the_daemon_died_and_its_last_words(tmp_path: Path) -> None:
    failures: list[DaemonEnded] = []

    async def expect(waiting: Any) -> None:
        try:
            await waiting
        except DaemonEnded as error:
            failures.append(error)

    argv = ["sh", "-c", f"echo oh dear >&2; exec {sys.executable} -m pi_rpc --stdio"]
    async with connected(tmp_path, [[say("so"), hold()]], argv=argv) as client:
        session = await client.default_session()
        events = session.events()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expect, session.prompt("hello"))
            await until(events, MessageUpdate)
            tasks.start_soon(expect, session.compact())
            os.kill(client.process.pid, signal.SIGKILL)
        with pytest.raises(DaemonEnded, match="while events were awaited"):
            await until(events, AgentSettled)
        with pytest.raises(DaemonEnded, match="before it had answered `ping`"):
            await client.ping()
    assert len(failures) == 2
    for failure in failures:
        assert failure.exit_code == 128 + 9
        assert "oh dear" in str(failure)
    assert any("`prompt`" in str(failure) for failure in failures)


async def test_a_program_that_is_no_daemon_is_told_from_one(tmp_path: Path) -> None:
    with pytest.raises(DaemonEnded, match=r"exit code 3 .*`initialize`(?s:.*)no such option"):
        async with connected(tmp_path, argv=["sh", "-c", "echo no such option >&2; exit 3"]):
            pass
    with pytest.raises(OSError, match="not-there"):
        async with connected(tmp_path, argv=[str(tmp_path / "not-there")]):
            pass
    with pytest.raises(TimeoutError):
        async with connected(tmp_path, argv=["sleep", "60"], start_timeout_s=0.1):
            pass


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon is given the time to end by itself, however busy this machine is."""
    for name in ("_SHUTDOWN_S", "_EXIT_S"):
        monkeypatch.setattr(client_module, name, DEADLINE_S)


@pytest.mark.usefixtures("unhurried")
async def test_a_closed_client_says_so_and_its_events_end(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        session = await client.default_session()
        events = session.events()
        await client.close()
        await client.close()
        assert client.process.exit_code == 0
        with pytest.raises(DaemonEnded, match="was closed"):
            await session.state()
        with anyio.fail_after(DEADLINE_S):
            assert [event async for event in events if isinstance(event, AgentSettled)] == []
            assert [event async for event in session.events()] == []


@pytest.mark.usefixtures("unhurried")
async def test_the_end_of_the_block_ends_the_daemon_and_what_it_started(tmp_path: Path) -> None:
    marker = new_marker()
    command = f"setsid sleep {marker} & sleep {marker}"
    async with connected(tmp_path, [[call("bash", command=command)]], session=FULL) as client:
        session = await client.default_session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.prompt, "go")
            await wait_until_alive(marker, 2)
            tasks.cancel_scope.cancel()
    assert client.process.exit_code == 0
    assert survivors(marker) == {}


async def test_a_daemon_that_does_not_listen_is_ended_all_the_same(tmp_path: Path) -> None:
    marker = new_marker()
    script = f"trap '' TERM HUP; sleep {marker} & cat >/dev/null; sleep {marker}"
    with anyio.fail_after(DEADLINE_S), pytest.raises(TimeoutError):
        async with PiRpc.spawn(
            ["sh", "-c", script], cwd=tmp_path, env=environment(tmp_path), start_timeout_s=0.2
        ):
            pass
    assert survivors(marker) == {}


async def test_a_cancelled_client_leaves_nothing_behind(tmp_path: Path) -> None:
    marker = new_marker()
    replies = [[call("bash", command=f"sleep {marker}")]]
    with anyio.CancelScope() as scope:
        async with connected(tmp_path, replies, session=FULL) as client:
            session = await client.default_session()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.prompt, "go")
                await wait_until_alive(marker, 1)
                scope.cancel()
    assert scope.cancelled_caught
    assert survivors(marker) == {}


KILLED = """
import sys, anyio
from pathlib import Path
from pi_rpc.client import PiRpc
from pi_rpc.protocol.base import SessionNewParams

async def main():
    session = SessionNewParams(permission_mode="full")
    async with PiRpc.spawn(cwd=sys.argv[1], session=session) as client:
        await (await client.default_session()).prompt("go")

anyio.run(main)
"""


async def test_a_client_that_is_killed_leaves_no_orphan(tmp_path: Path) -> None:
    marker = new_marker()
    env = environment(tmp_path, [[call("bash", command=f"setsid sleep {marker} & sleep {marker}")]])
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=env)
    try:
        await wait_until_alive(marker, 2)
    finally:
        process.kill()
        process.wait()
    await wait_until_gone(marker)


async def test_five_lives_leave_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    async with connected(tmp_path):
        pass
    open_before, threads_before = open_descriptors(), threading.active_count()
    for _ in range(5):
        async with connected(tmp_path) as client:
            await client.ping()
    assert open_descriptors() == open_before
    with anyio.fail_after(DEADLINE_S):
        while threading.active_count() > threads_before:
            await anyio.sleep(0.01)


async def test_a_package_of_the_same_name_in_the_working_directory_is_not_run(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    (project / "pi_rpc").mkdir(parents=True)
    (project / "pi_rpc" / "__init__.py").write_text("raise SystemExit('somebody else')")
    async with connected(tmp_path / "home", cwd=project) as client:
        state = await (await client.default_session()).state()
    assert state.cwd == str(project)


async def test_a_command_of_the_person_streams_its_output(tmp_path: Path) -> None:
    async with connected(tmp_path, session=FULL) as client:
        session = await client.default_session()
        events = session.events()
        result = await session.bash("echo out; exit 4", token="mine")
        assert (result.output.strip(), result.exit_code) == ("out", 4)
        told = (await until(events, BashOutput))[-1]
        assert isinstance(told, BashOutput)
        assert (told.token, told.delta) == ("mine", "out\n")
