"""Changes of one file run one after the other; those of different files do not wait."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import pi_rpc.tools._steps as steps
from pi_rpc.agent.ports import FileStat, ToolContext, Written
from pi_rpc.agent.tool import AgentTool, ToolFailure
from pi_rpc.llm.abort import AbortController
from pi_rpc.tools._local_files import LocalFiles
from pi_rpc.tools.edit import edit_tool
from pi_rpc.tools.write import write_tool
from tests.deadlines import DEADLINE_S
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio

EDIT, WRITE = edit_tool(), write_tool()


class GatedFiles(LocalFiles):
    """Local files whose writes wait for a gate, and tell when they begin."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.begun: list[Path] = []
        self.first_begun = anyio.Event()
        self.at_once = 0
        self.most_at_once = 0

    async def write(self, path: Path, data: bytes, **given: Any) -> Written:
        self.begun.append(path)
        self.first_begun.set()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            # As a write to the disk: one that has begun is finished.
            with anyio.fail_after(DEADLINE_S, shield=True):
                await self.gate.wait()
            with anyio.CancelScope(shield=True):
                return await super().write(path, data, **given)
        finally:
            self.at_once -= 1


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(DEADLINE_S):
        while not condition():
            await anyio.sleep(0)


async def test_edits_of_one_file_at_once_all_take_effect(call: Call, workdir: Path) -> None:
    count = 40
    (workdir / "f").write_text("".join(f"<{n}>\n" for n in range(count)))
    (workdir / "link").symlink_to("f")
    async with anyio.create_task_group() as tasks:
        for n in range(count):
            name = ("f", "link", "./x/../f", str(workdir / "f"))[n % 4]

            async def edit(n: int = n, name: str = name) -> None:
                await call(EDIT, path=name, oldText=f"<{n}>", newText=f"[{n}]\nmore")

            tasks.start_soon(edit)
    assert (workdir / "f").read_text() == "".join(f"[{n}]\nmore\n" for n in range(count))


async def test_writes_of_one_file_take_effect_in_the_order_of_their_calls(
    call: Call, workdir: Path
) -> None:
    for _ in range(10):
        async with anyio.create_task_group() as tasks:
            for n in range(8):

                async def write(n: int = n) -> None:
                    await call(WRITE, path="f", content=f"{n}")

                tasks.start_soon(write)
        assert (workdir / "f").read_text() == "7"


async def test_a_write_and_an_edit_through_a_link_do_not_run_at_once(
    call: Call, workdir: Path
) -> None:
    (workdir / "f").write_text("a")
    (workdir / "link").symlink_to("f")
    files = GatedFiles()
    async with anyio.create_task_group() as tasks:

        async def write() -> None:
            await call(WRITE, path="f", content="a and more", files=files)

        async def edit() -> None:
            await call(EDIT, path="link", oldText="more", newText="less", files=files)

        tasks.start_soon(write)
        with anyio.fail_after(DEADLINE_S):
            await files.first_begun.wait()
        tasks.start_soon(edit)
        await until(lambda: len(_locks()) == 3)
        files.gate.set()
    assert (workdir / "f").read_text() == "a and less"
    assert files.most_at_once == 1


async def test_different_files_do_not_wait_for_each_other(call: Call, workdir: Path) -> None:
    files = GatedFiles()
    async with anyio.create_task_group() as tasks:
        for name in ("f", "g"):

            async def write(name: str = name) -> None:
                await call(WRITE, path=name, content="x", files=files)

            tasks.start_soon(write)
        await until(lambda: files.at_once == 2)
        files.gate.set()


async def test_an_abort_ends_the_waiting_and_the_queue_goes_on(call: Call, workdir: Path) -> None:
    files, controller = GatedFiles(), AbortController()
    outcomes: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def write(content: str, signal: AbortController) -> None:
            try:
                await call(WRITE, path="f", content=content, files=files, signal=signal.signal)
                outcomes.append(content)
            except ToolFailure as failure:
                outcomes.append(failure.message)

        tasks.start_soon(write, "first", AbortController())
        with anyio.fail_after(DEADLINE_S):
            await files.first_begun.wait()
        tasks.start_soon(write, "second", controller)
        tasks.start_soon(write, "third", AbortController())
        await anyio.wait_all_tasks_blocked()
        controller.abort()
        await until(lambda: outcomes)
        assert outcomes == ["Aborted."]
        files.gate.set()
    assert outcomes[1:] == ["first", "third"]
    assert (workdir / "f").read_text() == "third"


@pytest.mark.parametrize("stop", ["cancel", "abort"])
@pytest.mark.parametrize("tool", [WRITE, EDIT], ids=["write", "edit"])
async def test_a_write_that_has_begun_is_finished_before_the_next_may_start(
    call: Call, workdir: Path, stop: str, tool: AgentTool
) -> None:
    (workdir / "f").write_text("old")
    files, controller, scope = GatedFiles(), AbortController(), anyio.CancelScope()
    outcomes: list[str] = []
    params = {"content": "new"} if tool is WRITE else {"oldText": "old", "newText": "new"}

    async def first() -> None:
        with scope:
            await call(tool, path="f", files=files, signal=controller.signal, **params)
            outcomes.append("first")

    async def second() -> None:
        await call(EDIT, path="f", oldText="new", newText="newer", files=files)
        outcomes.append("second")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        with anyio.fail_after(DEADLINE_S):
            await files.first_begun.wait()
        tasks.start_soon(second)
        if stop == "cancel":
            scope.cancel()
        else:
            controller.abort()
        await anyio.wait_all_tasks_blocked()
        assert len(files.begun) == 1
        files.gate.set()
    # What has been written is reported as written, although the run was stopped meanwhile.
    assert outcomes == ["first", "second"]
    assert (workdir / "f").read_text() == "newer"


class StoppingFiles(LocalFiles):
    """Local files where a run is stopped while a step is going on; no later step may come."""

    def __init__(self, step: str, stop: Callable[[], None]) -> None:
        self.step = step
        self.stop = stop
        self.stopped = False
        self.stats = 0

    def _enter(self, step: str) -> None:
        assert not self.stopped, f"{step} although the run was stopped"
        if step == self.step:
            self.stopped = True
            self.stop()

    async def real_path(self, path: Path) -> Path:
        self._enter("real path")
        with anyio.CancelScope(shield=True):
            return await super().real_path(path)

    async def stat(self, path: Path, *, exact: bool = False) -> FileStat:
        self.stats += 1
        self._enter("first stat" if self.stats == 1 else "last stat")
        with anyio.CancelScope(shield=True):
            return await super().stat(path, exact=exact)

    async def write(self, path: Path, data: bytes, **given: Any) -> Written:
        self._enter("write")
        return await super().write(path, data, **given)


@pytest.mark.parametrize("by", ["cancel", "abort"])
@pytest.mark.parametrize(
    ("tool", "step"),
    [
        (WRITE, "real path"),
        (WRITE, "first stat"),
        (EDIT, "real path"),
        (EDIT, "first stat"),
        (EDIT, "last stat"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
async def test_a_call_that_is_stopped_before_its_write_takes_no_further_step(
    call: Call, workdir: Path, tool: AgentTool, step: str, by: str
) -> None:
    scope, controller = anyio.CancelScope(), AbortController()
    files = StoppingFiles(step, scope.cancel if by == "cancel" else controller.abort)
    params: dict[str, str] = {"content": "b"}
    if tool is EDIT:
        (workdir / "f").write_text("a")
        params = {"oldText": "a", "newText": "b"}
    aborted = False
    with scope:
        try:
            await call(tool, path="f", files=files, signal=controller.signal, **params)
        except ToolFailure as failure:
            aborted = failure.message == "Aborted."
    assert files.stopped
    assert scope.cancelled_caught == (by == "cancel")
    assert aborted == (by == "abort")
    assert (workdir / "f").exists() == (tool is EDIT)
    assert not any(lock.locked() for lock in _locks().values())


async def test_no_lock_outlives_its_use(call: Call, workdir: Path) -> None:
    for n in range(20):
        await call(WRITE, path=f"f{n}", content="x")
    gc.collect()
    assert len(_locks()) == 0


def test_event_loops_one_after_the_other_share_no_locks(
    file_context: Callable[..., ToolContext], workdir: Path
) -> None:
    async def write(content: str) -> None:
        context = file_context()
        signal = AbortController().signal
        params = {"path": "f", "content": content}
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(WRITE.run, "1", params, signal, lambda _: None, context)

    for content in ("one", "two"):
        anyio.run(write, content)
        assert (workdir / "f").read_text() == content


def _locks() -> "steps._Locks":
    return steps._locks.get()
