"""What holds for every command, whatever it does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pi_rpc.cli import parse
from tests.e2e.editor import DEADLINE_S


@pytest.mark.skipif(sys.platform == "win32", reason="a directory in use cannot be removed there")
@pytest.mark.parametrize("argv", [["run", "hi"], ["doctor"], ["export", "x"]])
def test_a_working_directory_that_is_gone_is_a_usage_error_that_says_so(
    tmp_path: Path, argv: list[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'rmdir "{gone}"; exec "$@"', "sh", sys.executable, "-m", "pi_rpc", *argv],
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
        cwd=gone,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    expected = b"pi-rpc: there is no working directory (No such file or directory): cd to one\n"
    assert done.stderr == expected


def test_the_help_of_run_says_which_mode_it_has_where_nobody_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argv, default in (
        (["run", "--help"], "(default: readonly where there is no terminal, else ask)"),
        (["--help"], "(default: ask)"),
    ):
        with pytest.raises(SystemExit):
            parse(argv)
        assert default in " ".join(capsys.readouterr().out.split())


def test_no_module_of_the_working_directory_stands_in_for_one_that_a_command_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "pi_rpc.py").write_text("open('ran', 'w')")
    (tmp_path / "README.md").write_text("# The first line\n")
    argv = [sys.executable, "-P", "-m", "pi_rpc", "demo", "--model", "scripted/scripted"]
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"steps": [{"text": "x"}]}]}')
    done = subprocess.run(
        argv,
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path), "PI_RPC_SCRIPT": str(script)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert not (tmp_path / "ran").exists()
    assert b"[stop: " in done.stdout
