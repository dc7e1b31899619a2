"""The find tool: which names it shows, how, and what it refuses."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.llm.messages import TextBlock
from pi_rpc.tools.find import find_tool
from tests.deadlines import DEADLINE_S
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio


def text_of(result: ToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextBlock)
    return block.text


@pytest.fixture
def tree(workdir: Path) -> Path:
    for name in (
        "README.md",
        ".env",
        "src/main.py",
        "src/Main_Test.py",
        "src/deep/main.c",
        "src/deep/src/x.py",
        "build/out.py",
        ".git/config.py",
        "docs/guide.md",
    ):
        (workdir / name).parent.mkdir(parents=True, exist_ok=True)
        (workdir / name).touch()
    (workdir / ".gitignore").write_text("build/\n")
    (workdir / "empty").mkdir()
    return workdir


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["src/Main_Test.py", "src/deep/src/x.py", "src/main.py"]),
        ("main*", ["src/Main_Test.py", "src/deep/main.c", "src/main.py"]),
        ("Main*", ["src/Main_Test.py"]),
        ("src", ["src/", "src/deep/src/"]),
        ("src/", ["src/", "src/deep/src/"]),
        ("src/*", ["src/Main_Test.py", "src/deep/", "src/main.py"]),
        ("/src/*.py", ["src/Main_Test.py", "src/main.py"]),
        ("src/**/*.py", ["src/Main_Test.py", "src/deep/src/x.py", "src/main.py"]),
        ("**/*.md", ["README.md", "docs/guide.md"]),
        ("*.{md,c}", ["README.md", "docs/guide.md", "src/deep/main.c"]),
        ("[Rg]*.md", ["README.md", "docs/guide.md"]),
        ("?env", [".env"]),
        (".env", [".env"]),
        ("out.py", []),
        ("empty", []),
        ("config.py", []),
        ("-x", []),
        ("new\nline", []),
    ],
)
async def test_a_pattern_finds(call: Call, tree: Path, pattern: str, found: list[str]) -> None:
    result = text_of(await call(find_tool(), pattern=pattern))
    assert result == ("\n".join(found) or "No files found matching pattern")


async def test_a_pattern_with_the_directory_in_front_of_it_is_understood(
    call: Call, tree: Path
) -> None:
    result = await call(find_tool(), pattern=f"{tree}/src/*.py", path=".")
    assert text_of(result) == "src/Main_Test.py\nsrc/main.py"


async def test_paths_are_relative_to_the_directory_that_was_searched(
    call: Call, tree: Path
) -> None:
    assert text_of(await call(find_tool(), pattern="*.c", path="src")) == "deep/main.c"
    assert text_of(await call(find_tool(), pattern="*.py", path="build")) == "out.py"
    assert text_of(await call(find_tool(), pattern="*.py", path=".git")) == "config.py"


async def test_at_the_limit_the_rest_is_announced_and_exactly_the_limit_is_not(
    call: Call, tree: Path
) -> None:
    whole = await call(find_tool(), pattern="*.py", limit=3)
    assert len(text_of(whole).splitlines()) == 3
    assert whole.details == {}
    cut = await call(find_tool(), pattern="*.py", limit=2)
    names, _, note = text_of(cut).partition("\n\n")
    assert len(names.splitlines()) == 2
    assert note.startswith("[Only 2 paths are shown and there are more. Use limit=4")
    assert cut.details == {"resultLimitReached": 2}


async def test_a_thousand_paths_are_shown_at_most_and_no_more_than_fifty_kilobytes(
    call: Call, workdir: Path
) -> None:
    for number in range(1100):
        (workdir / f"{number:04}{'x' * 60}").touch()
    result = await call(find_tool(), pattern="*")
    names, _, note = text_of(result).rpartition("\n\n")
    assert 51_000 < len(names) <= 51_200
    assert "50.0KB limit" in note
    assert result.details["truncation"]["outputLines"] == len(names.splitlines())
    every = await call(find_tool(), pattern="*", limit=5000)
    assert text_of(every).startswith("0")


async def test_names_that_are_not_unicode_are_shown_escaped(call: Call, workdir: Path) -> None:
    Path(os.fsdecode(os.fsencode(workdir) + b"/caf\xe9")).touch()
    (workdir / "new\nline").touch()
    assert text_of(await call(find_tool(), pattern="*")) == "caf\\udce9\nnew\\nline"


async def test_pipes_and_links_are_listed_and_nothing_is_followed(
    call: Call, workdir: Path
) -> None:
    os.mkfifo(workdir / "pipe")
    (workdir / "up").symlink_to("..")
    (workdir / "gone").symlink_to("nowhere")
    (workdir / "a").touch()
    with anyio.fail_after(DEADLINE_S):
        found = text_of(await call(find_tool(), pattern="*")).splitlines()
    assert "a" in found
    assert not [name for name in found if name.startswith("up/")]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"pattern": "*", "path": "README.md"}, "is a file; find looks for files below"),
        ({"pattern": "*", "path": "/dev/null"}, "neither a file nor a directory"),
        ({"pattern": "*", "path": "gone"}, "does not exist"),
        ({"pattern": "*", "path": "loop"}, "circle"),
        ({"pattern": "*", "path": "a\0b"}, "NUL"),
        ({"pattern": "a\0b"}, "NUL"),
        ({"pattern": "\ud800"}, "surrogate"),
        ({"pattern": "x" * 5000}, "longer than 4096"),
        ({"pattern": "../*"}, "leads out of the directory"),
        ({"pattern": ""}, "names nothing"),
        ({"pattern": "./"}, "names nothing"),
        ({"pattern": "[z-a]"}, "goes backwards"),
        ({"pattern": "{a,b}" * 12}, "more than 500"),
    ],
)
async def test_what_cannot_be_searched_is_refused_in_words(
    call: Call, tree: Path, params: dict[str, str], reason: str
) -> None:
    (tree / "loop").symlink_to("loop")
    with anyio.fail_after(DEADLINE_S), pytest.raises(ToolFailure) as failure:
        await call(find_tool(), **params)
    assert reason in failure.value.message


async def test_a_pattern_full_of_stars_takes_no_longer_than_another(
    call: Call, workdir: Path
) -> None:
    (workdir / ("a" * 250)).touch()
    deep = workdir / "/".join("a" * 50)
    deep.mkdir(parents=True)
    (deep / "a").touch()
    with anyio.fail_after(DEADLINE_S):
        for pattern in (f"{'*a' * 100}b", f"{'**/a/' * 40}b", "**/*a*/" * 20 + "b"):
            result = text_of(await call(find_tool(), pattern=pattern))
            assert result == "No files found matching pattern"


def test_a_call_is_titled_with_what_it_looks_for_and_where(
    file_context: Callable[..., ToolContext], workdir: Path
) -> None:
    describe = find_tool().describe
    assert describe is not None
    shown = describe({"pattern": "*.py", "path": "src"}, file_context())
    assert shown.title == "find *.py in src"
    assert [each.uri for each in shown.locations] == [(workdir / "src").as_uri()]
