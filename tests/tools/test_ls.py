"""The ls tool: what it shows of a directory, and what it refuses."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import TextBlock
from pi_rpc.tools.ls import ls_tool
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio


def text_of(result: ToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextBlock)
    return block.text


async def test_entries_are_in_order_whatever_their_case_and_directories_have_a_slash(
    call: Call, workdir: Path
) -> None:
    for name in ("b.py", "A.md", ".env", "Zoo", "zoo"):
        (workdir / name).touch()
    (workdir / "src").mkdir()
    (workdir / "link").symlink_to("src")
    (workdir / "gone").symlink_to("nowhere")
    (workdir / "loop").symlink_to("loop")
    result = await call(ls_tool())
    assert text_of(result).split("\n") == [
        ".env",
        "A.md",
        "b.py",
        "gone",
        "link/",
        "loop",
        "src/",
        "Zoo",
        "zoo",
    ]
    assert result.details == {}


async def test_an_empty_directory_is_said_to_be(call: Call, workdir: Path) -> None:
    assert text_of(await call(ls_tool(), path=".")) == "(empty directory)"


async def test_of_a_large_directory_the_first_names_are_shown_and_all_are_counted(
    call: Call, workdir: Path
) -> None:
    for number in range(4500):
        (workdir / f"{number:05}").touch()
    (workdir / "00002x").mkdir()
    result = await call(ls_tool(), limit=4)
    lines = text_of(result).split("\n")
    assert lines[:4] == ["00000", "00001", "00002", "00002x/"]
    assert lines[5].startswith("[Only the first 4 of 4501 entries are shown.")
    assert result.details == {"entryLimitReached": 4}
    usual = text_of(await call(ls_tool()))
    assert usual.count("\n") == 501


async def test_long_names_are_cut_at_whole_lines_below_the_limit_of_bytes(
    call: Call, workdir: Path
) -> None:
    for number in range(400):
        (workdir / f"{number:03}{'x' * 200}").touch()
    result = await call(ls_tool(), limit=1000)
    names, _, note = text_of(result).rpartition("\n\n")
    assert 50_900 < len(names) <= 51_200
    assert "50.0KB limit" in note


async def test_names_that_are_not_unicode_or_break_lines_are_shown_escaped(
    call: Call, workdir: Path
) -> None:
    Path(os.fsdecode(os.fsencode(workdir) + b"/caf\xe9")).touch()
    (workdir / "new\nline").touch()
    assert text_of(await call(ls_tool())) == "caf\\udce9\nnew\\nline"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a.txt", "a.txt is a file, not a directory"),
        ("/dev/zero", "neither a file nor a directory"),
        ("gone", "does not exist"),
        ("loop", "circle"),
        ("a.txt/x", "not a directory"),
        ("a\0b", "NUL"),
        ("x" * 5000, "too long"),
    ],
)
async def test_what_is_no_directory_is_refused_in_words(
    call: Call, workdir: Path, path: str, reason: str
) -> None:
    (workdir / "a.txt").touch()
    (workdir / "loop").symlink_to("loop")
    with pytest.raises(ToolFailure) as failure:
        await call(ls_tool(), path=path)
    assert reason in failure.value.message


async def test_a_directory_that_goes_away_or_may_not_be_read_is_named(
    call: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "closed").mkdir()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ToolFailure, match=r"closed could not be listed: permission denied\."):
        await call(ls_tool(), path="closed")


async def test_an_abort_is_noticed_between_two_pieces(call: Call, workdir: Path) -> None:
    (workdir / "a").touch()
    controller = AbortController()
    controller.abort()
    with pytest.raises(ToolFailure, match="Aborted"):
        await call(ls_tool(), signal=controller.signal)


def test_a_call_is_titled_with_the_directory(
    file_context: Callable[..., ToolContext], workdir: Path
) -> None:
    describe = ls_tool().describe
    assert describe is not None
    assert describe({}, file_context()).title == "ls ."
    assert describe({"path": "src"}, file_context()).title == "ls src"
    assert [each.uri for each in describe({}, file_context()).locations] == [workdir.as_uri()]
