"""The example of our own client library, against the real daemon."""

import sys
from pathlib import Path

from tests.examples.conversation import EXAMPLES, OUT_OF_ORDER, READ, converse

ARGV = [sys.executable, "-W", "error", EXAMPLES / "python_client.py", "what", "is", "this?"]
TOUCH = {"toolCall": {"name": "bash", "arguments": {"command": "echo yes > touched"}}}


def test_it_streams_the_answer_and_shows_the_tool_call(tmp_path: Path) -> None:
    done = converse(ARGV, tmp_path, [[READ], [{"text": "A project, says the file."}]])
    assert done.stderr == ""
    shown, answer = done.stdout.splitlines()
    assert "README.md" in shown
    assert answer == "A project, says the file."
    assert done.returncode == 0


def test_it_asks_before_a_command_and_does_as_it_is_told(tmp_path: Path) -> None:
    allowed = converse(ARGV, tmp_path, [[TOUCH], [{"text": "Done."}]], answers="1\n")
    assert "echo yes > touched" in allowed.stdout
    assert "1. " in allowed.stdout
    assert allowed.returncode == 0
    assert (tmp_path / "touched").read_text() == "yes\n"
    (tmp_path / "touched").unlink()
    converse(ARGV, tmp_path, [[TOUCH], [{"text": "Not done."}]], answers="no\n")
    assert not (tmp_path / "touched").exists()


def test_nobody_there_to_answer_is_no_answer(tmp_path: Path) -> None:
    done = converse(ARGV, tmp_path, [[TOUCH], [{"text": "Not done."}]], answers="")
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.endswith("Not done.\n")
    assert not (tmp_path / "touched").exists()


def test_it_ends_with_1_when_the_model_fails(tmp_path: Path) -> None:
    done = converse(ARGV, tmp_path, [[OUT_OF_ORDER]])
    assert "out of order" in done.stderr
    assert done.returncode == 1
