"""``file/search`` over raw pipes: whose directory, odd names, refusals."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from pi_rpc.agent.ports import PortError
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.protocol.errors import ProtocolError
from pi_rpc.server.connection import Connection
from pi_rpc.server.features.files import HANDLERS
from tests.server.wire import wire


def test_each_session_is_searched_in_its_own_directory(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"valve_{folder}.py").touch()
    with wire(tmp_path) as client:
        ids = [
            client.ask("session/new", {"cwd": str(tmp_path / folder)})["sessionId"]
            for folder in ("one", "two")
        ]
        found = [
            client.ask("file/search", {"sessionId": each, "query": "valve"})["files"]
            for each in ids
        ]
        assert [[file["path"] for file in files] for files in found] == [
            ["valve_one.py"],
            ["valve_two.py"],
        ]
        (file,) = found[0]
        assert file["uri"] == (tmp_path / "one" / "valve_one.py").as_uri()


def test_a_name_that_is_not_unicode_has_an_exact_uri_and_a_readable_path(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9 1.txt")).touch()
    with wire(tmp_path) as client:
        (file,) = client.ask("file/search", {"query": "caf"})["files"]
        assert file["uri"].endswith("/caf%E9%201.txt")
        assert file["path"] == "caf\\udce9 1.txt"


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({}, "invalidParams"),
        ({"query": 1}, "invalidParams"),
        ({"query": "a", "limit": 1001}, "invalidParams"),
        ({"query": "a", "sessionId": "gone"}, "sessionNotFound"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    tmp_path: Path, params: dict[str, object], kind: str
) -> None:
    with wire(tmp_path) as client:
        answer = client.answer(client.say("file/search", params))
        assert answer["error"]["data"]["kind"] == kind


def test_a_directory_that_was_removed_has_no_files(tmp_path: Path) -> None:
    folder = tmp_path / "going"
    folder.mkdir()
    with wire(tmp_path) as client:
        session = client.ask("session/new", {"cwd": str(folder)})["sessionId"]
        folder.rmdir()
        found = client.ask("file/search", {"sessionId": session, "query": "a"})
        assert found == {"files": [], "truncated": False}


@pytest.mark.anyio
async def test_without_ripgrep_it_says_what_is_lacking() -> None:
    class Lacking:
        async def search(self, *args: object) -> None:
            raise PortError("spawn_failed", "ripgrep was not found")

    async def session(session_id: object) -> Any:
        configuration = SimpleNamespace(cwd=Path("/"))
        return SimpleNamespace(harness=SimpleNamespace(configuration=configuration))

    connection = SimpleNamespace(file_search=Lacking(), session=session)
    request = SimpleNamespace(params=msgspec.Raw(b'{"query":"a"}'), started=lambda: None)
    with pytest.raises(ProtocolError, match="ripgrep was not found") as error:
        await HANDLERS["file/search"](cast(Connection, connection), cast(Request, request))
    assert error.value.kind == "unsupported"
