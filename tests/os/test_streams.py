"""Commands whose standard output or standard error cannot be written."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pi_rpc._os.streams import guarded_streams
from tests.e2e.editor import DEADLINE_S


def command(
    home: Path, redirected: str, *argv: str, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "pi_rpc", *argv],
        env={**os.environ, "PI_CODING_AGENT_DIR": str(home), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize(
    "argv", [["--version"], ["run", "--help"], ["schema"], ["models", "--json"], ["auth", "status"]]
)
def test_an_answer_that_is_lost_is_a_failure_with_its_reason(
    tmp_path: Path, argv: list[str]
) -> None:
    done = command(tmp_path, ">/dev/full", *argv)
    assert done.returncode == 1
    expected = b"pi-rpc: standard output cannot be written: No space left on device\n"
    assert done.stderr == expected


@pytest.mark.parametrize("argv", [["--version"], ["doctor"]])
def test_standard_output_that_was_closed_before_is_a_failure_that_says_so(
    tmp_path: Path, argv: list[str]
) -> None:
    done = command(tmp_path, ">&-", *argv)
    assert done.returncode == 1
    assert done.stderr == b"pi-rpc: standard output cannot be written: it is closed\n"


def test_an_answer_that_nobody_reads_ends_without_a_word(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    record = {"time": "2026-01-31T12:00:01.000000Z", "direction": "in", "bytes": 2, "frame": {}}
    (tmp_path / "trace").write_text(json.dumps(record))
    with os.fdopen(writing, "wb") as pipe:
        for argv in (["schema"], ["trace", "show", "trace"], ["--version"]):
            done = subprocess.run(
                [sys.executable, "-m", "pi_rpc", *argv],
                stdout=pipe,
                stderr=subprocess.PIPE,
                cwd=tmp_path,
                timeout=DEADLINE_S,
                check=False,
            )
            assert (done.returncode, done.stderr) == (141, b""), argv


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full"])
def test_a_usage_error_that_nobody_can_be_told_is_one_all_the_same(
    tmp_path: Path, redirected: str
) -> None:
    argv = ("run", "--allow", "bash(", "--permission-mode", "ask", "hi")
    assert command(tmp_path, redirected, *argv).returncode == 2
    assert command(tmp_path, redirected, "sessions", "show", "nowhere").returncode == 2


def test_what_is_printed_does_not_depend_on_the_locale(tmp_path: Path) -> None:
    usual = command(tmp_path, "", "schema").stdout
    assert not usual.isascii()
    assert command(tmp_path, "", "schema", PYTHONIOENCODING="ascii").stdout == usual


def test_a_pipe_that_does_not_block_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    got = bytearray()

    def read() -> None:
        while piece := os.read(reading, 1 << 16):
            got.extend(piece)

    reader = threading.Thread(target=read)
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with guarded_streams():
            reader.start()
            sys.stdout.write("x" * 2_000_000)
    reader.join(DEADLINE_S)
    os.close(reading)
    assert got == b"x" * 2_000_000
