"""``auth.json``: what is stored, for whose eyes, and what else is in it."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pi_rpc._os.files import atomic_replace
from pi_rpc.harness import _rewriting
from pi_rpc.harness._auth_file import AuthFile
from pi_rpc.harness._rewriting import RewriteError
from pi_rpc.harness.credentials import CredentialError, Credentials, KeyForm
from pi_rpc.llm.messages import now_ms
from tests.deadlines import DEADLINE_S

SECRET = "sk-very-secret"


def _written(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "auth.json").read_text())
    return value


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_and_its_folder_are_private_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    before = os.umask(0)
    try:
        AuthFile(folder).store_key("groq", "k")
    finally:
        os.umask(before)
    assert _mode(folder / "auth.json") == 0o600
    assert _mode(folder) == 0o700
    assert [path.name for path in folder.iterdir()] == ["auth.json"]


def test_a_file_that_others_could_read_becomes_private(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text("{}")
    (tmp_path / "auth.json").chmod(0o644)
    AuthFile(tmp_path).store_key("groq", "k")
    assert _mode(tmp_path / "auth.json") == 0o600
    assert AuthFile(tmp_path).problems() == []


def test_a_replacement_is_private_before_it_has_a_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_text("old")
    path.chmod(0o644)
    seen = []
    write = os.write

    def watched(fd: int, data: bytes) -> int:
        seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return write(fd, data)

    monkeypatch.setattr(os, "write", watched)
    atomic_replace(path, b"new", mode=0o600)
    atomic_replace(tmp_path / "y", b"new", mode=0o600)
    monkeypatch.undo()
    assert seen == [0o600, 0o600]
    assert _mode(path) == _mode(tmp_path / "y") == 0o600


def test_what_we_do_not_know_stays_as_it_is(tmp_path: Path) -> None:
    entries = {
        "openai-codex": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1, "x": [1]},
        "strange": {"type": "of the future", "value": {"deep": None}},
        "broken": 7,
        "groq": {"type": "api_key", "key": "old", "env": {"A": "1"}, "note": "mine"},
    }
    (tmp_path / "auth.json").write_text(json.dumps(entries))
    file = AuthFile(tmp_path)
    file.store_key("groq", "new")
    file.store_key("xai", "x")
    assert file.remove("nobody") is False
    assert _written(tmp_path) == {
        **entries,
        "groq": {**entries["groq"], "key": "new"},  # type: ignore[dict-item]
        "xai": {"type": "api_key", "key": "x"},
    }
    assert list(_written(tmp_path)) == [*entries, "xai"]
    assert file.remove("broken") is True
    assert "broken" not in _written(tmp_path)


def test_a_login_that_a_key_replaces_leaves_nothing_behind(tmp_path: Path) -> None:
    login = {"type": "oauth", "access": "a", "refresh": "r", "expires": now_ms() + 60_000}
    (tmp_path / "auth.json").write_text(json.dumps({"anthropic": login}))
    AuthFile(tmp_path).store_key("anthropic", "k")
    assert _written(tmp_path) == {"anthropic": {"type": "api_key", "key": "k"}}


@pytest.mark.parametrize("text", ["", "[]", '{"groq": ', '"x"'])
def test_a_file_that_holds_no_object_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "auth.json").write_text(text)
    with pytest.raises(RewriteError):
        AuthFile(tmp_path).store_key("groq", "k")
    with pytest.raises(RewriteError):
        AuthFile(tmp_path).remove("groq")
    assert (tmp_path / "auth.json").read_text() == text


def test_removing_from_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    assert AuthFile(tmp_path).remove("groq") is False
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_pi_is_waited_for_and_then_respected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_rewriting, "_PATIENCE_S", 0.05)
    (tmp_path / "auth.json.lock").mkdir()
    with pytest.raises(RewriteError, match="locked"):
        AuthFile(tmp_path).store_key("groq", "k")
    assert not (tmp_path / "auth.json").exists()
    monkeypatch.setattr(_rewriting, "_PATIENCE_S", 20.0)
    held = threading.Event()
    wait = _rewriting._wait

    def waited(path: Path, deadline: float) -> None:
        held.set()
        wait(path, deadline)

    monkeypatch.setattr(_rewriting, "_wait", waited)
    thread = threading.Thread(target=AuthFile(tmp_path).store_key, args=("groq", "k"))
    thread.start()
    assert held.wait(DEADLINE_S)
    assert not (tmp_path / "auth.json").exists()
    (tmp_path / "auth.json.lock").rmdir()
    thread.join(DEADLINE_S)
    assert _written(tmp_path)["groq"]["key"] == "k"
    assert not (tmp_path / "auth.json.lock").exists()


WRITER = """
import sys
from pathlib import Path
from pi_rpc.harness import _rewriting
from pi_rpc.harness._auth_file import AuthFile
_rewriting._PATIENCE_S = 60.0
file = AuthFile(Path(sys.argv[1]))
for number in range(8):
    file.store_key(f"{sys.argv[2]}-{number}", "k")
"""


def test_writers_in_several_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in "abc"
    ]
    assert [writer.wait(DEADLINE_S) for writer in writers] == [0, 0, 0]
    assert len(_written(tmp_path)) == 24


# --- through the credentials --------------------------------------------------------------------

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "key",
    ["plain", "a$b", "$HOME", "${HOME}", "$$", "!echo no", "$!x", "cost: $5", "!", "a!b", "$"],
)
async def test_a_key_is_read_as_it_was_stored(tmp_path: Path, key: str) -> None:
    credentials = Credentials(tmp_path, environ={"HOME": "wrong"})
    credentials.store("groq", f"  {key}\n")
    assert await credentials.api_key("groq") == key
    assert credentials.status("groq").form == "text"


@pytest.mark.parametrize(
    ("key", "form"),
    [
        ("", "text"),
        (" \n", "text"),
        ("two\nlines", "text"),
        ("caf\u00e9", "text"),
        ("tab\there", "text"),
        ("\x1b[31m", "text"),
        ("", "variable"),
        ("NOT A NAME", "variable"),
        ("$NAME", "variable"),
        ("1ST", "variable"),
        ("A-B", "variable"),
        ("", "command"),
        ("a\0b", "command"),
    ],
)
async def test_what_can_be_no_key_is_refused_without_quoting_it(
    tmp_path: Path, key: str, form: KeyForm
) -> None:
    credentials = Credentials(tmp_path, environ={})
    with pytest.raises(ValueError) as caught:
        credentials.store("groq", key, form)
    assert not key.strip() or key.strip() not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


async def test_a_variable_is_stored_by_its_name(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    credentials = Credentials(tmp_path, environ=environ)
    credentials.store("groq", "WORK_KEY", "variable")
    assert _written(tmp_path)["groq"]["key"] == "$WORK_KEY"
    status = credentials.status("groq")
    assert (status.usable, status.form) == (False, "variable")
    assert "WORK_KEY is not set" in str(status.problem)
    assert status.hint == "set WORK_KEY, or run `pi-rpc auth set groq`"
    assert "WORK_KEY" in credentials.variables()
    environ["WORK_KEY"] = "k"
    assert credentials.status("groq").usable
    assert await credentials.api_key("groq") == "k"


async def test_storing_a_command_again_runs_it_again(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, environ=os.environ)
    command = f"cat {tmp_path / 'key'}"
    credentials.store("groq", command, "command")
    assert credentials.status("groq").usable
    with pytest.raises(CredentialError):
        await credentials.api_key("groq")
    (tmp_path / "key").write_text("k")
    with pytest.raises(CredentialError):
        await credentials.api_key("groq")
    credentials.store("groq", command, "command")
    assert await credentials.api_key("groq") == "k"


async def test_a_status_says_which_source_decides(tmp_path: Path) -> None:
    models = {"groq": {"apiKey": "$MINE"}, "here": {"baseUrl": "http://127.0.0.1:1/v1"}}
    (tmp_path / "models.json").write_text(json.dumps({"providers": models}))
    environ = {"XAI_API_KEY": SECRET, "AWS_PROFILE": "work", "MINE": SECRET}
    credentials = Credentials(tmp_path, environ=environ, explicit={"zai": SECRET})
    login = {"type": "oauth", "access": SECRET, "expires": now_ms() + 60_000}
    (tmp_path / "auth.json").write_text(json.dumps({"anthropic": login}))
    (tmp_path / "auth.json").chmod(0o600)
    said = {
        provider: credentials.status(provider)
        for provider in ("zai", "anthropic", "xai", "amazon-bedrock", "groq", "here", "openai")
    }
    assert {provider: (each.source, each.kind) for provider, each in said.items()} == {
        "zai": ("runtime", "api_key"),
        "anthropic": ("auth.json", "oauth"),
        "xai": ("XAI_API_KEY", "api_key"),
        "amazon-bedrock": ("AWS_PROFILE", "signature"),
        "groq": ("models.json", "api_key"),
        "here": ("none", "not_needed"),
        "openai": ("none", "none"),
    }
    for provider, each in said.items():
        assert each.usable is credentials.has(provider) is (provider != "openai")
        assert (each.hint is None) is each.usable
        assert SECRET not in repr(each)
    assert said["openai"].hint == "run `pi-rpc auth set openai`, or set OPENAI_API_KEY"


async def test_a_key_that_cannot_be_used_is_not_passed_over_for_another(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, environ={"GROQ_API_KEY": "other account"})
    credentials.store("groq", "NOT_SET", "variable")
    assert not credentials.has("groq")
    with pytest.raises(CredentialError, match=r"NOT_SET is not set; set NOT_SET, or run"):
        await credentials.api_key("groq")
