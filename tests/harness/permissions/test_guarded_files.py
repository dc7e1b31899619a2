"""Files that a call was granted, while somebody puts links in their way."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pi_rpc.agent.ports import FileSystem, PortError, Shell, ToolContext
from pi_rpc.agent.tool import AgentTool, ToolFailure
from pi_rpc.harness.checkpoints import SavingFiles
from pi_rpc.harness.permissions.guarded_files import Grant, GuardedFiles
from pi_rpc.host.edited_files import EditedFiles
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import text_of
from pi_rpc.tools import LocalFiles, builtin_tools
from tests.deadlines import DEADLINE_S
from tests.host.test_edited_files import OneDocument

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="directories are not held there"),
]

TOOLS = builtin_tools()
SECRET = "what is outside"
ROUNDS = 200


class Swapping(LocalFiles):
    """The disk, where something happens once a path has been resolved."""

    def __init__(self) -> None:
        self.then: Callable[[], object] | None = None

    async def real_path(self, path: Path) -> Path:
        real = await super().real_path(path)
        if (then := self.then) is not None:
            self.then = None
            then()
        return real


class World:
    """A project that may be used, and what is outside of it."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.outside = folder / "outside"
        (self.project / "a").mkdir(parents=True)
        self.outside.mkdir()
        (self.project / "a" / "f").write_text("inside\n")
        (self.outside / "f").write_text(f"{SECRET}\n")
        self.disk = Swapping()
        self.edited = EditedFiles(self.disk)
        stack: FileSystem = SavingFiles(self.edited, lambda: None)
        self.files = GuardedFiles(stack, Grant(self.is_inside, self.is_inside))

    def is_inside(self, path: Path) -> bool:
        return path.is_relative_to(self.project)

    def around_outside(self) -> dict[str, str | None]:
        found = sorted(self.outside.rglob("*"))
        return {str(path): path.read_text() if path.is_file() else None for path in found}

    def lead_outside(self) -> None:
        """Put a link to the outside in the place of the folder."""
        (self.project / "a").rename(self.project / "kept")
        (self.project / "a").symlink_to(self.outside)

    def lead_back(self) -> None:
        (self.project / "a").unlink()
        (self.project / "kept").rename(self.project / "a")

    async def use(self, name: str, **params: Any) -> str:
        tool: AgentTool = TOOLS[name]
        if tool.prepare_arguments is not None:
            params = tool.prepare_arguments(params)
        context = ToolContext(cwd=self.project, files=self.files, shell=cast(Shell, None))
        signal = AbortController().signal
        result = await tool.run("1", params, signal, lambda _: None, context)
        return text_of(list(result.content))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


async def refused(doing: Awaitable[object]) -> str:
    with pytest.raises(PortError) as caught:
        await doing
    assert caught.value.code == "not_permitted", caught.value.message
    return caught.value.message


async def opened(files: GuardedFiles, path: Path) -> bytes:
    async with files.open(path) as file:
        return await file.read(100)


OPERATIONS: dict[str, Callable[[GuardedFiles, Path], Awaitable[object]]] = {
    "stat": lambda files, path: files.stat(path),
    "open": opened,
    "read": lambda files, path: files.read(path),
    "write": lambda files, path: files.write(path, b"new"),
    "write a new file": lambda files, path: files.write(path.with_name("new"), b"new"),
    "write in new folders": lambda files, path: files.write(path.with_name("x") / "y/z", b"new"),
    "remove": lambda files, path: files.remove(path),
    "set the mode": lambda files, path: files.set_mode(path, 0o777),
}


@pytest.mark.parametrize("name", OPERATIONS)
async def test_what_was_not_granted_is_refused_and_said_by_its_real_name(
    world: World, name: str
) -> None:
    before = world.around_outside()
    (world.project / "door").symlink_to(world.outside)
    message = await refused(OPERATIONS[name](world.files, world.project / "door" / "f"))
    assert f"leads to {world.outside}/" in message
    await refused(OPERATIONS[name](world.files, world.outside / "f"))
    assert world.around_outside() == before
    assert not await world.files.may_read(world.outside / "f")
    assert await world.files.may_read(world.project / "a" / "f")


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_folder_that_becomes_a_link_between_look_and_use_is_not_followed(
    world: World, name: str
) -> None:
    before = world.around_outside()
    mode = (world.outside / "f").stat().st_mode
    world.disk.then = world.lead_outside
    message = await refused(OPERATIONS[name](world.files, world.project / "a" / "f"))
    assert "a symbolic link has taken its place, or that of a directory above" in message
    assert world.around_outside() == before
    assert (world.outside / "f").stat().st_mode == mode


@pytest.mark.parametrize("name", ["stat", "open", "read", "write", "remove", "set the mode"])
async def test_a_file_that_becomes_a_link_between_look_and_use_is_not_followed(
    world: World, name: str
) -> None:
    path, before = world.project / "a" / "f", world.around_outside()

    def swap() -> None:
        path.unlink()
        path.symlink_to(world.outside / "f")

    world.disk.then = swap
    await refused(OPERATIONS[name](world.files, path))
    assert world.around_outside() == before
    assert path.is_symlink()


@pytest.mark.parametrize("name", ["stat", "open", "read", "write", "remove"])
async def test_nor_is_a_document_that_an_editor_shows_of_what_is_outside(
    world: World, name: str
) -> None:
    editor = OneDocument(world.outside / "f", f"{SECRET}, typed\n", dirty=True)
    world.edited.editor = editor
    world.disk.then = world.lead_outside
    await refused(OPERATIONS[name](world.files, world.project / "a" / "f"))
    assert "edit" not in editor.said
    assert "read" not in editor.said


@pytest.mark.parametrize("name", ["open", "read", "write"])
async def test_a_file_that_becomes_a_pipe_between_look_and_use_holds_nobody_up(
    world: World, name: str
) -> None:
    path = world.project / "a" / "f"

    def swap() -> None:
        path.unlink()
        os.mkfifo(path)

    world.disk.then = swap
    with anyio.fail_after(DEADLINE_S), pytest.raises(PortError) as caught:
        await OPERATIONS[name](world.files, path)
    assert caught.value.code == "not_regular"


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("read", {"path": "a/f"}),
        ("grep", {"pattern": "what", "path": "a"}),
        ("grep", {"pattern": "what", "path": "a/f"}),
        ("find", {"pattern": "*", "path": "a"}),
        ("ls", {"path": "a"}),
        ("edit", {"path": "a/f", "oldText": SECRET, "newText": "x"}),
        ("write", {"path": "a/f", "content": "x"}),
        ("write", {"path": "a/new/f", "content": "x"}),
    ],
)
async def test_a_tool_whose_folder_becomes_a_link_shows_and_changes_nothing_outside(
    world: World, tool: str, params: dict[str, Any]
) -> None:
    before = world.around_outside()
    world.disk.then = world.lead_outside
    with pytest.raises(ToolFailure) as caught:
        await world.use(tool, **params)
    assert caught.value.details == {"code": "not_permitted"}
    assert SECRET not in caught.value.message
    assert world.around_outside() == before
    # Nor where the link was there from the beginning.
    with pytest.raises(ToolFailure, match=r"leads to|may not be read|may not be changed"):
        await world.use(tool, **params)
    assert world.around_outside() == before


@pytest.mark.parametrize("tool", ["grep", "find"])
async def test_a_search_stays_where_it_began_and_shows_nothing_if_that_moved(
    world: World, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    from pi_rpc.tools import _ripgrep

    find = _ripgrep.find_ripgrep
    (world.outside / "only outside").write_text(SECRET)
    moves_back = False

    def swap(path: str) -> str | None:
        world.lead_outside()
        if moves_back:
            world.disk.then = world.lead_back
        return find(path)

    monkeypatch.setattr(_ripgrep, "find_ripgrep", swap)
    params = {"pattern": "inside|what"} if tool == "grep" else {"pattern": "*"}
    with pytest.raises(ToolFailure, match="was made to lead elsewhere"):
        await world.use(tool, path="a", **params)
    world.lead_back()
    moves_back = True
    if sys.platform == "linux":
        world.disk.then = None
        with suppress(ToolFailure):
            assert "outside" not in await world.use(tool, path="a", **params)


async def test_a_search_leaves_out_what_may_not_be_read(world: World) -> None:
    (world.project / "a" / "key").write_text("inside and secret\n")

    def may(path: Path) -> bool:
        return world.is_inside(path) and path.name != "key"

    world.files = GuardedFiles(world.disk, Grant(may, may))
    found = await world.use("grep", pattern="inside")
    assert "a/f:1: inside" in found
    assert "secret" not in found
    assert "1 file with matches may not be read" in found
    with pytest.raises(ToolFailure, match="may not be read"):
        await world.use("grep", pattern="inside", path="a/key")


FLIP = """
import itertools, os, sys
link, *targets = sys.argv[1:]
print("begun", flush=True)
for target in itertools.cycle(targets):
    os.symlink(target, link + ".new")
    os.replace(link + ".new", link)
"""
"""A link that leads here and there."""

TAKE_TURNS = """
import os, shutil, sys
from contextlib import suppress
folder, outside = sys.argv[1:]
print("begun", flush=True)
while True:
    try:
        os.rename(folder, folder + ".kept")
        os.symlink(outside, folder)
        os.unlink(folder)
        os.rename(folder + ".kept", folder)
    except OSError:  # somebody has made the folder anew meanwhile
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            os.rename(folder + ".kept", folder)
"""
"""A folder, and a link to the outside in its place."""


@contextmanager
def another_process(code: str, *arguments: Path) -> Iterator[None]:
    """One that does ``code`` as fast as it can."""
    argv = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            yield
            assert process.poll() is None, "it has not gone on to the end"
        finally:
            process.kill()


async def race(world: World, folder: Path) -> None:
    """Reads and writes below ``folder``, which leads here and there."""
    before = world.around_outside()
    for n in range(ROUNDS):
        with suppress(PortError):
            assert await world.files.read(folder / "f") != f"{SECRET}\n".encode()
        with suppress(PortError):
            async with world.files.open(folder / "f") as file:
                assert SECRET.encode() not in await file.read(100)
        with suppress(PortError):
            await world.files.write(folder / "f", f"written {n}\n".encode())
        with suppress(PortError):
            await world.files.write(folder / f"new {n}" / "deep" / "g", b"written\n")
    assert world.around_outside() == before


async def test_a_link_that_is_turned_here_and_there_never_lets_anything_out(world: World) -> None:
    door = world.project / "door"
    with another_process(FLIP, door, world.project / "a", world.outside):
        await race(world, door)
    below = world.project / "a"
    assert [path.name for path in below.glob(".pi-rpc-*")] == []


async def test_a_folder_that_is_a_link_now_and_then_never_lets_anything_out(world: World) -> None:
    with another_process(TAKE_TURNS, world.project / "a", world.outside):
        await race(world, world.project / "a")


async def test_a_file_that_is_turned_here_and_there_never_lets_anything_out(world: World) -> None:
    before = world.around_outside()
    link = world.project / "link"
    with another_process(FLIP, link, world.project / "a" / "f", world.outside / "f"):
        for n in range(ROUNDS):
            with suppress(PortError):
                assert SECRET.encode() not in await world.files.read(link)
            with suppress(PortError):
                await world.files.write(link, f"written {n}\n".encode())
            with suppress(ToolFailure):
                assert SECRET not in await world.use("read", path="link")
    assert world.around_outside() == before


async def test_a_hard_link_is_cut_and_what_is_outside_stays(world: World) -> None:
    before = world.around_outside()
    path = world.project / "a" / "linked"
    os.link(world.outside / "f", path)
    await world.use("edit", path="a/linked", oldText=SECRET, newText="changed")
    await world.use("write", path="a/linked", content="written\n")
    assert path.read_text() == "written\n"
    assert world.around_outside() == before


async def test_what_was_granted_works_as_ever(world: World) -> None:
    assert await world.use("read", path="a/f") == "inside\n"
    await world.use("edit", path="a/f", oldText="inside", newText="edited")
    await world.use("write", path="b/c/d", content="new\n")
    (world.project / "link").symlink_to("a")
    assert await world.use("read", path="link/f") == "edited\n"
    assert await world.use("ls", path="link") == "f"
    assert "d:1: new" in await world.use("grep", pattern="new", path="b")
    assert "c/d" in await world.use("find", pattern="d", path="b")
    await world.files.remove(world.project / "b/c/d")
    await world.files.set_mode(world.project / "a/f", 0o600)
    assert (world.project / "a/f").stat().st_mode & 0o777 == 0o600
    assert list(await world.files.unsaved()) == []
