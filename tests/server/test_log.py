"""The log goes where it was asked to, and nobody waits for who reads it."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_rpc.log import log_to
from tests.e2e.editor import DAEMON, DEADLINE_S
from tests.server.wire import Wire

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes that are looked at")


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """Ours, as it was before in the end."""
    found = logging.getLogger("pi_rpc")
    before, level = list(found.handlers), found.level
    yield found
    for handler in [each for each in found.handlers if each not in before]:
        found.removeHandler(handler)
        handler.close()
    found.setLevel(level)


def everything(fd: int) -> bytes:
    """What a pipe holds at the moment."""
    os.set_blocking(fd, False)
    found = bytearray()
    try:
        while piece := os.read(fd, 1 << 20):
            found += piece
    except BlockingIOError:
        pass
    return bytes(found)


def filled(fd: int) -> None:
    """Nothing more has room in the pipe."""
    os.set_blocking(fd, False)
    for size in (1 << 16, 1):
        try:
            while os.write(fd, b"\n" * size):
                pass
        except BlockingIOError:
            pass
    os.set_blocking(fd, True)


def test_a_daemon_goes_on_though_nobody_reads_its_standard_error(tmp_path: Path) -> None:
    errors, for_daemon = os.pipe()
    filled(for_daemon)
    process = subprocess.Popen(
        [*DAEMON, "--log-level", "debug"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=for_daemon,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
        cwd=tmp_path,
    )
    os.close(for_daemon)
    with process:
        try:
            client = Wire(process)
            client.ask("initialize", {})
            client.reply({"id": "nobody-asked"}, result=None)  # which is worth a line
            assert client.ask("ping") == {}
            everything(errors)
            # What waited for a reader is written when there is one.
            assert client.end() == 0
            assert b"DEBUG pi_rpc" in (said := everything(errors))
            assert b"nobody-asked" in said
        finally:
            process.kill()
            os.close(errors)


def test_lines_wait_for_a_reader_in_their_order_and_what_is_too_much_is_counted(
    tmp_path: Path, logger: logging.Logger
) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        log_to("info", str(pipe))
        for number in range(30):
            logger.info("%02d %s", number, "x" * 100_000)
        found = everything(reader)
        later = 0
        while b"left out" not in found and later < 200:
            logger.info("later")
            later += 1
            found += everything(reader)
        said = [line.split(" INFO pi_rpc: ")[-1] for line in found.decode().splitlines()]
    finally:
        os.close(reader)
    kept = [int(line[:2]) for line in said if "xx" in line]
    assert kept == list(range(len(kept)))
    assert 8 <= len(kept) <= 14
    gap = said[len(kept)]
    assert gap.endswith(" lines of the log were left out: nobody read them")
    assert int(gap.split()[0]) + len(kept) + said.count("later") == 30 + later


@pytest.mark.parametrize("option", ["--log-file", "--trace"])
def test_a_pipe_that_nobody_reads_is_refused_and_not_waited_for(
    tmp_path: Path, option: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    done = subprocess.run(
        [*DAEMON, option, str(tmp_path / "pipe")],
        input=json.dumps(hello).encode() + b"\n",
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"pi-rpc: cannot write the ")
    assert b"Traceback" not in done.stderr
