"""pi itself opens our session files, and we go on with what it leaves.

Runs where ``PI_BIN`` is the command that starts pi 1.6, for instance ``node …/pi``; it needs no
network and no model.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.llm.messages import Usage
from pi_rpc.session import JsonlSession, build_context
from pi_rpc.session.entries import (
    ActiveToolsChangeEntry,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    ContextReplacement,
    CustomMessageEntry,
    LabelEntry,
    SessionHeader,
    ThinkingLevelChangeEntry,
    UsageEntry,
    encode_header,
)
from tests.deadlines import DEADLINE_S
from tests.session.builders import (
    FIXTURE,
    assistant,
    custom_entry,
    leaf_entry,
    message_entry,
    model_entry,
    name_entry,
    place,
    tool_result,
    user_entry,
)

PI = shlex.split(os.environ.get("PI_BIN", ""))

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not PI and not os.environ.get("PI_RPC_REQUIRE_PI"), reason="PI_BIN names no pi"
    ),
]


def ask_pi(path: Path, home: Path) -> dict[str, Any]:
    """What pi says of a session file, by command."""
    commands = ["get_state", "get_messages", "get_session_stats"]
    requests = "".join(json.dumps({"id": name, "type": name}) + "\n" for name in commands)
    done = subprocess.run(
        [*PI, "--mode", "rpc", "--session", str(path)],
        input=requests.encode(),
        env={"HOME": str(home), "PI_OFFLINE": "1", "PATH": os.environ["PATH"]},
        cwd=home,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    found = {item["command"]: item for item in answers if item.get("type") == "response"}
    assert found.keys() == set(commands), done.stderr.decode()
    assert all(item["success"] for item in found.values()), found
    return {name: item["data"] for name, item in found.items()}


async def everything(folder: Path) -> JsonlSession:
    """A session of ours with every kind of entry and two moves of the leaf."""
    session = await JsonlSession.create(folder, folder)
    await session.append(model_entry(session))
    await session.append(ThinkingLevelChangeEntry(**place(session), thinking_level="off"))
    first = await session.append(user_entry(session, "read it"))
    call = await session.append(message_entry(session, assistant("yes", "c1")))
    result = await session.append(message_entry(session, tool_result("c1")))
    note = CustomMessageEntry(**place(session), custom_type="n", content="note", display=True)
    cut = ContextReplacement(content="(cut)")
    kept = await session.append(message_entry(session, assistant("done")))
    await session.append_many(
        [
            LabelEntry(**place(session), target_id=first.id, label="start"),
            name_entry(session, "A name"),
            custom_entry(session, {"any": [1, None]}),
            note,
            UsageEntry(
                **place(session), kind="test", provider="acme", model="one", usage=Usage.ZERO
            ),
            ContextEditEntry(**place(session), target_id=result.id, replacement=cut),
            ActiveToolsChangeEntry(**place(session), active_tool_names=["read"]),
        ]
    )
    await session.append(user_entry(session, "left behind"))
    await session.append(leaf_entry(session, call.id))
    await session.append(BranchSummaryEntry(**place(session), from_id=kept.id, summary="tried"))
    await session.append(leaf_entry(session, note.id))
    compaction_id = session.new_id()
    await session.append(
        CompactionEntry(
            **{**place(session), "id": compaction_id},
            summary="short",
            first_kept_entry_id=kept.id,
            tokens_before=100,
        )
    )
    await session.append(user_entry(session, "and now"))
    await session.append(message_entry(session, assistant("ended")))
    return session


def plain(session: JsonlSession) -> list[tuple[str, Any]]:
    """Role and text or content of what the model is told."""
    from pi_rpc.agent.messages import encode_message

    messages = build_context(session.branch()).messages
    return [readable(json.loads(encode_message(message))) for message in messages]


def readable(message: dict[str, Any]) -> tuple[str, Any]:
    return message["role"], message.get("summary", message.get("content"))


def told(answers: dict[str, Any]) -> list[tuple[str, Any]]:
    messages = answers["get_messages"]["messages"]
    return [readable(message) for message in messages if message["role"] != "system"]


async def test_pi_reads_our_file_as_we_do(tmp_path: Path) -> None:
    session = await everything(tmp_path)
    await session.aclose()
    content = session.path.read_bytes()
    answers = ask_pi(session.path, tmp_path)
    assert told(answers) == plain(session)
    assert answers["get_state"]["sessionId"] == session.session_id
    assert answers["get_state"]["sessionName"] == "A name"
    assert answers["get_session_stats"]["totalMessages"] == session.message_count
    assert session.path.read_bytes().startswith(content)
    again = await JsonlSession.open(session.path)
    assert plain(again) == plain(session)
    await again.aclose()


async def test_pi_goes_on_where_a_leaf_entry_points(tmp_path: Path) -> None:
    session = await everything(tmp_path)
    target = session.branch()[4].id
    await session.append(leaf_entry(session, target))
    await session.aclose()
    assert told(ask_pi(session.path, tmp_path)) == plain(session)


async def test_pi_and_we_read_its_own_kind_of_file_alike(tmp_path: Path) -> None:
    lines = FIXTURE.read_bytes().splitlines(keepends=True)
    header = SessionHeader(version=3, id="copy", timestamp="2026-01-01", cwd=str(tmp_path))
    path = tmp_path / "copy.jsonl"
    path.write_bytes(encode_header(header) + b"\n" + b"".join(lines[1:]))
    session = await JsonlSession.open(path, read_only=True)
    assert told(ask_pi(path, tmp_path)) == plain(session)
    await session.aclose()


async def test_pi_opens_a_file_after_a_torn_line(tmp_path: Path) -> None:
    session = await everything(tmp_path)
    await session.aclose()
    with session.path.open("ab") as file:
        file.write(b'{"type":"message","id":"torn","parentId":')
    again = await JsonlSession.open(session.path)
    await again.append(user_entry(again, "after the crash"))
    await again.aclose()
    assert told(ask_pi(session.path, tmp_path)) == plain(again)
