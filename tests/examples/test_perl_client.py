"""The Perl client, written from ``protocol.md`` alone, against the real daemon."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.examples.conversation import EXAMPLES, OUT_OF_ORDER, READ, converse

CLIENT = EXAMPLES / "ask.pl"
MOST_LINES = 200
DONE = [{"text": "Done."}]
# As a shell with job control starts a program: in a group of processes of its own.
OWN_GROUP = ("-MPOSIX", "-e", "POSIX::setsid(); exec @ARGV")


def command(text: str) -> list[object]:
    return [{"toolCall": {"name": "bash", "arguments": {"command": text}}}]


TOUCH = command("echo yes > touched")


@pytest.fixture
def perl() -> str:
    found = shutil.which("perl")
    if found:
        return found
    if os.environ.get("PI_RPC_REQUIRE_NODE") or os.environ.get("CI"):
        pytest.fail("perl is needed")
    pytest.skip("perl is not installed")


def ask(
    perl: str,
    folder: Path,
    replies: Sequence[Sequence[object]],
    *options: str,
    answers: str = "",
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    argv: list[str | Path] = [perl, *OWN_GROUP, perl, CLIENT, *options, "what", "is", "this?"]
    return converse(argv, folder, replies, answers=answers, environ=environ)


def program(path: Path, *lines: str) -> dict[str, str]:
    """The environment that makes a shell script the daemon."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o700)
    return {"PI_RPC": str(path)}


def noting(folder: Path) -> dict[str, str]:
    """The real daemon, behind a script that leaves its own id and the client's in files."""
    real = Path(sys.executable).with_name("pi-rpc")
    return program(
        folder / "noting", "echo $$ > daemon", "echo $PPID > client", f'exec "{real}" "$@"'
    )


def test_it_is_short() -> None:
    lines = [line.strip() for line in CLIENT.read_text(encoding="utf-8").splitlines()]
    code = [line for line in lines if line and not line.startswith("#")]
    assert len(code) <= MOST_LINES
    assert max(map(len, code)) <= 110


def test_it_prints_the_answer_alone_and_shows_the_tool_call_beside_it(
    perl: str, tmp_path: Path
) -> None:
    done = ask(perl, tmp_path, [[READ], [{"text": "A project, says the file: é."}]])
    assert done.stdout == "A project, says the file: é.\n"
    assert done.stderr == "-> read README.md\n<- read: # A project\n"
    assert done.returncode == 0


def test_it_asks_before_a_command_and_does_as_it_is_told(perl: str, tmp_path: Path) -> None:
    allowed = ask(perl, tmp_path, [TOUCH, DONE], answers="none\n1\n")
    assert '{"command":"echo yes > touched"}' in allowed.stderr
    assert "1) Allow\n" in allowed.stderr
    assert (allowed.stdout, allowed.returncode) == ("Done.\n", 0)
    assert (tmp_path / "touched").read_text() == "yes\n"


def test_a_rejection_takes_a_word_to_the_model(perl: str, tmp_path: Path) -> None:
    rejected = ask(perl, tmp_path, [TOUCH, DONE], answers="2 Keep it clean.\n")
    assert "bash failed: The person rejected this call and said: Keep it clean." in rejected.stderr
    assert (rejected.stdout, rejected.returncode) == ("Done.\n", 0)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(("option", "touched"), [("--yes", True), ("--no", False)])
def test_an_option_answers_without_asking(
    perl: str, tmp_path: Path, option: str, touched: bool
) -> None:
    done = ask(perl, tmp_path, [TOUCH, DONE], option)
    assert "Allow" not in done.stderr
    assert (done.stdout, done.returncode) == ("Done.\n", 0)
    assert (tmp_path / "touched").exists() is touched


def test_nobody_there_to_answer_rejects_the_call(perl: str, tmp_path: Path) -> None:
    done = ask(perl, tmp_path, [TOUCH, DONE])
    assert (done.stdout, done.returncode) == ("Done.\n", 0)
    assert not (tmp_path / "touched").exists()


def test_what_would_rewrite_the_screen_is_shown_as_text(perl: str, tmp_path: Path) -> None:
    script: list[list[object]] = [command("echo \x1b[2J\u202e"), [{"text": "\x1b]0;title\x07"}]]
    done = ask(perl, tmp_path, script)
    assert done.stdout == "\\x{1b}]0;title\\x{7}\n"
    assert {"\x1b", "\u202e"}.isdisjoint(done.stderr)


def test_the_interrupt_of_a_terminal_cancels_the_prompt(perl: str, tmp_path: Path) -> None:
    interrupt = command("kill -INT -- -$(cat client); exec sleep 600")
    done = ask(perl, tmp_path, [interrupt, DONE], "--yes", environ=noting(tmp_path))
    assert done.stderr.splitlines()[-1] == "aborted"
    assert (done.stdout, done.returncode) == ("", 130)


def test_a_second_interrupt_does_not_wait_for_the_daemon(perl: str, tmp_path: Path) -> None:
    stubborn = program(
        tmp_path / "stubborn",
        """read initialize; echo '{"id":"r1","result":{}}'""",
        "read prompt; kill -INT $PPID",
        'read cancel; echo "$cancel" > cancelled; kill -INT $PPID',
        "cat > /dev/null",
    )
    done = ask(perl, tmp_path, [], environ=stubborn)
    assert done.returncode == 130
    assert '"$/cancelRequest"' in (tmp_path / "cancelled").read_text()


def test_it_says_when_the_daemon_is_killed_meanwhile(perl: str, tmp_path: Path) -> None:
    murder = command("kill -9 $(cat daemon)")
    done = ask(perl, tmp_path, [murder, DONE], "--yes", environ=noting(tmp_path))
    assert done.stderr.splitlines()[-1].endswith("before it had answered, with signal 9")
    assert (done.stdout, done.returncode) == ("", 1)


def test_it_says_when_there_is_no_daemon(perl: str, tmp_path: Path) -> None:
    done = ask(perl, tmp_path, [], environ={"PI_RPC": str(tmp_path / "none")})
    assert f"cannot start {tmp_path / 'none'}" in done.stderr
    assert done.returncode == 1


def test_it_ends_with_1_when_the_model_fails_or_is_unknown(perl: str, tmp_path: Path) -> None:
    failed = ask(perl, tmp_path, [[OUT_OF_ORDER]])
    assert "out of order" in failed.stderr
    assert failed.returncode == 1
    unknown = ask(perl, tmp_path, [DONE], "--model", "nobody/nothing")
    assert "nobody/nothing" in unknown.stderr
    assert unknown.returncode == 1
