"""The edit tool: shapes of arguments, what is stored, what is said, what is refused."""

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pi_rpc.agent.ports import FileStat
from pi_rpc.agent.tool import ToolFailure
from pi_rpc.llm.messages import text_of
from pi_rpc.tools._local_files import LocalFiles
from pi_rpc.tools.edit import MAX_FILE_BYTES, edit_tool, prepare_edit_arguments
from pi_rpc.tools.write import write_tool
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio

EDIT = edit_tool()
ONE = {"oldText": "a", "newText": "b"}
TWO = {"oldText": "c", "newText": "d"}


@pytest.mark.parametrize(
    ("raw", "edits"),
    [
        ({"edits": [ONE, TWO]}, [ONE, TWO]),
        ({"edits": '[{"oldText": "a", "newText": "b"}]'}, [ONE]),
        ({"edits": '{"oldText": "a", "newText": "b"}'}, [ONE]),
        ({"edits": ONE}, [ONE]),
        ({"edits": ['{"oldText": "a", "newText": "b"}']}, [ONE]),
        ({"oldText": "a", "newText": "b"}, [ONE]),
        ({"oldText": "c", "newText": "d", "edits": [ONE]}, [ONE, TWO]),
        ({"oldText": "c", "newText": "d", "edits": "[]"}, [TWO]),
    ],
)
def test_shapes_that_models_send_become_the_shape_of_the_schema(
    raw: dict[str, Any], edits: list[Any]
) -> None:
    before = repr(raw)
    prepared = prepare_edit_arguments({"path": "f", **raw})
    assert prepared == {"path": "f", "edits": edits}
    jsonschema.validate(prepared, EDIT.parameters)
    assert repr(raw) == before


@pytest.mark.parametrize(
    "raw",
    [
        {"edits": "not json"},
        {"edits": "5"},
        {"edits": []},
        {"edits": [5]},
        {"edits": None},
        {"oldText": "a"},
        {},
        {"edits": [{**ONE, "replaceAll": True}]},
    ],
)
def test_other_shapes_are_left_for_the_schema_to_refuse(raw: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(prepare_edit_arguments({"path": "f", **raw}), EDIT.parameters)


async def test_blocks_are_replaced_counted_and_shown(call: Call, workdir: Path) -> None:
    (workdir / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\n")
    (workdir / "f").chmod(0o755)
    result = await call(
        EDIT,
        path="f",
        edits=[{"oldText": "one", "newText": "1"}, {"oldText": "three\n", "newText": "3\n4\n"}],
    )
    assert (workdir / "f").read_bytes() == b"\xef\xbb\xbf1\r\ntwo\r\n3\n4\n"
    assert (workdir / "f").stat().st_mode & 0o777 == 0o755
    assert text_of(result.content) == "Successfully replaced 2 blocks in f."
    assert result.details["firstChangedLine"] == 1
    assert result.details["diff"].split("\n")[-3:] == ["-3 three", "+3 3", "+4 4"]
    assert "\r\n" in result.details["patch"]
    assert set(result.details) == {"diff", "patch", "firstChangedLine"}


async def test_a_forgiven_difference_is_mentioned(call: Call, workdir: Path) -> None:
    (workdir / "f").write_text("say \u201chi\u201d\n")
    result = await call(EDIT, path="f", oldText='"hi"', newText='"ho"')
    assert (workdir / "f").read_text() == 'say "ho"\n'
    assert "replaced 1 block in f." in text_of(result.content)
    assert "matched nevertheless" in text_of(result.content)
    assert result.details["fuzzy"] is True


async def test_a_link_stays_and_its_target_is_edited(call: Call, workdir: Path) -> None:
    (workdir / "f").write_text("a")
    (workdir / "link").symlink_to("f")
    await call(EDIT, path="link", edits=[ONE])
    assert (workdir / "link").is_symlink()
    assert (workdir / "f").read_text() == "b"


async def test_what_does_not_fit_leaves_the_file_alone(call: Call, workdir: Path) -> None:
    (workdir / "f").write_text("a a")
    before = (workdir / "f").stat()
    with pytest.raises(ToolFailure, match="occurs 2 times in f"):
        await call(EDIT, path="f", edits=[ONE])
    after = (workdir / "f").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


async def test_files_that_cannot_be_edited_are_refused_with_the_reason(
    call: Call, workdir: Path
) -> None:
    (workdir / "latin").write_bytes(b"caf\xe9 a")
    (workdir / "locked").write_text("a")
    (workdir / "locked").chmod(0o444)
    with (workdir / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    os.mkfifo(workdir / "fifo")
    for path, says in (
        ("missing", r"^Could not edit missing\. .* does not exist"),
        (".", "is a directory"),
        ("fifo", "named pipe"),
        ("locked", "read-only"),
        ("huge", "too large"),
        ("latin", r"not UTF-8 text \(byte 3 is not valid\)"),
    ):
        with pytest.raises(ToolFailure, match=says):
            await call(EDIT, path=path, edits=[ONE])
    assert (workdir / "latin").read_bytes() == b"caf\xe9 a"
    with pytest.raises(ToolFailure, match=r"edits\[0\].newText holds half of a surrogate"):
        await call(EDIT, path="locked", oldText="a", newText="\ud800")


async def test_a_change_by_another_program_meanwhile_is_not_overwritten(
    call: Call, workdir: Path
) -> None:
    path = workdir / "f"
    path.write_text("a")

    class Files(LocalFiles):
        stats = 0

        async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
            self.stats += 1
            if self.stats == 2:
                path.write_text("somebody else's a")
            return await super().stat(path, exact=exact)

    with pytest.raises(ToolFailure, match="changed by another program") as caught:
        await call(EDIT, path="f", edits=[ONE], files=Files())
    assert caught.value.details == {"code": "changed"}
    assert path.read_text() == "somebody else's a"


def test_a_call_is_described_by_its_file(workdir: Path) -> None:
    assert EDIT.describe is not None
    described = EDIT.describe({"path": "/x/y", "edits": []}, None)
    assert described.title == "edit /x/y"
    assert [place.uri for place in described.locations] == ["file:///x/y"]


async def test_a_large_file_is_edited_forgivingly_in_a_process_of_its_own(
    call: Call, workdir: Path
) -> None:
    path = workdir / "f"
    path.write_bytes(b"\xef\xbb\xbf" + b"some line  \r\n" * 100_000 + "say “hi”\r\nend\n".encode())
    result = await call(EDIT, path="f", edits=[{"oldText": 'say "hi"\nend', "newText": "a\nb"}])
    assert result.details["fuzzy"] is True
    assert result.details["firstChangedLine"] == 100_001
    assert path.read_bytes() == b"\xef\xbb\xbf" + b"some line  \r\n" * 100_000 + b"a\r\nb\n"
    with pytest.raises(ToolFailure, match="occurs 1000 or more times"):
        await call(EDIT, path="f", edits=[{"oldText": "some line", "newText": "x"}])
    path.write_bytes(b"x" * 2_000_000 + b"\xff")
    with pytest.raises(ToolFailure, match="byte 2000000 is not valid"):
        await call(EDIT, path="f", edits=[{"oldText": "y", "newText": "x"}])


async def test_large_work_that_fails_leaves_the_file_alone(
    call: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "line\n" * 300_000 + "end\n"
    (workdir / "f").write_text(content)
    monkeypatch.setattr("pi_rpc.tools._edited_content._TIME_LIMIT_S", 0)
    with pytest.raises(ToolFailure, match="could not be worked out"):
        await call(EDIT, path="f", edits=[{"oldText": "end", "newText": "x"}])
    assert (workdir / "f").read_text() == content


async def test_what_is_no_file_that_can_be_edited_or_written_is_refused(
    call: Call, workdir: Path
) -> None:
    os.mkfifo(workdir / "fifo")
    (workdir / "f").write_text("x")
    (workdir / "round").symlink_to("round")
    edits = [{"oldText": "x", "newText": "y"}]
    for path, says in (
        ("fifo", "named pipe"),
        ("/dev/zero", "device"),
        (".", "is a directory"),
        ("round", "round in a circle"),
        ("f/g", "not a directory"),
        ("a\0b", "NUL"),
        ("\ud800", "no file name"),
        ("x/" * 2500, "too long"),
    ):
        with pytest.raises(ToolFailure, match=says):
            await call(EDIT, path=path, edits=edits)
        with pytest.raises(ToolFailure, match=says):
            await call(write_tool(), path=path, content="y")
    assert sorted(os.listdir(workdir)) == ["f", "fifo", "round"]
    assert (workdir / "f").read_text() == "x"
