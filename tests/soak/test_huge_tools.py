"""Files and outputs at their full size, over the real process: memory stays small, pings go on.

``make soak`` runs them; the same at small sizes is in ``tests/tools``.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from tests.e2e.editor import Editor, call, editor, say

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.soak,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

FILE_BYTES = 5 * 1000**3
OUTPUT_BYTES = 10 * 1000**3
MEMORY_MB = 120
"""Of the daemon at its peak, the interpreter and all libraries included."""
KEPT_BYTES = 100_000_000
RUN_S = 1000
FULL = {"capabilities": {}, "initializationOptions": {"session": {"permissionMode": "full"}}}


def peak_mb(client: Editor) -> float:
    for line in Path(f"/proc/{client.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1000
    raise AssertionError("no VmHWM in /proc")


async def run(client: Editor) -> tuple[list[dict[str, Any]], int]:
    """The results of the tools of a run, and how many pings were answered meanwhile."""
    pings = 0
    prompt = client.begin("prompt", {"message": "go"})
    with anyio.fail_after(RUN_S):
        while not prompt.done():
            await client.request("ping")
            pings += 1
            await anyio.sleep(0.05)
    await asyncio.wrap_future(prompt)
    ends = [each for each in client.events if each["type"] == "tool_execution_end"]
    return ends, pings


def text(end: dict[str, Any]) -> str:
    said: str = end["result"]["content"][0]["text"]
    return said


async def test_a_file_of_five_gigabytes_is_read_searched_and_replaced_in_little_memory(
    tmp_path: Path,
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with (project / "huge").open("wb") as file:  # with a hole: it takes next to nothing of a disk
        file.write(b"the first line\n" * 1000)
        file.seek(FILE_BYTES)
        file.write(b"\nthe last line but one\nthe last line\n")
    replies = [
        [call("read", path="huge", limit=1)],
        [call("read", path="huge", offset=1002)],
        [call("edit", path="huge", edits=[{"oldText": "last", "newText": "final"}])],
        [call("grep", pattern="the last line$", path="huge")],
        [call("bash", command="tail -n 1 huge")],
        [call("write", path="huge", content="small")],
        [say("done")],
    ]
    names = {"tools": ["read", "edit", "grep", "bash", "write"], "cwd": str(project)}
    async with editor(tmp_path / "home", replies, cwd=project, initialize=FULL) as client:
        await client.request("session/new", {**names, "permissionMode": "full"})
        ends, pings = await run(client)
        peak = peak_mb(client)
    print(f"5 GB file: peak {peak:.0f} MB, {pings} pings")
    first, last, edited, _, tail, written = ends
    assert text(first).startswith("the first line\n")
    assert text(last) == "the last line but one\nthe last line\n"
    assert edited["isError"]
    assert "50" in text(edited)  # MiB, the most that can be edited
    assert text(tail).startswith("the last line\n")
    assert not written["isError"]
    assert (project / "huge").read_text() == "small"
    assert peak < MEMORY_MB


async def test_a_command_that_prints_ten_gigabytes_ends_in_little_memory(tmp_path: Path) -> None:
    command = f"yes 'the kettle is on' | head -c {OUTPUT_BYTES}; echo; echo the end"
    replies = [[call("bash", command=command, timeout=RUN_S)], [say("done")]]
    async with editor(tmp_path, replies, cwd=tmp_path, initialize=FULL) as client:
        (end,), pings = await run(client)
        peak = peak_mb(client)
        commands = psutil.Process(client.process.pid).children(recursive=True)
        assert not [each for each in commands if each.name() in {"yes", "head"}]
    print(f"10 GB of output: peak {peak:.0f} MB, {pings} pings")
    assert not end["isError"], text(end)
    assert "the end" in text(end)
    assert len(text(end)) < 60_000
    kept = Path(end["result"]["details"]["fullOutputPath"])
    try:
        assert kept.stat().st_size <= KEPT_BYTES
    finally:
        kept.unlink()
    told = [each for each in client.events if each["type"] == "tool_execution_update"]
    assert sum(len(str(each)) for each in told) < 2_000_000
    assert peak < MEMORY_MB
