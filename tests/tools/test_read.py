"""The read tool: portions, notes, refusals."""

import json
import os
import shlex
import subprocess
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pi_rpc.agent.ports import FileStat, OpenFile, ToolContext
from pi_rpc.agent.tool import Position, Range, ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import TextBlock
from pi_rpc.tools._local_files import LocalFiles
from pi_rpc.tools.read import read_tool
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio

READ = read_tool()


def text_of(result: ToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextBlock)
    return block.text


def numbered(count: int, start: int = 1) -> str:
    return "".join(f"line {n}\n" for n in range(start, start + count))


async def test_a_small_file_is_returned_as_it_is(call: Call, workdir: Path) -> None:
    content = "one\r\ntwo\r\n\r\nthree é"
    (workdir / "f").write_bytes(content.encode())
    result = await call(READ, path="f")
    assert text_of(result) == content
    assert result.details == {}


async def test_a_long_file_is_cut_at_two_thousand_lines(call: Call, workdir: Path) -> None:
    (workdir / "f").write_text(numbered(2500))
    result = await call(READ, path="f")
    assert text_of(result) == (
        numbered(2000) + "\n[Showing lines 1-2000 of 2500. Use offset=2001 to go on.]"
    )
    truncation = result.details["truncation"]
    assert truncation["truncatedBy"] == "lines"
    assert (truncation["totalLines"], truncation["outputLines"]) == (2500, 2000)
    assert truncation["totalBytes"] == len(numbered(2500))
    json.dumps(result.details)


async def test_a_file_of_exactly_two_thousand_lines_is_whole(call: Call, workdir: Path) -> None:
    (workdir / "f").write_text(numbered(2000))
    assert text_of(await call(READ, path="f")) == numbered(2000)


async def test_wide_lines_are_cut_at_fifty_kibibytes(call: Call, workdir: Path) -> None:
    (workdir / "f").write_text(("x" * 1023 + "\n") * 100)
    result = await call(READ, path="f", offset=11)
    text = text_of(result)
    assert text.endswith("\n\n[Showing lines 11-60 of 100 (50.0KB limit). Use offset=61 to go on.]")
    assert text.count("\n") == 51
    assert result.details["truncation"]["truncatedBy"] == "bytes"
    assert result.details["truncation"]["totalLines"] == 90


async def test_following_the_notes_reads_the_whole_file_once(call: Call, workdir: Path) -> None:
    content = "".join(f"{n} {'é' * (n % 300)}\n" for n in range(3000))
    (workdir / "f").write_text(content)
    seen, offset = "", 1
    while offset:
        text, _, note = text_of(await call(READ, path="f", offset=offset)).rpartition("\n\n[")
        if not text:
            text, note = note, ""
        seen += text if text.endswith("\n") else text + "\n"
        offset = int(note.partition("offset=")[2].partition(" ")[0]) if note else 0
    assert seen == content


async def test_offset_and_limit_choose_lines_and_say_what_is_left(
    call: Call, workdir: Path
) -> None:
    (workdir / "f").write_text(numbered(10))
    assert text_of(await call(READ, path="f", offset=4, limit=2)) == (
        "line 4\nline 5\n\n[5 more lines in the file. Use offset=6 to go on.]"
    )
    assert "[1 more line in" in text_of(await call(READ, path="f", limit=9))
    assert text_of(await call(READ, path="f", offset=9)) == numbered(2, 9)
    assert text_of(await call(READ, path="f", offset=9, limit=2)) == numbered(2, 9)
    assert text_of(await call(READ, path="f", offset=0, limit=1)).startswith("line 1\n")


async def test_an_offset_past_the_end_is_an_error_that_says_how_long_the_file_is(
    call: Call, workdir: Path
) -> None:
    (workdir / "f").write_text(numbered(10))
    with pytest.raises(ToolFailure, match="Offset 11 is past the end: f has 10 lines"):
        await call(READ, path="f", offset=11)


async def test_an_empty_file_says_so(call: Call, workdir: Path) -> None:
    (workdir / "f").write_bytes(b"")
    assert text_of(await call(READ, path="f")) == "[The file is empty.]"


async def test_a_line_that_is_too_long_is_not_shown_and_the_hint_works(
    call: Call, workdir: Path
) -> None:
    name = "it's long"
    (workdir / name).write_text("short\n" + "x" * 60_000 + "\nend\n")
    text = text_of(await call(READ, path=name, offset=2))
    assert text.startswith("[Line 2 is 58.6KB, more than the 50.0KB that can be shown.")
    command = text.partition("beginning: ")[2].removesuffix("]")
    shown = subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout
    assert shown == b"x" * 51200
    assert shlex.quote(str(workdir / name)) in command


async def test_invalid_utf8_is_shown_with_replacement_characters(call: Call, workdir: Path) -> None:
    (workdir / "f").write_bytes(b"caf\xe9\nok\n")
    assert text_of(await call(READ, path="f")) == "caf\ufffd\nok\n"
    (workdir / "g").write_bytes(b"\xe9" * 30_000 + b"\n" + b"x")
    result = await call(READ, path="g")  # three bytes for every one: only now too long
    assert result.details["truncation"]["firstLineExceedsLimit"]


async def test_a_byte_order_mark_is_not_shown(call: Call, workdir: Path) -> None:
    (workdir / "f").write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    assert text_of(await call(READ, path="f")) == "one\ntwo\n"


async def test_binary_files_are_refused_in_words(call: Call, workdir: Path) -> None:
    (workdir / "f").write_bytes(b"\x7fELF\0\0\0")
    with pytest.raises(ToolFailure, match="f is a binary file"):
        await call(READ, path="f")
    (workdir / "g").write_bytes("text".encode("utf-16"))
    with pytest.raises(ToolFailure, match="UTF-16"):
        await call(READ, path="g")


async def test_a_text_that_begins_like_a_bitmap_is_text(call: Call, workdir: Path) -> None:
    (workdir / "f.txt").write_text("BM is short for benchmark\n")
    assert text_of(await call(READ, path="f.txt")) == "BM is short for benchmark\n"


@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
@pytest.mark.parametrize("has_wc", [True, False])
async def test_lines_of_a_large_file_are_those_that_counting_by_hand_finds(
    call: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch, ending: str, has_wc: bool
) -> None:
    if not has_wc:
        monkeypatch.setattr("pi_rpc.tools._line_count.shutil.which", lambda _: None)
    monkeypatch.setattr("pi_rpc.tools.read._COUNTED_BY_US", 0)
    lines = [f"{n} " + "x" * (n % 97) for n in range(220_000)]
    (workdir / "f").write_text("\n".join(lines) + ending)
    total = len(lines) + ending.count("\n") - (1 if ending else 0)
    text = text_of(await call(READ, path="f", offset=219_990, limit=3))
    assert text.startswith("\n".join(lines[219_989:219_992]) + "\n\n[")
    assert f"{total - 219_992} more lines" in text
    shown = text_of(await call(READ, path="f", offset=219_999))
    assert shown == "\n".join(lines[219_998:]) + ending
    first = await call(READ, path="f")
    assert f"of {total}" in text_of(first)
    assert first.details["truncation"]["totalBytes"] == (workdir / "f").stat().st_size
    assert first.details["truncation"]["totalLines"] == total
    with pytest.raises(ToolFailure, match=f"f has {total} lines"):
        await call(READ, path="f", offset=total + 1)


async def test_the_end_of_a_huge_file_is_read_with_little_memory(call: Call, workdir: Path) -> None:
    with (workdir / "f").open("wb") as file:
        file.write(b"x" * 9000 + b"\n")
        file.seek(512 * 1024**2)
        file.write(b"\nthe\nend\n")
    tracemalloc.start()
    try:
        text = text_of(await call(READ, path="f", offset=3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text == "the\nend\n"
    assert peak < 4 * 1024 * 1024


async def test_files_of_the_kernel_without_a_size_are_read(call: Call) -> None:
    assert "Name:" in text_of(await call(READ, path="/proc/self/status"))


async def test_a_file_that_goes_between_look_and_open_is_missing(call: Call, workdir: Path) -> None:
    (workdir / "f").write_text("x")

    class Files(LocalFiles):
        async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
            found = await super().stat(path, exact=exact)
            path.unlink()
            return found

    with pytest.raises(ToolFailure, match="f does not exist"):
        await call(READ, path="f", files=Files())


@pytest.mark.parametrize(
    ("asked", "real"),
    [
        ("Shot at 10.00.00 AM.txt", "Shot at 10.00.00\u202fAM.txt"),
        ("café.txt", "cafe\u0301.txt"),
        ("it's.txt", "it\u2019s.txt"),
        ("it's café.txt", "it\u2019s cafe\u0301.txt"),
        ("a\u00a0b.txt", "a b.txt"),
        ("@src.txt", "src.txt"),
    ],
)
async def test_a_file_is_found_under_the_spelling_it_has_on_disk(
    call: Call, workdir: Path, asked: str, real: str
) -> None:
    (workdir / real).write_text("here")
    assert text_of(await call(READ, path=asked)) == "here"


async def test_what_cannot_be_read_fails_with_the_reason(call: Call, workdir: Path) -> None:
    os.mkfifo(workdir / "fifo")
    for path, says, code in (
        ("missing", "missing does not exist", "not_found"),
        (".", "is a directory", "is_directory"),
        ("fifo", "named pipe", "not_regular"),
        ("/dev/zero", "device", "not_regular"),
        ("a\0b", "NUL", "other"),
        ("x" * 300, "too long", "other"),
        ("x/" * 2500, "too long", "other"),
        ("a\nb", r"a\\nb does not exist", "not_found"),
    ):
        with pytest.raises(ToolFailure, match=says) as caught:
            await call(READ, path=path)
        assert caught.value.details == {"code": code}


async def test_a_large_file_is_read_with_little_memory(call: Call, workdir: Path) -> None:
    with (workdir / "f").open("wb") as file:
        file.write(b"first\n" + b"x" * 16_000 + b"\n")
        file.truncate(64 * 1024 * 1024)  # the rest is one line of zero bytes
    tracemalloc.start()
    try:
        text = text_of(await call(READ, path="f", limit=1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text == "first\n\n[2 more lines in the file. Use offset=2 to go on.]"
    assert peak < 4 * 1024 * 1024


async def test_an_abort_stops_a_long_read_between_two_pieces(call: Call, workdir: Path) -> None:
    (workdir / "f").write_bytes(b"line\n" * 200_000)
    controller = AbortController()
    reads: list[int] = []

    class Files(LocalFiles):
        @asynccontextmanager
        async def open(self, path: Path, *, exact: bool = False) -> AsyncIterator[OpenFile]:  # type: ignore[override]
            async with super().open(path, exact=exact) as inner:

                class File:
                    seek = inner.seek

                    async def read(self, size: int) -> bytes:
                        reads.append(size)
                        if len(reads) == 2:
                            controller.abort()
                        return await inner.read(size)

                yield File()

    with pytest.raises(ToolFailure, match="Aborted"):
        await call(READ, path="f", files=Files(), signal=controller.signal)
    assert len(reads) == 2


def test_a_call_is_described_without_touching_the_disk(workdir: Path) -> None:
    context = ToolContext(cwd=Path("/nowhere/at all"), files=None, shell=None)  # type: ignore[arg-type]
    assert READ.describe is not None
    plain = READ.describe({"path": "a b.md"}, context)
    assert plain.title == "read a b.md"
    assert [place.uri for place in plain.locations] == ["file:///nowhere/at%20all/a%20b.md"]
    part = READ.describe({"path": "README.md", "offset": 10, "limit": 11}, context)
    assert part.title == "read README.md:10-20"
    assert part.locations[0].range == Range(
        start=Position(line=9, character=0), end=Position(line=20, character=0)
    )
    assert READ.describe({"path": "f", "limit": 5}, context).title == "read f:1-5"
    assert READ.describe({"path": "f", "offset": 5}, context).title == "read f:5-"
    assert READ.describe({"path": 5, "offset": "x"}, None).title == "read ?"
    assert READ.describe({}, None).locations == ()
