"""Restoring puts back what was there, byte for byte, and nothing that anybody else has written."""

import os
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_rpc.agent.ports import FileChange, PortError, Written
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.runs import Run
from pi_rpc.tools import LocalFiles
from tests.harness.checkpoints.bench import Bench, bench, each_file, picture

pytestmark = pytest.mark.anyio

NAMES = [
    "a",
    "b.txt",
    "sub/c",
    "sub/deep/d",
    "new/e/f",
    "\udcff\udcfe",
    "sp ace",
    "link",
    "back\\q",
]
CONTENTS = st.one_of(
    st.sampled_from(
        [
            b"",
            b"x",
            b"one\ntwo\n",
            b"one\r\ntwo\r\n",
            b"no end",
            b"\0\xff\xfe",
            b"\xef\xbb\xbfbom\n",
        ]
    ),
    st.binary(max_size=200),
    st.text(max_size=50).map(lambda text: text.encode("utf-8", "replace")),
)
TREES = st.dictionaries(
    st.sampled_from(["a", "b.txt", "sub/c", "\udcff\udcfe", "sp ace"]),
    st.tuples(CONTENTS, st.sampled_from([0o644, 0o600, 0o755, 0o664])),
    max_size=5,
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.one_of(CONTENTS, st.none())), min_size=1, max_size=12
)


def plant(cwd: Path, tree: dict[str, tuple[bytes, int]]) -> None:
    for name, (content, mode) in tree.items():
        path = cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    (cwd / "link").symlink_to("b.txt")


async def carry_out(here: Bench, changes: list[tuple[str, bytes | None]]) -> None:
    for name, content in changes:
        try:
            if content is None:
                await here.checkpoints.files.remove(here.cwd / name)
            else:
                await here.checkpoints.files.write(here.cwd / name, content)
        except PortError:
            pass  # There is nothing to remove.


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=TREES, changes=CHANGES)
def test_any_run_can_be_taken_back_and_that_taken_back_again(
    tree: dict[str, tuple[bytes, int]], changes: list[tuple[str, bytes | None]]
) -> None:
    async def take_back() -> None:
        here = bench(Path(folder))
        plant(here.cwd, tree)
        before = picture(here.cwd)
        here.checkpoints.begin(Run())
        await carry_out(here, changes)
        settled = await here.checkpoints.settle()
        after = picture(here.cwd)
        files = {name: each for name, each in after.items() if each[0] != "folder"}
        was = {name: each for name, each in before.items() if each[0] != "folder"}
        assert (settled is None) == (files == was)
        if settled is None:
            assert await here.checkpoints.list() == []
            return
        done = await here.checkpoints.restore(settled.checkpoint_id)
        assert done.conflicts == []
        # Folders that a run made for a file it removed again are nobody's.
        now = picture(here.cwd)
        assert {name: each for name, each in now.items() if each[0] != "folder"} == was
        if all(content is not None for _, content in changes):
            assert now == before
        assert done.undo_id is not None
        again = await here.checkpoints.restore(done.undo_id)
        assert again.conflicts == []
        undone = picture(here.cwd)
        assert {name: each for name, each in undone.items() if each[0] != "folder"} == files

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(take_back)


async def test_a_run_that_changes_nothing_leaves_and_costs_nothing(tmp_path: Path) -> None:
    here = bench(tmp_path)
    here.checkpoints.begin(Run())
    assert await here.checkpoints.settle() is None
    assert not (tmp_path / "store").exists()


async def test_writing_what_is_there_already_leaves_no_checkpoint(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_bytes(b"same")
    assert await here.run({"a": "same"}) is None
    assert await here.checkpoints.list() == []


async def test_a_file_that_was_changed_since_is_a_conflict_and_stays(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old a")
    (here.cwd / "b").write_text("old b")
    settled = await here.run({"a": "new a", "b": "new b", "c": "new c", "d": "new d"})
    assert settled is not None
    (here.cwd / "a").write_text("mine")
    (here.cwd / "c").write_text("mine too")
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [(each.path.name, each.reason) for each in done.conflicts] == [
        ("a", "changed"),
        ("c", "changed"),
    ]
    assert [(path.name, kind) for path, kind in done.restored] == [
        ("b", "changed"),
        ("d", "deleted"),
    ]
    found = {path.name: path.read_text() for path in here.cwd.iterdir()}
    assert found == {"a": "mine", "b": "old b", "c": "mine too"}


async def test_a_file_that_was_removed_since_is_a_conflict_and_says_so(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    settled = await here.run({"a": "new"})
    assert settled is not None
    (here.cwd / "a").unlink()
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [each.message for each in done.conflicts] == ["it was removed since the run ended"]
    assert not (here.cwd / "a").exists()


async def test_what_became_a_folder_since_is_a_conflict(tmp_path: Path) -> None:
    here = bench(tmp_path)
    settled = await here.run({"a": "new"})
    assert settled is not None
    (here.cwd / "a").unlink()
    (here.cwd / "a").mkdir()
    (conflict,) = (await here.checkpoints.restore(settled.checkpoint_id)).conflicts
    assert (conflict.reason, conflict.message) == ("changed", "it is not a regular file any more")


async def test_no_link_that_took_the_place_of_a_file_or_folder_is_followed(tmp_path: Path) -> None:
    here = bench(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    changes: dict[str, bytes | str] = {"file": "same\n", "sub/file": "same\n", "new": "same\n"}
    for name in ("file", "sub/file"):
        (here.cwd / name).parent.mkdir(exist_ok=True)
        (here.cwd / name).write_text("before\n")
    settled = await here.run(changes)
    assert settled is not None
    for name in changes:
        (here.cwd / name).unlink()
        (outside / Path(name).name).write_text("same\n")  # as the run left it, and yet not its file
    (here.cwd / "sub").rmdir()
    (here.cwd / "sub").symlink_to(outside)
    for name in ("file", "new"):
        (here.cwd / name).symlink_to(outside / name)
    before = picture(tmp_path)
    result = await here.checkpoints.restore(settled.checkpoint_id)
    assert result.restored == []
    assert [(each.path.name, each.reason) for each in result.conflicts] == [
        ("file", "changed"),
        ("new", "changed"),
        ("file", "changed"),
    ]
    assert all("symbolic link" in each.message for each in result.conflicts)
    after = picture(tmp_path)
    store = b"store"
    assert {name: each for name, each in after.items() if not name.startswith(store)} == {
        name: each for name, each in before.items() if not name.startswith(store)
    }


@pytest.mark.parametrize("order", [["x/a", "x/deep/b"], ["x/deep/b", "x/a"]])
async def test_folders_that_a_run_made_go_with_the_last_file_whichever_they_were_made_for(
    tmp_path: Path, order: list[str]
) -> None:
    here = bench(tmp_path)
    settled = await here.run({"x/a": "a", "x/deep/b": "b"})
    assert settled is not None
    for name in order:
        result = await here.checkpoints.restore(settled.checkpoint_id, [here.cwd / name])
        assert [path for path, _ in result.restored] == [here.cwd / name]
    assert picture(here.cwd) == {}


async def test_a_folder_that_a_run_made_stays_when_something_else_is_in_it(tmp_path: Path) -> None:
    here = bench(tmp_path)
    settled = await here.run({"x/y/new": "n"})
    assert settled is not None
    (here.cwd / "x" / "mine").write_text("m")
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [kind for _, kind in done.restored] == ["deleted"]
    assert set(picture(here.cwd)) == {b"x", b"x/mine"}


async def test_what_a_command_changes_after_an_edit_is_taken_back_too_and_told(
    tmp_path: Path,
) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    (here.cwd / "b").write_text("old")
    here.checkpoints.begin(Run())
    await here.write("a", "new")
    await here.write("b", "new")
    (here.cwd / "a").write_text("formatted")
    (here.cwd / "a").chmod(0o755)
    (here.cwd / "b").unlink()
    settled = await here.checkpoints.settle()
    assert settled is not None
    (found,) = await here.checkpoints.list()
    assert [(each.kind, each.others) for each in found.saved] == [
        ("changed", True),
        ("deleted", True),
    ]
    (here.cwd / "a").parent.chmod(0o755)
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [kind for _, kind in done.restored] == ["changed", "created"]
    assert [(here.cwd / each).read_text() for each in "ab"] == ["old", "old"]
    assert (here.cwd / "a").stat().st_mode & 0o777 == (here.cwd / "b").stat().st_mode & 0o777


async def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "sub").mkdir()
    (here.cwd / "sub" / "a").write_text("old")
    (here.cwd / "sub" / "a").chmod(0o640)
    here.checkpoints.begin(Run())
    await here.write("sub/a", "new")
    (here.cwd / "sub" / "a").unlink()
    (here.cwd / "sub").rmdir()
    settled = await here.checkpoints.settle()
    assert settled is not None
    await here.checkpoints.restore(settled.checkpoint_id)
    assert (here.cwd / "sub" / "a").read_text() == "old"
    assert (here.cwd / "sub" / "a").stat().st_mode & 0o777 == 0o640


async def test_only_the_named_files_are_restored(tmp_path: Path) -> None:
    here = bench(tmp_path)
    settled = await here.run({"a": "1", "b": "2"})
    assert settled is not None
    done = await here.checkpoints.restore(settled.checkpoint_id, [here.cwd / "a"])
    assert [path.name for path, _ in done.restored] == ["a"]
    assert [path.name for path in here.cwd.iterdir()] == ["b"]


async def test_runs_are_taken_back_one_by_one_the_last_one_first(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("0")
    runs = [await here.run({"a": str(number)}) for number in (1, 2, 3)]
    assert all(runs)
    first = await here.checkpoints.restore(runs[0].checkpoint_id)  # type: ignore[union-attr]
    assert [each.reason for each in first.conflicts] == ["changed"]
    listed = [each.id for each in await here.checkpoints.list()]
    assert listed == [each.checkpoint_id for each in reversed(runs)]  # type: ignore[union-attr]
    for each, content in zip(listed, ["2", "1", "0"], strict=True):
        assert (await here.checkpoints.restore(each)).conflicts == []
        assert (here.cwd / "a").read_text() == content


async def test_files_that_only_a_command_changed_are_named_as_not_restorable(
    tmp_path: Path,
) -> None:
    here = bench(tmp_path)
    (here.cwd / "alias").symlink_to("edited")
    here.checkpoints.begin(Run())
    here.checkpoints.changed([FileChange(here.cwd / "made", "created")])
    await here.write("alias", "e")
    here.checkpoints.changed([FileChange(here.cwd / "alias", "created")])
    here.checkpoints.changed([FileChange(here.cwd / "gone", "changed")])
    here.checkpoints.changed([FileChange(here.cwd / "gone", "deleted")])
    settled = await here.checkpoints.settle()
    assert settled is not None
    (found,) = await here.checkpoints.list()
    assert [(each.path.name, each.kind) for each in found.unsaved] == [
        ("gone", "deleted"),
        ("made", "created"),
    ]
    assert [each.path.name for each in found.saved] == ["edited"]
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [(each.path.name, each.reason) for each in done.conflicts] == [
        ("gone", "notSaved"),
        ("made", "notSaved"),
    ]


async def test_of_a_file_that_a_command_changed_first_the_edits_are_taken_back(
    tmp_path: Path,
) -> None:
    here = bench(tmp_path)
    for name in ("changed", "edited and back"):
        (here.cwd / name).write_text("command\n")
    here.checkpoints.begin(Run())
    here.checkpoints.changed([FileChange(here.cwd / "changed", "changed")])
    here.checkpoints.changed([FileChange(here.cwd / "edited and back", "changed")])
    here.checkpoints.changed([FileChange(here.cwd / "gone", "deleted")])
    for name in ("changed", "edited and back", "gone"):
        await here.write(name, "edit\n")
    await here.write("changed", "another edit\n")
    await here.write("edited and back", "command\n")
    settled = await here.checkpoints.settle()
    assert settled is not None
    assert "-command\n+another edit\n" in settled.diff.text
    (found,) = await here.checkpoints.list()
    assert [(each.path.name, each.kind, each.others) for each in found.saved] == [
        ("changed", "changed", True),
        ("gone", "created", True),
    ]
    assert [(each.path.name, each.kind) for each in found.unsaved] == [
        ("edited and back", "changed")
    ]
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [path.name for path, _ in done.restored] == ["changed", "gone"]
    assert sorted(path.name for path in here.cwd.iterdir()) == ["changed", "edited and back"]
    assert (here.cwd / "changed").read_text() == "command\n"


async def test_a_run_with_commands_alone_has_a_checkpoint_that_says_what_it_cannot(
    tmp_path: Path,
) -> None:
    here = bench(tmp_path)
    here.checkpoints.begin(Run())
    here.checkpoints.changed([FileChange(here.cwd / "made", "created")])
    settled = await here.checkpoints.settle()
    assert settled is not None
    assert settled.diff.text == ""
    (found,) = await here.checkpoints.list()
    assert [each.path.name for each in found.unsaved] == ["made"]
    assert found.saved == []


# --- what cannot be saved -----------------------------------------------------------------------


async def test_a_file_that_is_too_large_is_changed_and_named_and_told_once(tmp_path: Path) -> None:
    here = bench(tmp_path, max_file_bytes=100)
    (here.cwd / "large").write_bytes(b"x" * 101)
    (here.cwd / "larger").write_bytes(b"x" * 102)
    (here.cwd / "small").write_bytes(b"x" * 100)
    settled = await here.run({"large": "1", "larger": "2", "small": "3"})
    assert settled is not None
    assert [path.read_text() for path in sorted(here.cwd.iterdir())] == ["1", "2", "3"]
    (found,) = await here.checkpoints.list()
    assert [each.path.name for each in found.unsaved] == ["large", "larger"]
    assert "larger than" in (found.unsaved[0].reason or "")
    assert len(here.told) == 1
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [each.reason for each in done.conflicts] == ["notSaved", "notSaved"]
    assert (here.cwd / "small").read_bytes() == b"x" * 100


async def test_a_run_that_changes_more_than_the_store_may_hold_goes_on(tmp_path: Path) -> None:
    here = bench(tmp_path, max_bytes=1000)
    for name in "abc":
        (here.cwd / name).write_bytes(name.encode() * 400)
    assert await here.run(dict.fromkeys("abc", "new")) is not None
    assert [path.read_text() for path in sorted(here.cwd.iterdir())] == ["new"] * 3
    (found,) = await here.checkpoints.list()
    assert [each.path.name for each in found.unsaved] == ["c"]
    assert len(here.told) == 1


async def test_without_room_for_checkpoints_nothing_is_saved_and_nothing_told(
    tmp_path: Path,
) -> None:
    here = bench(tmp_path, max_bytes=0)
    assert await here.run({"a": "new"}) is None
    assert not (tmp_path / "store").exists()
    assert here.told == []


def full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


async def test_with_a_full_disk_edits_go_on_and_the_person_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    (here.cwd / "b").write_text("old")
    monkeypatch.setattr("pi_rpc.harness._checkpoint_files._write_all", full)
    settled = await here.run({"a": "new", "b": "new"})
    assert settled is not None
    assert [(here.cwd / each).read_text() for each in "ab"] == ["new", "new"]
    (told,) = here.told
    assert told.severity == "warning"
    assert "No space left on device" in told.message


async def test_a_disk_that_fills_up_in_the_middle_of_a_run_loses_only_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old a")
    (here.cwd / "b").write_text("old b")
    here.checkpoints.begin(Run())
    await here.write("a", "new a")
    with monkeypatch.context() as patch:
        patch.setattr("pi_rpc.harness._checkpoint_files._write_all", full)
        await here.write("b", "new b")
    settled = await here.checkpoints.settle()
    assert settled is not None
    done = await here.again().checkpoints.restore(settled.checkpoint_id)
    assert [path.name for path, _ in done.restored] == ["a"]
    assert [(each.path.name, each.reason) for each in done.conflicts] == [("b", "notSaved")]
    assert "No space left on device" in done.conflicts[0].message


async def test_a_store_that_may_not_be_written_is_no_reason_not_to_edit(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (tmp_path / "store").write_text("a file is in the way")
    (here.cwd / "a").write_text("old")
    assert await here.run({"a": "new"}) is not None
    assert (here.cwd / "a").read_text() == "new"
    assert len(here.told) == 1


# --- what is wrong with what was saved ----------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"z" + os.urandom(50)),
        lambda path: path.write_bytes(b"rsomething else"),
        lambda path: path.write_bytes(path.read_bytes()[:-3]),
        lambda path: path.unlink(),
    ],
)
async def test_a_saved_content_that_is_damaged_is_a_conflict_and_the_file_stays(
    tmp_path: Path, damage: Any
) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_bytes(b"old\n" * 100)
    settled = await here.run({"a": "new"})
    assert settled is not None
    assert each_file(tmp_path / "store" / "objects", damage) == 2  # and the diff
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [each.reason for each in done.conflicts] == ["notSaved"]
    assert "damaged" in done.conflicts[0].message or "gone" in done.conflicts[0].message
    assert (here.cwd / "a").read_text() == "new"
    with pytest.raises(HarnessError) as refused:
        await here.checkpoints.diff(settled.checkpoint_id)
    assert refused.value.kind == "storage"


@pytest.mark.parametrize("cut", range(0, 700, 23))
async def test_a_journal_that_was_cut_off_anywhere_restores_the_right_thing_or_nothing(
    tmp_path: Path, cut: int
) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    here.checkpoints.begin(Run())
    await here.write("a", "new")
    (journal,) = (tmp_path / "store" / "sessions").glob("*/*.jsonl")
    journal.write_bytes(journal.read_bytes()[:cut])
    for each in await here.again().checkpoints.list():
        done = await here.again().checkpoints.restore(each.id)
        assert done.conflicts == []
        assert (here.cwd / "a").read_text() == "old"
        return
    assert (here.cwd / "a").read_text() == "new"


@pytest.mark.parametrize("name", ["cp_0", "../../etc/passwd", "", "cp_" + "0" * 17, "x" * 500])
async def test_a_checkpoint_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    here = bench(tmp_path)
    await here.run({"a": "new"})
    for ask in (here.checkpoints.diff, here.checkpoints.restore):
        with pytest.raises(HarnessError) as refused:
            await ask(name)
        assert refused.value.kind == "checkpointNotFound"


# --- interruptions ------------------------------------------------------------------------------


async def test_of_a_run_that_was_killed_everything_is_restored(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    (here.cwd / "late").write_text("old")
    before = picture(here.cwd)
    here.checkpoints.begin(Run())
    await here.write("a", "1")
    await here.write("a", "2")
    await here.write("x/new", "n")
    # Killed between what is noted and what is done.
    recording = here.checkpoints._recording
    assert recording is not None
    await recording.about_to_change(here.cwd / "a", b"3")
    await recording.about_to_change(here.cwd / "late", b"never")
    other = here.again()
    (found,) = await other.checkpoints.list()
    assert not found.ended
    diff = await other.checkpoints.diff(found.id)
    assert "-old" in diff.text
    assert "+2" in diff.text
    done = await other.checkpoints.restore(found.id)
    assert done.conflicts == []
    assert [path.name for path in done.unchanged] == ["late"]
    assert picture(here.cwd) == before


class Breaking(LocalFiles):
    """A disk that is full when certain files are written."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()

    async def write(self, path: Path, data: bytes, **given: Any) -> Written:
        if path.name in self.broken:
            raise PortError("no_space", f"{path.name} was not written: no space is left")
        return await super().write(path, data, **given)


async def test_a_file_that_cannot_be_written_is_told_and_the_others_are_restored(
    tmp_path: Path,
) -> None:
    below = Breaking()
    here = bench(tmp_path)
    here = Bench(here.cwd, here.store, below)
    for name in "abc":
        (here.cwd / name).write_text("old " + name)
    settled = await here.run(dict.fromkeys("abc", "new"))
    assert settled is not None
    below.broken.add("b")
    done = await here.checkpoints.restore(settled.checkpoint_id)
    assert [path.name for path, _ in done.restored] == ["a", "c"]
    assert [(each.path.name, each.reason, each.message) for each in done.conflicts] == [
        ("b", "failed", "b was not written: no space is left")
    ]
    assert (here.cwd / "b").read_text() == "new"
    below.broken.clear()
    rest = await here.checkpoints.restore(settled.checkpoint_id)
    assert [path.name for path, _ in rest.restored] == ["b"]
    assert [path.name for path in rest.unchanged] == ["a", "c"]
    # What failed changed nothing, so taking the first one back does not mention it.
    assert done.undo_id is not None
    undo = await here.checkpoints.find(done.undo_id)
    assert [each.path.name for each in undo.saved] == ["a", "c"]


async def test_a_write_that_fails_leaves_no_checkpoint(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("old")
    (here.cwd / "a").chmod(0o444)
    here.checkpoints.begin(Run())
    with pytest.raises(PortError):
        await here.write("a", "new")
    assert await here.checkpoints.settle() is None
    assert await here.checkpoints.list() == []


async def test_restoring_that_is_stopped_names_what_it_did_not_come_to(tmp_path: Path) -> None:
    here = bench(tmp_path)
    settled = await here.run({"a": "1", "b": "2"})
    assert settled is not None
    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 1

    done = await here.checkpoints.restore(settled.checkpoint_id, stopped=stopped)
    assert [path.name for path, _ in done.restored] == ["a"]
    assert [(each.path.name, each.reason) for each in done.conflicts] == [("b", "stopped")]


async def test_files_written_side_by_side_are_all_saved(tmp_path: Path) -> None:
    here = bench(tmp_path)
    names = [f"f{number}" for number in range(30)]
    for name in names:
        (here.cwd / name).write_text("old " + name)
    before = picture(here.cwd)
    here.checkpoints.begin(Run())
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(here.write, name, "new")
    settled = await here.checkpoints.settle()
    assert settled is not None
    await here.checkpoints.restore(settled.checkpoint_id)
    assert picture(here.cwd) == before


async def test_the_store_is_for_nobody_else_to_look_into(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "a").write_text("secret")
    await here.run({"a": "new"})
    for path in [tmp_path / "store", *(tmp_path / "store").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
