"""The scripted model of the tests of hosts."""

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the replies of the scripted model, which is the only one there is."""

    def write(*replies: list[Any]) -> None:
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"replies": [{"steps": each} for each in replies]}))
        monkeypatch.setenv("PI_RPC_SCRIPT", str(path))

    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    write([{"text": "hello"}], [{"text": "again"}])
    yield write
    assert not home.exists(), "something was written outside of the agent directory"
