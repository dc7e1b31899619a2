"""Looking for files by a few characters: what is found, in which order, and how fresh it is."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.agent.ports import PortError
from pi_rpc.tools import _ripgrep, file_search
from pi_rpc.tools._file_index import FileIndex, search
from pi_rpc.tools.file_search import FileSearch
from tests.deadlines import DEADLINE_S

TREE = [
    "Makefile",
    "README.md",
    "src/boiler.py",
    "src/engine/boiler_test.py",
    "src/engine/gauge.py",
    "src/engine/getFileName.ts",
    "src/engine/old_boiler.py",
    "src/engine/turboiler.py",
    "src/boilers/steam.py",
    "tests/test_boiler.py",
]


def paths(query: str, names: list[str] = TREE, limit: int = 50) -> list[str]:
    index = FileIndex()
    index.add(names)
    found, _ = search(index.blocks(), query, limit)
    return [each.path for each in found]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("boiler", ["src/boiler.py", "src/boilers", "src/engine/boiler_test.py"]),
        ("BOILER.PY", ["src/boiler.py"]),
        ("gfn", ["src/engine/getFileName.ts"]),
        ("filename", ["src/engine/getFileName.ts"]),
        ("make", ["Makefile"]),
        ("engine", ["src/engine"]),
        ("engine/g", ["src/engine/gauge.py", "src/engine/getFileName.ts"]),
        ("src/", ["src/engine", "src/boilers", "src/boiler.py"]),
        ("./src/boiler.py", ["src/boiler.py"]),
        ("tests boil", ["tests/test_boiler.py"]),
        ("boil  tests", ["tests/test_boiler.py"]),
        ("srcgauge", ["src/engine/gauge.py"]),
        ("rdm", ["README.md"]),
    ],
)
def test_what_a_person_means_comes_first(query: str, first: list[str]) -> None:
    assert paths(query)[: len(first)] == first


def test_the_beginning_of_a_word_comes_before_the_middle_of_one() -> None:
    found = paths("boiler")
    assert found.index("src/engine/old_boiler.py") < found.index("src/engine/turboiler.py")
    assert found.index("src/engine/turboiler.py") < found.index("src/boilers/steam.py")


@pytest.mark.parametrize("query", ["xyz", "boilerz", "boiler xyz", "a\0b", "b" * 300, "\ud800"])
def test_what_is_nowhere_is_not_found(query: str) -> None:
    assert paths(query) == []


@pytest.mark.parametrize("query", ["", "  ", "\t"])
def test_without_a_query_the_least_deep_come_first(query: str) -> None:
    assert paths(query, limit=4) == ["src", "tests", "Makefile", "README.md"]


@pytest.mark.parametrize("query", [".", "/", "*", "[", "\\", "^", "-", "]", "^]", "\\d"])
def test_signs_stand_for_themselves(query: str) -> None:
    names = ["a.b", "c*[d]", "e\\^-f", "x^]", "y\\d"]
    assert set(paths(query, names)) == {name for name in names if query.strip("/") in name}


@given(
    st.lists(st.text("aB./\0é", min_size=1, max_size=9), max_size=30), st.text("abé.", max_size=4)
)
def test_every_path_with_the_letters_in_order_is_found_and_no_other(
    texts: list[str], query: str
) -> None:
    names = sorted({text.replace("\0", "").strip("/.").replace("//", "/") for text in texts} - {""})
    names = [name for name in names if "//" not in name]
    folders = {
        "/".join(name.split("/")[:n]) for name in names for n in range(1, name.count("/") + 1)
    }

    def fits(path: str) -> bool:
        rest = iter(path.lower())
        return all(char in rest for char in query)

    expected = sorted(path for path in [*names, *folders] if fits(path))
    assert sorted(paths(query, names, limit=1000)) == expected


def test_of_many_matches_the_best_are_given_and_the_rest_is_announced() -> None:
    index = FileIndex()
    index.add([f"deep/er/file_{number}.py" for number in range(9000)])
    index.add(["deep/er/est/le.py"])
    found, more = search(index.blocks(), "le", 3)
    assert found[0].path == "deep/er/est/le.py"
    assert len(found) == 3
    assert more
    assert not search(index.blocks(), "est/le", 3)[1]


def test_letters_that_change_their_length_in_lower_case_do_not_shift_names() -> None:
    assert paths("b.txt", ["İİİ/a.txt", "İİİ/b.txt"]) == ["İİİ/b.txt"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first list of a directory is waited for, however busy this machine is."""
    monkeypatch.setattr(file_search, "_FIRST_WAIT_S", DEADLINE_S)


@asynccontextmanager
async def searching() -> AsyncIterator[FileSearch]:
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(DEADLINE_S):
            yield FileSearch(tasks)
        tasks.cancel_scope.cancel()


async def found(files: FileSearch, folder: Path, query: str = "") -> list[tuple[str, str]]:
    result = await files.search(folder, query, 100)
    return [(each.path, each.kind) for each in result.files]


@pytest.mark.anyio
async def test_ignored_files_and_git_are_left_out_and_hidden_ones_are_not(workdir: Path) -> None:
    for name in (".env", ".git/config", "build/out", "src/a.py"):
        (workdir / name).parent.mkdir(exist_ok=True)
        (workdir / name).touch()
    (workdir / ".gitignore").write_text("build\n")
    async with searching() as files:
        assert await found(files, workdir) == [
            ("src", "directory"),
            (".env", "file"),
            (".gitignore", "file"),
            ("src/a.py", "file"),
        ]


@pytest.mark.anyio
async def test_a_file_that_came_or_went_is_noticed(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "_FRESH_S", 0.0)
    (workdir / "a").touch()
    async with searching() as files:
        while await found(files, workdir) != [("a", "file")]:
            await anyio.sleep(0.01)
        (workdir / "a").rename(workdir / "b")
        while await found(files, workdir) != [("b", "file")]:
            await anyio.sleep(0.01)


@pytest.mark.anyio
async def test_a_fresh_list_is_not_made_again(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "_FRESH_S", 1000.0)
    (workdir / "a").touch()
    async with searching() as files:
        while await found(files, workdir) != [("a", "file")]:
            await anyio.sleep(0.01)
        (workdir / "b").touch()
        monkeypatch.setattr(_ripgrep, "find_ripgrep", lambda path: None)
        assert await found(files, workdir) == [("a", "file")]


@pytest.mark.anyio
async def test_while_the_list_is_made_what_is_known_of_it_is_answered(
    tmp_path: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\nprintf './one\\0./tw'\nsleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(_ripgrep, "find_ripgrep", lambda path: str(program))
    monkeypatch.setattr(file_search, "_FIRST_WAIT_S", 0.05)
    async with searching() as files:
        while not (result := await files.search(workdir, "o", 10)).files:
            await anyio.sleep(0.01)
        assert [each.path for each in result.files] == ["one"]
        assert result.truncated


@pytest.mark.anyio
async def test_a_very_large_directory_is_listed_in_part(
    workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_search, "_MOST_FILES", 2)
    for name in ("a", "b", "c"):
        (workdir / name).touch()
    async with searching() as files:
        assert (await files.search(workdir, "a", 10)).truncated


@pytest.mark.anyio
async def test_names_that_are_not_unicode_are_found(workdir: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (workdir / name).touch()
    (workdir / "new\nline").touch()
    async with searching() as files:
        assert await found(files, workdir, "caf") == [(name, "file")]
        assert await found(files, workdir, "line") == [("new\nline", "file")]


@pytest.mark.anyio
async def test_a_directory_that_is_gone_is_refused_and_found_again_when_it_is_back(
    workdir: Path,
) -> None:
    folder = workdir / "a"
    async with searching() as files:
        with pytest.raises(PortError) as error:
            await files.search(folder, "x", 10)
        assert error.value.code == "not_found"
        folder.mkdir()
        (folder / "x").touch()
        assert await found(files, folder, "x") == [("x", "file")]


@pytest.mark.anyio
async def test_only_the_last_few_directories_are_kept(workdir: Path) -> None:
    async with searching() as files:
        for number in range(9):
            folder = workdir / str(number)
            folder.mkdir()
            (folder / "x").touch()
            assert await found(files, folder) == [("x", "file")]
        assert len(files._folders) == 4
