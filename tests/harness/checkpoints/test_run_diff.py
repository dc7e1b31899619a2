"""The diff of a run is what git would say, within limits, and never takes long."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_rpc.harness._line_diff import unified_hunks
from pi_rpc.harness.run_diff import ChangedFile, RunDiff, cut_diff, file_diff, joined
from tests.harness.checkpoints.bench import bench

pytestmark = pytest.mark.anyio

CWD = Path("/p")
LINES = st.lists(
    st.sampled_from(["a", "b", "", "longer line", "ü\r", "+", "-x", "\\ No"]), max_size=40
)
TEXTS = st.tuples(LINES, st.booleans()).map(
    lambda drawn: ("\n".join(drawn[0]) + ("\n" if drawn[1] and drawn[0] else "")).encode()
)
NAMES = ["plain", "sub/deep", "sp ace", 'qu"ote', "tab\there", "ü", "\udcff", "back\\slash", "x\ny"]


async def diff_of(before: bytes | None, after: bytes | None, name: str = "f") -> RunDiff:
    return await file_diff(ChangedFile(CWD / name, before, after, 0o644, 0o644), CWD)


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diff")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    tree=st.dictionaries(
        st.sampled_from(NAMES),
        st.tuples(st.one_of(st.none(), TEXTS), st.one_of(st.none(), TEXTS)),
        min_size=1,
    )
)
def test_git_makes_of_the_old_files_the_new_ones(
    tree: dict[str, tuple[bytes | None, bytes | None]],
) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            cwd = Path(folder)
            diffs = []
            for name, (before, after) in tree.items():
                if before is not None:
                    (cwd / name).parent.mkdir(exist_ok=True)
                    (cwd / name).write_bytes(before)
                changed = ChangedFile(cwd / name, before, after, 0o644, 0o644)
                diffs.append(await file_diff(changed, cwd))
            whole = joined(diffs)
            if whole.text:
                applied = subprocess.run(
                    ["git", "apply", "-"],
                    cwd=folder,
                    input=whole.text.encode(),
                    capture_output=True,
                    check=False,
                )
                assert applied.returncode == 0, (applied.stderr, whole.text)
            for name, (_, after) in tree.items():
                path = cwd / name
                assert (path.read_bytes() if path.exists() else None) == after

    anyio.run(check)


async def test_a_change_is_shown_with_three_lines_around_it() -> None:
    old = b"".join(b"%d\n" % number for number in range(20))
    diff = await diff_of(old, old.replace(b"\n9\n", b"\nnine\n"))
    assert diff.text == (
        "diff --git a/f b/f\n--- a/f\n+++ b/f\n"
        "@@ -7,7 +7,7 @@\n 6\n 7\n 8\n-9\n+nine\n 10\n 11\n 12\n"
    )


async def test_changes_at_both_ends_of_a_long_file_are_two_hunks() -> None:
    old = b"".join(b"line %d\n" % number for number in range(10_000))
    diff = await diff_of(old, old.replace(b"line 7\n", b"x\n").replace(b"line 9990\n", b"y\n"))
    assert diff.text.count("@@ -") == 2
    assert len(diff.text.splitlines()) == 3 + 2 * 9


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (b"a\0b", b"a\0c", "Binary files a/f and b/f differ\n"),
        (b"\xff\xfe", b"text\n", "Binary files a/f and b/f differ\n"),
        (None, b"\0", "new file mode 100644\nBinary files /dev/null and b/f differ\n"),
        (b"\0", None, "deleted file mode 100644\nBinary files a/f and /dev/null differ\n"),
        (None, b"", "new file mode 100644\n"),
        (b"", None, "deleted file mode 100644\n"),
    ],
)
async def test_what_has_no_lines_is_named(
    before: bytes | None, after: bytes | None, wanted: str
) -> None:
    assert (await diff_of(before, after)).text == "diff --git a/f b/f\n" + wanted


async def test_a_mode_is_a_change() -> None:
    diff = await file_diff(ChangedFile(CWD / "f", b"x", b"x", 0o644, 0o755), CWD)
    assert diff.text == "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"
    assert (await diff_of(b"\0", b"\0")).text == ""


async def test_a_file_outside_of_the_directory_is_named_by_its_whole_path() -> None:
    diff = await file_diff(ChangedFile(Path("/other/f"), b"x\n", b"y\n"), CWD)
    assert diff.text.startswith("diff --git a//other/f b//other/f\n")


async def test_two_distant_changes_of_a_large_file_are_compared_by_a_program_of_their_own() -> None:
    old = b"".join(b"line %d\n" % number for number in range(120_000))
    new = old.replace(b"line 5\n", b"five\n").replace(b"line 119000\n", b"late\n")
    diff = await diff_of(old, new)
    assert not diff.truncated
    assert "-line 5\n+five\n" in diff.text
    assert "@@ -118998,7 +118998,7 @@\n" in diff.text


async def test_without_such_a_program_the_file_is_named_and_the_diff_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pi_rpc.harness.run_diff.sys.executable", "/nowhere/python")
    old = b"".join(b"line %d\n" % number for number in range(120_000))
    diff = await diff_of(old, b"x\n" + old + b"y\n")
    assert diff == RunDiff("diff --git a/f b/f\n# pi-rpc: too large to be compared\n", True)


async def test_a_diff_that_is_too_long_ends_in_a_line_that_says_so() -> None:
    diff = await file_diff(ChangedFile(CWD / "f", None, b"0123456789\n" * 50_000), CWD, 10_000)
    assert diff.truncated
    assert diff.text.endswith("\n# pi-rpc: the rest of this file is left out\n")
    assert len(diff.text) < 11_000
    cut = cut_diff(RunDiff("ü\n" * 100, truncated=False), 50)
    assert cut == RunDiff("ü\n" * 16 + "# pi-rpc: 252 more bytes of the diff are left out\n", True)


def test_lines_that_all_repeat_are_compared_in_bounded_time_and_rightly() -> None:
    old = b"a\nb\n" * 3000
    new = b"b\na\na\n" * 2000
    hunks, cut = unified_hunks(old, new, 0, 10**7)
    assert not cut
    kept = [line for line in hunks.splitlines() if not line.startswith((b"-", b"@"))]
    assert [line[1:] for line in kept] == new.splitlines()


async def test_a_run_is_one_diff_and_says_where_it_is_cut(tmp_path: Path) -> None:
    here = bench(tmp_path)
    (here.cwd / "b").write_text("one\n")
    settled = await here.run({"c/new": "n\n", "b": "two\n"})
    assert settled is not None
    assert not settled.diff.truncated
    assert settled.diff.text == (
        "diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1,1 +1,1 @@\n-one\n+two\n"
        "diff --git a/c/new b/c/new\nnew file mode 100644\n--- /dev/null\n+++ b/c/new\n"
        "@@ -0,0 +1,1 @@\n+n\n"
    )
    assert await here.again().checkpoints.diff(settled.checkpoint_id) == settled.diff
    long = await here.run({"long": "0123456789\n" * 200_000})
    assert long is not None
    assert long.diff.truncated
    assert len(long.diff.text) < 1_100_000
    assert (await here.checkpoints.diff(long.checkpoint_id)).truncated
