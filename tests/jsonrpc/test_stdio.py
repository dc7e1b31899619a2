"""Transports over real descriptors of every kind."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from pi_rpc.jsonrpc.framing import Framing
from pi_rpc.jsonrpc.stdio import LOW_WATER_BYTES, StdioTransport
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]


class Ends:
    """Descriptors of a transport, and the other ends of them, as plain calls that block."""

    def __init__(self, kind: str, *, blocking: bool = True) -> None:
        if kind == "pipe":
            self.in_fd, self.input = os.pipe()
            self.output, self.out_fd = os.pipe()
        else:
            near, far = socket.socketpair()
            self.in_fd, self.input = near.detach(), far.detach()
            self.out_fd, self.output = os.dup(self.in_fd), os.dup(self.input)
        for fd in (self.in_fd, self.out_fd):
            os.set_blocking(fd, blocking)
        self.open = {self.input, self.output}

    def transport(self, framing: Framing | None = Framing.LINES) -> StdioTransport:
        return StdioTransport(self.in_fd, self.out_fd, framing=framing)

    def close(self, fd: int) -> None:
        if fd in self.open:
            self.open.remove(fd)
            os.close(fd)

    def close_all(self) -> None:
        for fd in list(self.open):
            self.close(fd)

    def read_all(self) -> bytes:
        """Everything up to the end of output."""
        pieces = []
        while piece := os.read(self.output, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)


@pytest.fixture(params=["pipe", "socket", "pipe, not blocking", "socket, not blocking"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    kind, _, way = request.param.partition(", ")
    ends = Ends(kind, blocking=not way)
    yield ends
    ends.close_all()


@pytest.fixture
def pipes() -> Iterator[Ends]:
    ends = Ends("pipe")
    yield ends
    ends.close_all()


async def in_thread(call: Callable[[], object]) -> None:
    await anyio.to_thread.run_sync(call)


async def receive(transport: StdioTransport, count: int) -> list[object]:
    """So many frames."""
    frames: list[object] = []
    with anyio.fail_after(DEADLINE_S):
        while len(frames) < count:
            more = await transport.receive()
            assert more is not None
            frames += more
    assert len(frames) == count
    return frames


async def test_frames_go_in_and_out(ends: Ends) -> None:
    transport = ends.transport(None)
    os.write(ends.input, b"{}\n[1")
    assert await receive(transport, 1) == [b"{}"]
    os.write(ends.input, b"]\n{")
    assert await receive(transport, 1) == [b"[1]"]
    transport.send([b'"a"', b'"b"'])
    transport.send([b'"c"'])
    await anyio.lowlevel.checkpoint()
    assert os.read(ends.output, 100) == b'"a"\n"b"\n"c"\n'
    assert transport.waiting_bytes == 0
    transport.close()


async def test_the_first_of_a_turn_is_written_at_once_and_the_rest_at_its_end_in_order(
    pipes: Ends,
) -> None:
    transport = pipes.transport(Framing.LINES)
    os.set_blocking(pipes.output, False)
    transport.send([b"0"])
    transport.send([b"1"])
    transport.send([b"2"])
    assert os.read(pipes.output, 100) == b"0\n"
    with pytest.raises(BlockingIOError):
        os.read(pipes.output, 100)
    long = b'"' + b"x" * 5000 + b'"'
    transport.send([long])
    transport.send([b"3"])
    with anyio.fail_after(DEADLINE_S):
        assert await transport.flush(1)
    assert os.read(pipes.output, 10_000) == b"1\n2\n" + long + b"\n3\n"
    transport.close()


async def test_the_end_of_input_gives_the_last_line_and_then_nothing(pipes: Ends) -> None:
    transport = pipes.transport()
    os.write(pipes.input, b"{}\n5")
    pipes.close(pipes.input)
    assert await receive(transport, 2) == [b"{}", b"5"]
    assert await transport.receive() is None
    assert await transport.receive() is None
    transport.close()


async def test_frames_are_read_before_a_loop_exists_and_the_rest_after(pipes: Ends) -> None:
    transport = pipes.transport(None)
    os.write(pipes.input, b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]Content-")

    def before() -> None:
        first = transport.read_first_frame()
        assert first == b"{}"
        transport.unread(first)
        assert transport.read_first_frame() == b"{}"
        transport.send_blocking(b'"first"')

    await in_thread(before)
    os.write(pipes.input, b"Length: 1\r\n\r\n5")
    assert await receive(transport, 2) == [b"[1]", b"5"]
    transport.send([b'"second"'])
    pipes.close(pipes.input)
    assert await transport.receive() is None
    await transport.flush(1)
    transport.close()
    assert pipes.read_all() == b'Content-Length: 7\r\n\r\n"first"Content-Length: 8\r\n\r\n"second"'


async def test_any_number_of_frames_is_read_before_a_loop_exists(tmp_path: Path) -> None:
    frame = b'"' + b"x" * 600_000 + b'"'
    said = tmp_path / "said"
    said.write_bytes((frame + b"\n") * 4)
    transport = StdioTransport(
        os.open(said, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY), framing=Framing.LINES
    )
    found: list[object] = []
    reading = threading.Thread(
        target=lambda: found.extend(transport.read_first_frame() for _ in range(5)), daemon=True
    )
    reading.start()
    reading.join(DEADLINE_S)
    assert found == [*[frame] * 4, None]
    transport.close()


async def test_no_input_at_all_is_the_end_also_before_a_loop_exists(pipes: Ends) -> None:
    pipes.close(pipes.input)
    transport = pipes.transport(None)
    assert transport.read_first_frame() is None
    assert await transport.receive() is None
    transport.close()


async def test_what_is_sent_before_the_framing_is_known_waits_for_it(pipes: Ends) -> None:
    transport = pipes.transport(None)
    transport.send([b'"early"'])
    os.write(pipes.input, b"Content-Length: 2\r\n\r\n{}")
    await receive(transport, 1)
    await anyio.lowlevel.checkpoint()
    assert os.read(pipes.output, 100) == b'Content-Length: 7\r\n\r\n"early"'
    transport.close()


async def test_a_reader_that_stalls_stops_nothing_and_gets_everything_in_order(ends: Ends) -> None:
    transport = ends.transport()
    sent = [b'"%d %b"' % (index, b"x" * (index % 5000)) for index in range(2000)]
    with anyio.fail_after(DEADLINE_S):
        for index in range(0, len(sent), 10):
            transport.send(sent[index : index + 10])
        assert transport.waiting_bytes > 1 << 20
        # The loop still turns, and input still comes.
        os.write(ends.input, b"{}\n")
        assert await receive(transport, 1) == [b"{}"]
        read = bytearray()
        total = sum(map(len, sent)) + len(sent)

        def drain(limit: int) -> None:
            while len(read) < limit:
                read.extend(os.read(ends.output, 1 << 16))

        await in_thread(lambda: drain(total - LOW_WATER_BYTES))
        await transport.drained()
        assert transport.waiting_bytes <= LOW_WATER_BYTES
        await in_thread(lambda: drain(total))
        assert await transport.flush(DEADLINE_S)
        transport.send([b'"after"'])
        await in_thread(lambda: drain(total + 8))
    assert bytes(read) == b"".join(one + b"\n" for one in sent) + b'"after"\n'
    transport.close()


async def test_flush_gives_up_when_nothing_moves_and_close_lets_go(ends: Ends) -> None:
    transport = ends.transport()
    transport.send([b'"' + b"x" * 3_000_000 + b'"'])
    with anyio.fail_after(DEADLINE_S):
        assert not await transport.flush(0.05)
        transport.close()
        await transport.drained()
        assert await transport.receive() is None
    ends.close(ends.output)


async def test_a_reader_that_has_gone_closes_the_transport_and_wakes_everybody(ends: Ends) -> None:
    transport = ends.transport()
    woken: list[str] = []

    async def wait_for_input() -> None:
        assert await transport.receive() is None
        woken.append("input")

    async def wait_for_output() -> None:
        await transport.drained()
        woken.append("output")

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_input)
            transport.send([b'"' + b"x" * 3_000_000 + b'"'])
            tasks.start_soon(wait_for_output)
            await anyio.lowlevel.checkpoint()
            ends.close_all()
    assert sorted(woken) == ["input", "output"]
    assert transport.closed
    transport.send([b"5"])
    transport.close()


async def test_a_small_write_to_nobody_closes_the_transport(ends: Ends) -> None:
    transport = ends.transport()
    ends.close_all()
    with anyio.fail_after(DEADLINE_S):
        transport.send([b"5"])
        assert await transport.receive() is None
        assert transport.closed


async def test_input_waits_in_the_pipe_while_nobody_takes_it(pipes: Ends) -> None:
    transport = pipes.transport()
    line = b'"' + b"x" * 10_000 + b'"'
    count = 1000

    def write() -> None:
        for _ in range(count):
            os.write(pipes.input, line + b"\n")

    with anyio.fail_after(DEADLINE_S):
        assert await start_reading(transport, pipes) == [b"{}"]
        writing = threading.Thread(target=write)
        writing.start()
        await in_thread(lambda: writing.join(0.3))
        assert writing.is_alive()
        assert await receive(transport, count) == [line] * count
        await in_thread(writing.join)
    transport.close()


async def start_reading(transport: StdioTransport, ends: Ends) -> list[object]:
    os.write(ends.input, b"{}\n")
    return await receive(transport, 1)


async def test_files_and_the_null_device_serve_as_well(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"{}\n" * 1000)
    transport = StdioTransport(
        os.open(source, os.O_RDONLY), os.open(target, os.O_WRONLY | os.O_CREAT)
    )
    assert await receive(transport, 1000) == [b"{}"] * 1000
    assert await transport.receive() is None
    transport.send([b"5"] * 1000)
    assert await transport.flush(DEADLINE_S)
    transport.close()
    assert target.read_bytes() == b"5\n" * 1000

    null = StdioTransport(
        os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY), framing=Framing.LINES
    )
    assert await null.receive() is None
    null.send([b"5"])
    assert await null.flush(DEADLINE_S)
    null.close()


async def test_a_terminal_serves_as_well() -> None:
    controller, terminal = os.openpty()
    try:
        transport = StdioTransport(terminal, os.dup(terminal))
        os.write(controller, b"{}\n")
        assert await receive(transport, 1) == [b"{}"]
        transport.send([b'"out"'])
        assert await transport.flush(DEADLINE_S)
        shown = b""
        while b"out" not in shown:
            shown += os.read(controller, 100)
        transport.close()
    finally:
        os.close(controller)


async def test_close_closes_the_descriptors_and_ends_the_threads(ends: Ends) -> None:
    before = set(threading.enumerate())
    transport = ends.transport()
    await start_reading(transport, ends)
    transport.send([b'"' + b"x" * 1_000_000 + b'"'])
    ours = [
        thread
        for thread in threading.enumerate()
        if thread not in before and thread.name.startswith("pi-rpc")
    ]
    assert len(ours) == 2
    await in_thread(lambda: os.read(ends.output, 1 << 16))
    transport.close()
    transport.close()
    with anyio.fail_after(DEADLINE_S):
        await in_thread(ends.read_all)
        for thread in ours:
            await in_thread(thread.join)
    for fd in (ends.in_fd, ends.out_fd):
        with pytest.raises(OSError):
            os.fstat(fd)


CLAIM = """
import os
from pi_rpc.jsonrpc.stdio import claim_stdio
in_fd, out_fd = claim_stdio()
print("printed")
os.system("echo shell; cat")
assert not os.get_inheritable(in_fd) and not os.get_inheritable(out_fd)
assert min(in_fd, out_fd) > 2
os.write(out_fd, os.read(in_fd, 100))
"""


def test_claimed_streams_are_out_of_reach_of_prints_and_children() -> None:
    ended = subprocess.run(
        [sys.executable, "-u", "-c", CLAIM],
        input=b"for us",
        capture_output=True,
        cwd=ROOT,
        check=True,
    )
    assert ended.stdout == b"for us"
    assert ended.stderr == b"printed\nshell\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed_are_claimed_as_empty(closed: str) -> None:
    code = (
        "from pi_rpc.jsonrpc.stdio import claim_stdio; import os;"
        "fds = claim_stdio(); os.write(fds[1], b'x'); os.read(fds[0], 1);"
        "os.write(1, b''); os.write(2, b''); assert min(fds) > 2 and len(set(fds)) == 2"
    )
    command = f'"$1" -c "$2" {closed}'
    subprocess.run(
        ["/bin/sh", "-c", command, "sh", sys.executable, code],
        cwd=ROOT,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
