"""The write tool: what is stored, what is said, what failures leave behind."""

import errno
import os
from pathlib import Path

import pytest

import pi_rpc._os.files
from pi_rpc.agent.tool import ToolFailure
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import text_of
from pi_rpc.tools.write import write_tool
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio

WRITE = write_tool()


async def test_a_new_file_is_created_with_its_directories(call: Call, workdir: Path) -> None:
    result = await call(WRITE, path="a/b/é.txt", content="one\r\né\n")
    assert (workdir / "a/b/é.txt").read_bytes() == "one\r\né\n".encode()
    assert text_of(result.content) == "Successfully wrote to a/b/é.txt (8 bytes, a new file)."
    assert result.details == {"created": True}


async def test_an_existing_file_is_replaced_and_the_difference_told(
    call: Call, workdir: Path
) -> None:
    (workdir / "f").write_text("one\ntwo\nthree\n")
    result = await call(WRITE, path="f", content="one\n2\nthree\n")
    assert (workdir / "f").read_text() == "one\n2\nthree\n"
    assert text_of(result.content) == "Successfully wrote to f (12 bytes)."
    assert result.details["created"] is False
    assert result.details["diff"] == " 1 one\n-2 two\n+2 2\n 3 three"
    assert result.details["patch"].startswith("--- f\n+++ f\n@@ -1,3 +1,3 @@\n")
    assert result.details["firstChangedLine"] == 2


@pytest.mark.parametrize("old", [b"\xff\xfe\0", b"x" * 300_000])
async def test_what_cannot_be_compared_is_replaced_all_the_same(
    call: Call, workdir: Path, old: bytes
) -> None:
    (workdir / "f").write_bytes(old)
    result = await call(WRITE, path="f", content="x")
    assert result.details == {"created": False}
    assert (workdir / "f").read_bytes() == b"x"


async def test_an_empty_content_makes_an_empty_file(call: Call, workdir: Path) -> None:
    result = await call(WRITE, path="f", content="")
    assert "(0 bytes, a new file)" in text_of(result.content)
    assert (workdir / "f").read_bytes() == b""


async def test_failures_name_the_file_and_the_reason(call: Call, workdir: Path) -> None:
    (workdir / "locked").write_text("old")
    (workdir / "locked").chmod(0o444)
    for path, says, code in (
        (".", "is a directory", "is_directory"),
        ("locked", "read-only", "not_permitted"),
        ("locked/below", "not a directory", "not_directory"),
        ("", "path is empty", "other"),
    ):
        with pytest.raises(ToolFailure, match=says) as caught:
            await call(WRITE, path=path, content="new")
        assert caught.value.message.startswith(f"Could not write {path}. ")
        assert caught.value.details == {"code": code}
    assert (workdir / "locked").read_text() == "old"


async def test_a_full_disk_keeps_the_old_content(
    call: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "f").write_text("old")

    def write(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(pi_rpc._os.files.os, "write", write)
        with pytest.raises(ToolFailure, match="no space is left"):
            await call(WRITE, path="f", content="new")
    assert os.listdir(workdir) == ["f"]
    assert (workdir / "f").read_text() == "old"


async def test_half_a_surrogate_pair_is_refused_before_anything_is_written(
    call: Call, workdir: Path
) -> None:
    with pytest.raises(ToolFailure, match="half of a surrogate pair at character 1"):
        await call(WRITE, path="f", content="a\ud83d")
    assert os.listdir(workdir) == []


async def test_an_abort_before_the_write_leaves_the_disk_alone(call: Call, workdir: Path) -> None:
    controller = AbortController()
    controller.abort()
    with pytest.raises(ToolFailure, match="Aborted"):
        await call(WRITE, path="f", content="x", signal=controller.signal)
    assert os.listdir(workdir) == []


def test_a_call_is_described_by_its_file() -> None:
    assert WRITE.describe is not None
    described = WRITE.describe({"path": "/x/y", "content": "secret"}, None)
    assert described.title == "write /x/y"
    assert [place.uri for place in described.locations] == ["file:///x/y"]
