"""What a command changed is found out, cheaply or not at all."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pi_rpc.tools import changed_files
from pi_rpc.tools.changed_files import CommandChanges, Found
from tests.deadlines import DEADLINE_S

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("git") is None, reason="there is no git"),
]

LONG_S = 20.0
"""A time limit that a busy machine keeps."""


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "_WALK_S", LONG_S)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *identity, "-c", "init.defaultBranch=main", *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(params=["git", "no git"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with files in it, in a repository or not."""
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    for name in ("kept", "dirty", "sub/old"):
        (folder / name).write_text("1\n")
    if request.param == "git":
        (folder / ".gitignore").write_text("ignored\n")
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "begin")
    (folder / "dirty").write_text("2\n")
    (folder / "untracked").write_text("1\n")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "f").write_text("1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "begin")
    return folder


async def found(cwd: Path, command: Callable[[], object]) -> Found:
    changes = CommandChanges(LONG_S)
    before = await changes.before(cwd)
    assert before is not None
    command()
    return await changes.after(cwd, before)


async def kinds(
    cwd: Path, command: Callable[[], object], root: Path | None = None
) -> dict[str, str]:
    result = await found(cwd, command)
    assert not result.truncated
    return {str(each.path.relative_to(root or cwd)): each.kind for each in result.changes}


async def test_every_kind_of_change_is_found(tree: Path) -> None:
    def command() -> None:
        (tree / "kept").write_text("2\n")
        (tree / "dirty").write_text("3\n")
        (tree / "untracked").write_text("2\n")
        (tree / "sub" / "old").unlink()
        (tree / "sub" / "new é\n").write_text("1\n")
        (tree / "more" / "deep").mkdir(parents=True)
        (tree / "more" / "deep" / "new").write_text("1\n")

    assert await kinds(tree, command) == {
        "kept": "changed",
        "dirty": "changed",
        "untracked": "changed",
        "sub/old": "deleted",
        "sub/new é\n": "created",
        "more/deep/new": "created",
    }


async def test_a_command_that_changes_nothing_changes_nothing(tree: Path) -> None:
    assert await kinds(tree, (tree / "kept").read_text) == {}


async def test_what_comes_and_goes_is_told_as_what_it_is_in_the_end(tree: Path) -> None:
    def command() -> None:
        (tree / "untracked").unlink()
        (tree / "passing").write_text("x")
        (tree / "passing").unlink()
        os.replace(tree / "dirty", tree / "moved")

    assert await kinds(tree, command) == {
        "untracked": "deleted",
        "dirty": "deleted",
        "moved": "created",
    }


async def test_a_file_that_was_gone_and_comes_back_is_created(tree: Path) -> None:
    (tree / "kept").unlink()
    assert await kinds(tree, lambda: (tree / "kept").write_text("1\n")) == {"kept": "created"}


async def test_the_same_size_and_time_hide_nothing(tree: Path) -> None:
    before = (tree / "dirty").stat()

    def command() -> None:
        (tree / "dirty").write_text("3\n")
        os.utime(tree / "dirty", ns=(before.st_atime_ns, before.st_mtime_ns))

    assert await kinds(tree, command) == {"dirty": "changed"}


async def test_links_are_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "link").symlink_to(tmp_path / "outside")
    assert await kinds(tree, lambda: (tmp_path / "outside" / "f").write_text("x")) == {}


async def test_a_commit_changes_no_file(repository: Path) -> None:
    (repository / "f").write_text("2\n")
    (repository / "new").write_text("1\n")

    def command() -> None:
        git(repository, "add", ".")
        git(repository, "commit", "-qm", "more")

    assert await kinds(repository, command) == {}


async def test_switching_to_another_branch_changes_what_differs(repository: Path) -> None:
    git(repository, "checkout", "-qb", "other")
    (repository / "f").write_text("2\n")
    (repository / "new").write_text("1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "more")
    switched = await kinds(repository, lambda: git(repository, "checkout", "-q", "main"))
    assert switched == {"f": "changed", "new": "deleted"}
    back = await kinds(repository, lambda: git(repository, "checkout", "-q", "other"))
    assert back == {"f": "changed", "new": "created"}


async def test_taking_changes_back_is_a_change(repository: Path) -> None:
    (repository / "f").write_text("2\n")
    taken_back = await kinds(repository, lambda: git(repository, "checkout", "-q", "f"))
    assert taken_back == {"f": "changed"}


async def test_a_reset_that_leaves_files_alone_changes_none(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "f").write_text("2\n")
    git(repository, "commit", "-qam", "more")
    monkeypatch.setattr(changed_files, "_SLACK_NS", 0)
    assert await kinds(repository, lambda: git(repository, "reset", "-q", "HEAD~1")) == {}


async def test_a_file_that_is_added_to_the_index_is_new_only_if_it_is(repository: Path) -> None:
    (repository / "old").write_text("1\n")

    def command() -> None:
        (repository / "new").write_text("1\n")
        git(repository, "add", "-A")

    assert await kinds(repository, command) == {"new": "created"}


async def test_a_repository_without_a_commit_is_looked_at_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert await kinds(tmp_path, lambda: (tmp_path / "f").write_text("x")) == {"f": "created"}

    def commit() -> None:
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", "begin")

    assert await kinds(tmp_path, commit) == {}


async def test_what_git_ignores_is_passed_over(repository: Path) -> None:
    (repository / ".gitignore").write_text("build\n")
    assert await kinds(repository, lambda: (repository / "build").write_text("x")) == {}


async def test_a_command_in_a_folder_of_a_repository_may_change_all_of_it(repository: Path) -> None:
    changed = await kinds(
        repository / "sub", lambda: (repository / "f").write_text("2\n"), repository
    )
    assert changed == {"f": "changed"}


async def test_names_that_are_no_text_are_found(tree: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    assert await kinds(tree, lambda: (tree / name).write_text("x")) == {name: "created"}


async def test_looking_runs_nothing_and_takes_no_lock(repository: Path, tmp_path: Path) -> None:
    script = tmp_path / "monitor"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    script.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(script))
    index = (repository / ".git" / "index").read_bytes()
    (repository / ".git" / "index.lock").touch()
    os.utime(repository / "f", (1, 1))  # git would like to note that
    assert await kinds(repository, lambda: (repository / "g").write_text("x")) == {"g": "created"}
    assert not (tmp_path / "was-run").exists()
    assert (repository / ".git" / "index").read_bytes() == index


async def test_looking_runs_no_filter_of_the_repository(repository: Path, tmp_path: Path) -> None:
    for name in ("slow", "with.dots=and that", "required"):
        git(repository, "config", f"filter.{name}.clean", f"touch '{tmp_path}/was-run'; cat")
    git(repository, "config", "filter.required.required", "true")
    (repository / ".gitattributes").write_text("f filter=required\ng filter=slow\n")
    (repository / "f").write_text("2\n")
    assert await kinds(repository, lambda: (repository / "g").write_text("x")) == {"g": "created"}
    assert await kinds(repository, lambda: (repository / "f").write_text("3\n")) == {"f": "changed"}
    assert not (tmp_path / "was-run").exists()


async def test_variables_of_git_do_not_lead_to_another_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "nowhere"))
    assert await kinds(repository, lambda: (repository / "g").write_text("x")) == {"g": "created"}


async def test_without_git_a_repository_is_looked_at_as_any_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert await kinds(repository, lambda: (repository / "f").write_text("2\n")) == {"f": "changed"}


async def test_a_repository_that_git_does_not_understand_is_looked_at_as_any_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    assert await kinds(tmp_path, lambda: (tmp_path / "f").write_text("x")) == {"f": "created"}


async def test_a_directory_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    assert await kinds(folder, folder.rmdir) == {}
    assert await kinds(tmp_path / "never", lambda: None) == {}


async def test_folders_of_others_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    assert await kinds(tmp_path, lambda: (tmp_path / "node_modules" / "f").write_text("x")) == {}


async def test_a_folder_with_too_much_in_it_is_given_up_and_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_files, "_MOST_ENTRIES", 10)
    for n in range(10):
        (tmp_path / f"f{n}").touch()
    changes = CommandChanges(LONG_S)
    looked: list[Path] = []
    walk = changed_files._walked

    def walked(root: Path, deadline: float) -> changed_files.Snapshot:
        looked.append(root)
        return walk(root, deadline)

    monkeypatch.setattr(changed_files, "_walked", walked)
    for _ in range(9):
        before = await changes.before(tmp_path)
        assert before is None
        assert await changes.after(tmp_path, before) == Found((), truncated=True)
    assert len(looked) == 3  # the first time, the fourth and the ninth
    (tmp_path / "f0").unlink()
    while (before := await changes.before(tmp_path)) is None:
        pass
    assert (await changes.after(tmp_path, before)).changes == []


async def test_a_git_that_takes_too_long_is_given_up(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    changes = CommandChanges(0.2)
    assert await changes.before(repository) is None
    assert (await changes.after(repository, None)).truncated


async def test_what_a_slow_git_has_started_ends_with_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "held")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(
        f"#!/bin/sh\nsleep 600 >'{tmp_path}/held' &\ntouch '{tmp_path}/was-run'\nwait\n"
    )
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert await CommandChanges(3.0).before(repository) is None
        assert (tmp_path / "was-run").exists()
        os.set_blocking(reader, True)
        with anyio.fail_after(DEADLINE_S):  # the end comes when nobody has it open any more
            assert await anyio.to_thread.run_sync(os.read, reader, 1, abandon_on_cancel=True) == b""
    finally:
        os.close(reader)


async def test_a_very_long_list_is_cut(tmp_path: Path) -> None:
    def command() -> None:
        for n in range(1100):
            (tmp_path / f"f{n:04}").touch()

    result = await found(tmp_path, command)
    assert result.truncated
    assert [each.path.name for each in result.changes] == [f"f{n:04}" for n in range(1000)]
