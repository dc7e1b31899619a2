"""Session files that are damaged, or go bad while they are open, over the real process."""

import json
import os
import resource
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.editor import Editor, Refused, editor, say, session_files, stored_messages

pytestmark = pytest.mark.anyio

HEADER = {"type": "session", "version": 3, "id": "odd", "timestamp": "t", "cwd": "/gone/for/good"}


def message(entry_id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    said = {"role": "user", "content": entry_id, "timestamp": 1, **fields}
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "message": said,
    }


LONG = "é" * 5_000_000
ODD_LINES: list[Any] = [
    b"no JSON at all",
    message("orphan", "missing"),
    message("one", "two"),
    message("two", "one"),
    message("self", "self"),
    message("a", None, content="said first"),
    message("a", "orphan", content="said again under the same id"),
    message("null", "a", content=None),
    message("reply", "null", role="assistant", content=None, usage=None, stopReason=None),
    message("long", "reply", content=LONG),
    json.dumps(message("bytes", "long", content="X")).encode().replace(b"X", b"\xff\xfe\x80"),
    {"type": "label", "id": "l", "parentId": "bytes", "targetId": "missing", "label": "nowhere"},
    {"type": "compaction", "id": "c", "parentId": "self", "summary": None},
    {"type": "from the future", "id": "f", "parentId": "l"},
    b'{"type":"message","id":"torn","parentId":"f","mess',
]


def as_line(line: Any) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()


async def refusal(client: Editor, method: str, params: Any = None) -> str:
    with pytest.raises(Refused) as refused:
        await client.request(method, params)
    return refused.value.kind


async def test_a_session_with_every_kind_of_damage_is_shown_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    content = b"\n".join(as_line(each) for each in [HEADER, *ODD_LINES])
    path.write_bytes(content)
    (tmp_path / "settings.json").write_text('{"compaction": {"enabled": false}}')
    async with editor(tmp_path, [[say("all the same")]]) as client:
        state = await client.request("session/open", {"path": str(path), "cwd": str(tmp_path)})
        assert (state["sessionId"], state["leafId"]) == ("odd", "f")
        odd = {"sessionId": "odd"}
        page = await client.request("session/messages", odd)
        assert page["entryIds"] == ["a", "null", "reply", "long", "bytes"]
        assert page["messages"][0]["content"] == "said first"
        for method in ("session/tree", "session/stats", "session/entries"):
            await client.request(method, odd)
        result = await client.request("prompt", {**odd, "message": "and now"})
        assert (result["text"], result.get("errorMessage")) == ("all the same", None)
    assert path.read_bytes().startswith(content + b"\n")


async def test_a_full_disk_ends_the_run_and_the_session_is_what_its_file_says(
    tmp_path: Path,
) -> None:
    reply = "a reply that does not fit any more " * 100
    async with editor(tmp_path, [[say("one")], [say(reply)], [say("three")]]) as client:
        await client.request("prompt", {"message": "go"})
        (path,) = session_files(tmp_path)
        daemon = psutil.Process(client.process.pid)
        before = daemon.rlimit(resource.RLIMIT_FSIZE)
        daemon.rlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1000, before[1]))
        begun = len(client.events)
        result = await client.request("prompt", {"message": "again"})
        assert result["stopReason"] == "error"
        assert "cannot be used" in result["errorMessage"]
        assert client.types.count("agent_settled") == 2
        told = [each for each in client.events[begun:] if each["type"] == "message_end"]
        said = (await client.request("session/messages"))["messages"]
        assert [each["role"] for each in said] == ["user", "assistant", "user"]
        assert [each["role"] for each in stored_messages(path)] == [each["role"] for each in said]
        assert len(told) == 1
        assert (await client.request("session/state"))["phase"] == "idle"
        daemon.rlimit(resource.RLIMIT_FSIZE, before)
        assert (await client.request("continue"))["text"] == "three"
    assert all(json.loads(each)["type"] for each in path.read_bytes().splitlines())
    assert [each["role"] for each in stored_messages(path)][-1] == "assistant"


async def test_a_file_that_is_emptied_while_it_is_open_is_not_begun_afresh(tmp_path: Path) -> None:
    async with editor(tmp_path, [[say("one")], [say("two")]]) as client:
        await client.request("prompt", {"message": "go"})
        (path,) = session_files(tmp_path)
        content = path.read_bytes()
        os.truncate(path, 0)
        result = await client.request("prompt", {"message": "again"})
        assert result["stopReason"] == "error"
        assert "emptied" in result["errorMessage"]
        leaf = (await client.request("session/state"))["leafId"]
        label = {"entryId": leaf, "label": "here"}
        assert await refusal(client, "session/label", label) in {"storage", "foreignChange"}
        assert path.read_bytes() == b""
        path.write_bytes(content)
        assert (await client.request("prompt", {"message": "again"}))["text"] == "two"
        said = (await client.request("session/messages"))["messages"]
        assert [each["role"] for each in said] == ["user", "assistant"] * 2
    assert path.read_bytes().startswith(content)
