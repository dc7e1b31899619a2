"""The bash tool."""

import os
import re
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from msgspec import UNSET, json

from pi_rpc.agent.ports import CommandExit, PortError, ToolContext
from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import text_of
from pi_rpc.tools import _command_output
from pi_rpc.tools._local_shell import LocalShell
from pi_rpc.tools.bash import bash_tool
from pi_rpc.tools.command_runs import LIVE_OUTPUT_LIMIT
from tests.deadlines import DEADLINE_S
from tests.os.survivors import new_marker, survivors, wait_until_alive

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="commands run on POSIX systems"),
]


class Calls:
    """Calls the tool and keeps its updates."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self.updates: list[ToolResult] = []
        self.controller = AbortController()

    async def __call__(self, command: str, **params: Any) -> ToolResult:
        self.updates.clear()
        return await bash_tool().run(
            "call-1",
            {"command": command, **params},
            self.controller.signal,
            self.updates.append,
            self.context,
        )

    @property
    def deltas(self) -> str:
        return "".join(str(update.delta) for update in self.updates)


@pytest.fixture
async def bash(
    file_context: Callable[..., ToolContext], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Calls]:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shell = LocalShell()
    context = file_context()
    yield Calls(ToolContext(cwd=context.cwd, files=context.files, shell=shell))
    await shell.aclose()


class ScriptedShell:
    """A shell that writes given pieces, then ends as told."""

    def __init__(self, *pieces: bytes, end: CommandExit | Exception | None = None) -> None:
        self.pieces = pieces
        self.end = end or CommandExit(0, "exited", 1.5)
        self.asked: dict[str, Any] = {}
        self.between: Callable[[], Any] = anyio.lowlevel.checkpoint

    async def run(self, command: str, **asked: Any) -> CommandExit:
        self.asked = {"command": command, **asked}
        for piece in self.pieces:
            asked["on_output"](piece)
            await self.between()
        if isinstance(self.end, Exception):
            raise self.end
        return self.end

    async def aclose(self) -> None:
        """Nothing to close."""


def scripted(bash: Calls, *pieces: bytes, **fields: Any) -> tuple[Calls, ScriptedShell]:
    shell = ScriptedShell(*pieces, **fields)
    context = ToolContext(
        cwd=bash.context.cwd,
        files=bash.context.files,
        shell=shell,
        environment={"PI_SESSION_ID": "s"},
    )
    return Calls(context), shell


def text(result: ToolResult) -> str:
    return text_of(result.content)


async def test_output_is_the_result(bash: Calls) -> None:
    result = await bash("echo out; echo err >&2")
    assert text(result) == "out\nerr\n"
    assert result.is_error is UNSET
    assert result.details == {}
    structured = result.structured_content
    assert isinstance(structured.pop("wall_time_seconds"), float)
    assert structured == {"output": "out\nerr\n", "truncated": False, "exit_code": 0}


async def test_silence_is_said(bash: Calls) -> None:
    assert text(await bash("true")) == "(no output)"


async def test_it_runs_in_the_working_directory_with_the_sessions_variables(bash: Calls) -> None:
    assert text(await bash("pwd")) == f"{bash.context.cwd}\n"
    calls, shell = scripted(bash)
    await calls("env")
    assert shell.asked["env"] == {"PI_SESSION_ID": "s"}
    assert shell.asked["cwd"] == bash.context.cwd


@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -KILL $$", 137)])
async def test_a_failure_is_an_error_with_output_and_exit_code(
    bash: Calls, end: str, code: int
) -> None:
    result = await bash(f"echo before; {end}")
    assert text(result) == f"before\n\nCommand exited with code {code}"
    assert result.is_error is True
    assert result.structured_content["exit_code"] == code


async def test_a_time_limit_ends_the_command_and_keeps_its_output(bash: Calls) -> None:
    marker = new_marker()
    await bash("true")  # what is started with the first command takes none of the time
    result = await bash(f"echo before; setsid --wait sleep {marker}", timeout=1.5)
    assert text(result) == (
        "before\n\nCommand timed out after 1.5 seconds. "
        "Set timeout (in seconds, 0 for no limit) to allow more."
    )
    assert result.is_error is True
    assert result.structured_content["exit_code"] is None
    assert survivors(marker) == {}


async def test_a_time_limit_in_the_background_tells_that_the_shell_was_done(bash: Calls) -> None:
    calls, _ = scripted(bash, b"x", end=CommandExit(4, "timed_out", 2.0))
    result = await calls("x", timeout=2)
    assert "Command timed out after 2 seconds" in text(result)
    assert "exited with code 4" in text(result)
    assert result.structured_content["exit_code"] is None


async def test_an_abort_keeps_the_output_so_far(bash: Calls) -> None:
    marker = new_marker()
    results = []

    async def call() -> None:
        results.append(await bash(f"echo before; sleep {marker}"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await wait_until_alive(marker, 1)
        bash.controller.abort()
    assert text(results[0]) == "before\n\nCommand aborted"
    assert results[0].is_error is True
    assert survivors(marker) == {}


@pytest.mark.parametrize(
    ("asked", "usual", "limit"),
    [
        (None, 600.0, 600.0),
        (None, None, None),
        (None, 0.0, None),
        (0, 600.0, None),
        (2, 600.0, 2.0),
        (0.5, None, 0.5),
    ],
)
async def test_the_time_limit_is_the_asked_for_else_the_usual_and_zero_is_none(
    bash: Calls, asked: float | None, usual: float | None, limit: float | None
) -> None:
    _, shell = scripted(bash)
    context = ToolContext(
        cwd=bash.context.cwd, files=bash.context.files, shell=shell, command_timeout_s=usual
    )
    await Calls(context)("x", **({} if asked is None else {"timeout": asked}))
    assert shell.asked["timeout_s"] == limit


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 3e9, "5", True])
async def test_a_senseless_time_limit_is_refused_and_nothing_runs(
    bash: Calls, timeout: Any
) -> None:
    with pytest.raises(ToolFailure, match="timeout"):
        await bash("touch ran", timeout=timeout)
    assert list(bash.context.cwd.iterdir()) == []


async def test_a_command_that_cannot_run_fails_with_the_reason(bash: Calls) -> None:
    calls, _ = scripted(bash, end=PortError("spawn_failed", "no such shell"))
    with pytest.raises(ToolFailure, match="no such shell"):
        await calls("x")


async def test_many_lines_are_cut_to_the_last_and_the_file_has_all(
    bash: Calls, tmp_path: Path
) -> None:
    result = await bash("seq 5000")
    path = Path(result.details["fullOutputPath"])
    assert text(result) == (
        "\n".join(str(n) for n in range(3001, 5001))
        + f"\n\n[Showing lines 3001-5000 of 5000. Full output: {path}]"
    )
    assert path.parent == tmp_path
    assert re.fullmatch(r"pi-bash-.+\.log", path.name)
    assert path.read_text() == "".join(f"{n}\n" for n in range(1, 5001))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert result.structured_content["full_output_path"] == str(path)
    assert result.structured_content["truncated"] is False
    cut = result.details["truncation"]
    assert (cut["truncatedBy"], cut["totalLines"], cut["outputLines"]) == ("lines", 5000, 2000)


async def test_many_bytes_are_cut_at_a_line(bash: Calls) -> None:
    result = await bash("yes $(printf %099d 0) | head -n 1000; exit 2")
    shown, note, outcome = text(result).rsplit("\n\n", 2)
    assert shown == "\n".join(["0" * 99] * 512)
    assert note.startswith("[Showing lines 489-1000 of 1000 (50.0KB limit). Full output: ")
    assert outcome == "Command exited with code 2"


async def test_one_huge_line_is_cut_inside(bash: Calls) -> None:
    result = await bash("head -c 300000 /dev/zero | tr '\\0' x; echo")
    shown, note = text(result).split("\n\n")
    assert shown == "x" * 51_200
    assert note.startswith("[Showing the last 50.0KB of line 1, which has 293.0KB. Full output: ")


async def test_output_beyond_what_is_kept_has_its_numbers_right(bash: Calls) -> None:
    result = await bash("seq 1000000")
    lines = text(result).split("\n")
    assert lines[0] == "998001"
    assert "[Showing lines 998001-1000000 of 1000000. Full output: " in lines[-1]
    cut = result.details["truncation"]
    assert (cut["totalLines"], cut["totalBytes"]) == (1_000_000, 6_888_896)
    assert Path(result.details["fullOutputPath"]).stat().st_size == 6_888_896
    output = result.structured_content["output"]
    assert result.structured_content["truncated"] is True
    assert output.startswith("1\n2\n")
    assert output.endswith("\n999999\n1000000\n")
    assert "\n[... 5840320 bytes left out ...]\n" in output
    assert len(output) <= 1024 * 1024 + 100


async def test_the_file_stops_at_its_limit_and_the_note_says_so(
    bash: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_command_output, "FULL_OUTPUT_LIMIT", 60_000)
    result = await bash("yes | head -c 400000")
    path = Path(result.details["fullOutputPath"])
    assert path.read_bytes() == b"y\n" * 30_000
    assert f"The first 100 MB of the output: {path}]" in text(result)


async def test_files_that_nobody_will_ask_for_any_more_are_removed(
    bash: Calls, tmp_path: Path
) -> None:
    def left(name: str, days: float, size: int = 10) -> Path:
        path = tmp_path / name
        path.touch()
        os.truncate(path, size)  # a hole: it takes up nothing
        os.utime(path, (time.time() - days * 86_400,) * 2)
        return path

    old = [left("pi-bash-rpc-a.log", 8), left("pi-bash-rpc-b.sh", 8)]
    large = [left("pi-bash-rpc-c.log", 0.2, 600_000_000), left("pi-bash-rpc-d.log", 0.1, 5 * 10**8)]
    fresh = left("pi-bash-rpc-e.log", 0.01, 2 * 10**9)
    others = [left("pi-bash-x.log", 8), left("pi-bash-rpc-f.txt", 8), left("notes.log", 8)]
    (tmp_path / "pi-bash-rpc-g.log").mkdir()
    await bash("seq 3000")
    assert [path for path in (*old, *large, fresh, *others) if not path.exists()] == [*old, *large]
    late = left("pi-bash-rpc-h.log", 8)
    await bash("seq 3000")  # not each time
    assert late.exists()


async def test_a_file_that_cannot_be_made_costs_only_the_file(
    bash: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    result = await bash("seq 5000")
    assert text(result).endswith("The full output was not kept: No such file or directory]")
    assert "fullOutputPath" not in result.details


async def test_a_full_disk_costs_only_the_file(
    bash: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, offset: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(_command_output, "write_at", full)
    result = await bash("seq 5000")
    assert text(result).endswith("The full output was not kept: No space left on device]")
    assert list(tmp_path.glob("pi-bash-*")) == []


async def test_a_slow_disk_does_not_make_memory_grow(
    bash: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the threads cannot write in time is written at once, in its right place."""
    piece = b"".join(b"%07d\n" % n for n in range(8192))
    pieces = [bytes([65 + n % 26]) * 8 + piece[8:] for n in range(400)]
    calls, shell = scripted(bash, *pieces)
    real = _command_output.write_at
    here = threading.current_thread()
    inline: list[bool] = []

    def write(fd: int, data: bytes, offset: int) -> None:
        real(fd, data, offset)
        inline.append(threading.current_thread() is here)

    async def until_the_file_is_open() -> None:
        # Afterwards the event loop is not given to the writing threads again.
        with anyio.fail_after(DEADLINE_S):
            while not inline:
                await anyio.sleep(0.001)

    monkeypatch.setattr(_command_output, "write_at", write)
    shell.between = until_the_file_is_open
    result = await calls("x")
    assert True in inline
    assert Path(result.details["fullOutputPath"]).read_bytes() == b"".join(pieces)


async def test_invalid_bytes_are_replaced_and_split_characters_are_not(bash: Calls) -> None:
    calls, _ = scripted(bash, b"a\xe2\x82", b"\xac \xff b\xf0\x9f", b"\x98\x80")
    result = await calls("x")
    assert text(result) == "a€ \ufffd b😀"
    assert calls.deltas == "a€ \ufffd b😀"
    assert json.decode(json.encode(result))["content"][0]["text"] == "a€ \ufffd b😀"


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("printf 'a\\0b\\n'", "a\0b\n"),
        ("printf '\\377\\376x'", "\ufffd\ufffdx"),
        ("printf '\\303'; sleep 0.05; printf '\\244'", "\xe4"),
        ("printf '\\303'", "\ufffd"),
        ("printf '\\355\\240\\200'", "\ufffd\ufffd\ufffd"),
        ("echo before; exec >&- 2>&-; sleep 0.05; echo after", "before\n"),
        ('d=$(mktemp -d); cd "$d"; rmdir "$d"; echo still', "still\n"),
        ("ulimit -n 5; exec 4<&1; echo few", "few\n"),
        ("kill -STOP $PPID; echo stopped", "stopped\n"),
        ("stty raw 2> /dev/null || echo no terminal", "no terminal\n"),
    ],
)
async def test_whatever_a_command_prints_or_does_is_told(
    bash: Calls, command: str, content: str
) -> None:
    result = await bash(command, timeout=DEADLINE_S)
    assert text(result).startswith(content)
    assert bash.deltas == content
    assert json.encode(result)


async def test_a_command_that_prints_without_end_ends_by_itself_in_little_memory(
    bash: Calls, tmp_path: Path
) -> None:
    size = 400_000_000
    before = psutil.Process().memory_info().rss
    largest = 0

    async def watch() -> None:
        nonlocal largest
        while True:
            largest = max(largest, psutil.Process().memory_info().rss)
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        result = await bash(f"yes | head -c {size}")
        tasks.cancel_scope.cancel()
    assert f"of {size // 2}." in text(result) or f"of {size // 2} (" in text(result)
    assert largest - before < 40_000_000
    (path,) = tmp_path.glob("pi-bash-rpc-*.log")
    assert path.stat().st_size == _command_output.FULL_OUTPUT_LIMIT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    assert len(bash.updates) < 400


async def test_updates_begin_empty_and_together_are_the_output(bash: Calls) -> None:
    result = await bash("for i in 1 2 3; do echo $i; sleep 0.12; done")
    assert bash.updates[0] == ToolResult(content=[], delta="")
    assert bash.deltas == "1\n2\n3\n" == text(result)
    assert len(bash.updates) == 4
    assert all(update.omitted_bytes is UNSET for update in bash.updates)


async def test_updates_are_merged(bash: Calls) -> None:
    result = await bash("for i in $(seq 500); do echo $i; done")
    assert bash.deltas == text(result)
    assert len(bash.updates) < 50


async def test_updates_stop_after_their_limit_and_count_what_they_omit(bash: Calls) -> None:
    calls, _ = scripted(bash, *[b"0123456789abcdef" * 4096] * 8)
    await calls("x")
    assert len(calls.deltas) == LIVE_OUTPUT_LIMIT
    assert calls.updates[-1].omitted_bytes == 8 * 65_536 - LIVE_OUTPUT_LIMIT


async def test_updates_have_no_escape_sequences_and_the_result_has_all(bash: Calls) -> None:
    red = b"\x1b[1;31mred\x1b[0m"
    link = b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x07"
    calls, _ = scripted(bash, b"a" + red[:4], red[4:] + link[:9], link[9:] + b"\x1b(B end\x1b[")
    result = await calls("x")
    assert calls.deltas == "aredlink end"
    assert text(result).encode() == b"a" + red + link + b"\x1b(B end\x1b["


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_escape_sequences_go_wherever_they_are_cut(size: int) -> None:
    sequences = (
        "\x1b[31m", "\x1b[?25l", "\x1b[1;2H", "\x1b]0;title\x07", "\x1b]2;title\x1b\\",
        "\x1bP1$r\x1b\\", "\x1b(0", "\x1b7", "\x1bM", "\x1b=", "\x9b", "\x1bc",
    )  # fmt: skip
    whole = "".join(f"{sequence}x{n}" for n, sequence in enumerate(sequences))
    strip = _command_output.EscapeStripper()
    pieces = [strip(whole[start : start + size]) for start in range(0, len(whole), size)]
    assert "".join(pieces) == "".join(f"x{n}" for n in range(len(sequences)))


async def test_text_after_an_escape_sequence_that_never_ends_is_shown() -> None:
    strip = _command_output.EscapeStripper()
    shown = strip("\x1b]0;" + "x" * 3000) + strip("y" * 3000) + strip("z")
    assert shown.endswith("z")
    assert "\x1b" not in shown


async def test_endless_output_is_cut_short_by_the_time_limit(bash: Calls) -> None:
    await bash("true")  # what is started with the first command takes none of the time
    result = await bash("yes", timeout=1.5)
    assert text(result).endswith("to allow more.")
    assert len(text(result)) < 60_000
    assert Path(result.details["fullOutputPath"]).stat().st_size <= 100_000_000


async def test_a_cancelled_call_ends_the_command(bash: Calls) -> None:
    marker = new_marker()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bash, f"sleep {marker}")
        await wait_until_alive(marker, 1)
        tasks.cancel_scope.cancel()
    assert survivors(marker) == {}


def test_a_call_is_described_by_its_command_on_one_short_line() -> None:
    tool = bash_tool()
    assert tool.kind == "execute"
    assert tool.describe is not None
    assert tool.describe({"command": "make \\\n  test"}, None).title == "$ make \\ test"
    title = tool.describe({"command": "x" * 500}, None).title
    assert len(title) == 120
    assert title.endswith("…")
    assert tool.describe({}, None).title == "$ "
