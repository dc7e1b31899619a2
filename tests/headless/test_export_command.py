"""``pi-rpc export``: a stored session as a file, from a terminal."""

from pathlib import Path

import anyio
import pytest

from pi_rpc.cli import parse
from pi_rpc.headless.export import run_export
from pi_rpc.llm.messages import UserMessage
from pi_rpc.session.entries import MessageEntry, iso_now
from pi_rpc.session.repo import JsonlSessionRepo


@pytest.fixture
def session_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path)

    async def make() -> str:
        session = await JsonlSessionRepo(tmp_path / "agent").create(tmp_path)
        message = UserMessage(content="hello there", timestamp=1)
        entry = MessageEntry(
            id=session.new_id(), parent_id=None, timestamp=iso_now(), message=message
        )
        await session.append(entry)
        await session.aclose()
        return session.session_id

    return anyio.run(make)


def test_the_name_of_the_output_says_the_format(
    tmp_path: Path, session_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, name, text in (
        ([], f"pi-session-{session_id}.html", "<!DOCTYPE html>"),
        (["-o", "talk.md"], "talk.md", "## You"),
        (["-o", "talk.jsonl"], "talk.jsonl", '"type":"session"'),
        (["-o", "talk.txt", "--format", "markdown"], "talk.txt", "## You"),
    ):
        assert run_export(parse(["export", session_id, *options])) == 0
        assert capsys.readouterr().out == f"{tmp_path / name}\n"
        assert text in (tmp_path / name).read_text()
        assert "hello there" in (tmp_path / name).read_text()


def test_what_cannot_be_is_said_and_nothing_is_overwritten(
    tmp_path: Path, session_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.md").write_text("mine")
    assert run_export(parse(["export", session_id, "-o", "mine.md"])) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "mine.md").read_text() == "mine"
    assert run_export(parse(["export", session_id, "-o", "mine.md", "--overwrite"])) == 0
    assert run_export(parse(["export", "no-such-session"])) == 2
    assert "no-such-session" in capsys.readouterr().err
    assert run_export(parse(["export", "./nowhere.jsonl"])) == 2
