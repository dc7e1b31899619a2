"""``pi-rpc sessions``: what is stored, from a terminal."""

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from pi_rpc.cli import parse
from pi_rpc.headless.sessions import run_sessions
from pi_rpc.llm.messages import UserMessage
from pi_rpc.session.entries import MessageEntry, iso_now
from pi_rpc.session.repo import JsonlSessionRepo


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two sessions, the older one first."""
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path)

    async def make() -> list[str]:
        made = []
        for number, text in enumerate(("the first\x1b[2J talk", "another talk")):
            session = await JsonlSessionRepo(tmp_path / "agent").create(tmp_path / str(number))
            message = UserMessage(content=text, timestamp=number + 1)
            entry = MessageEntry(
                id=session.new_id(), parent_id=None, timestamp=iso_now(), message=message
            )
            await session.append(entry)
            await session.aclose()
            made.append(session.session_id)
        return made

    return anyio.run(make)


def command(*argv: str) -> int:
    return run_sessions(parse(["sessions", *argv]))


def listed(capsys: pytest.CaptureFixture[str], *argv: str) -> Sequence[str]:
    assert command("list", "--json", *argv) == 0
    return [json.loads(line)["sessionId"] for line in capsys.readouterr().out.splitlines()]


def test_sessions_are_listed_by_text_and_directory(
    tmp_path: Path, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(listed(capsys)) == set(ids)
    assert listed(capsys, "first") == ids[:1]
    (tmp_path / "1").mkdir()
    assert listed(capsys, "--cwd", "1") == ids[1:]
    assert len(listed(capsys, "--limit", "1")) == 1
    assert command("list") == 0
    shown = capsys.readouterr().out
    assert "1 messages" in shown
    assert "\x1b" not in shown
    assert command("list", "--cwd", "nowhere") == 2


def test_a_session_is_shown_exported_and_deleted(
    tmp_path: Path, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("show", ids[1]) == 0
    assert "another talk" in capsys.readouterr().out
    assert command("show", "--json", ids[1]) == 0
    (entry,) = capsys.readouterr().out.splitlines()
    assert json.loads(entry)["message"]["content"] == "another talk"
    assert command("export", ids[1], "-o", "talk.md") == 0
    assert "another talk" in (tmp_path / "talk.md").read_text()
    capsys.readouterr()
    assert command("delete", ids[1]) == 0
    assert capsys.readouterr().out == f"{ids[1]} is in the trash\n"
    assert listed(capsys)[-1:] == ids[:1]
    for action in ("show", "delete"):
        assert command(action, ids[1]) == 2
        assert ids[1] in capsys.readouterr().err


def test_a_directory_whose_name_is_no_unicode_is_listed(
    tmp_path: Path, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    async def make() -> str:
        session = await JsonlSessionRepo(tmp_path / "agent").create(tmp_path / "odd\udcff")
        message = UserMessage(content="odd talk", timestamp=1)
        await session.append(
            MessageEntry(id="1", parent_id=None, timestamp=iso_now(), message=message)
        )
        await session.aclose()
        return session.session_id

    odd = anyio.run(make)
    assert set(listed(capsys, "talk")) == {*ids, odd}
