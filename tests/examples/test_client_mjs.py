"""The JavaScript client, written from ``protocol.md`` alone, against the real daemon."""

from pathlib import Path

import pytest

from tests.examples.conversation import EXAMPLES, OUT_OF_ORDER, READ, converse
from tests.protocol.node_checks import node_program

CLIENT = EXAMPLES / "client.mjs"
MOST_LINES = 30


@pytest.fixture
def argv() -> list[str | Path]:
    return [node_program(), CLIENT, "what", "is", "this?"]


def test_it_is_short() -> None:
    lines = [line for line in CLIENT.read_text().splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith("//")]
    assert len(code) <= MOST_LINES
    assert max(map(len, code)) <= 100


def test_it_streams_the_answer_and_shows_the_tool_call(
    argv: list[str | Path], tmp_path: Path
) -> None:
    done = converse(argv, tmp_path, [[READ], [{"text": "A project, says the file."}]])
    assert "A project, says the file." in done.stdout
    assert "read" in done.stdout + done.stderr
    assert done.returncode == 0


def test_it_ends_with_1_when_the_model_fails(argv: list[str | Path], tmp_path: Path) -> None:
    assert converse(argv, tmp_path, [[OUT_OF_ORDER]]).returncode == 1
