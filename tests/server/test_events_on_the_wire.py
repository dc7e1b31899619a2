"""Which events a client gets, and in what form, is what it asked for."""

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run
from pi_rpc.host.hosted import HostedSession
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.llm.scripted import text
from pi_rpc.protocol.handshake import EventPreferences
from pi_rpc.server.events import EventStream
from pi_rpc.server.statistics import Statistics
from tests.e2e.editor import DAEMON, DEADLINE_S, call, say
from tests.harness.hall import hall
from tests.server.wire import Wire, wire

ANSWER = [{"text": "one two three four five six", "pieces": 6}]


def run(home: Path, events: Any, replies: Any = (ANSWER,), **features: Any) -> Wire:
    """One prompt of a client with these wishes; all that it heard."""
    wishes = {"events": events, **features}
    with wire(home, replies, features=wishes) as client:
        result = client.ask("prompt", {"message": "go"})
        assert result["stopReason"] == "stop"
        assert client.end() == 0
    check(client)
    return client


def check(client: Wire) -> None:
    """What holds whatever was asked for."""
    numbers = [number for number, _ in client.numbered()]
    assert numbers == list(range(1, len(numbers) + 1))


def deltas(client: Wire) -> list[str]:
    return [
        each["assistantMessageEvent"]["delta"]
        for each in client.events("message_update")
        if each["assistantMessageEvent"]["type"] == "text_delta"
    ]


def test_with_an_interval_of_zero_every_delta_comes_as_it_was(tmp_path: Path) -> None:
    client = run(tmp_path, {"minIntervalMs": 0})
    assert len(deltas(client)) == 6
    assert "".join(deltas(client)) == ANSWER[0]["text"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("interval_ms", "pause_s"), [(0, 0), (4, 0.002), (None, 0.008), (60_000, 0.008)]
)
async def test_replies_are_read_as_often_as_the_client_wants_to_hear_of_them(
    interval_ms: float | None, pause_s: float
) -> None:
    pauses: list[float] = []

    def reply(_context: Any, options: StreamOptions) -> Any:
        pauses.append(options.read_pause_s)
        return [text("hi")]

    wishes = (
        EventPreferences() if interval_ms is None else EventPreferences(min_interval_ms=interval_ms)
    )
    peer: Any = SimpleNamespace(waiting_bytes=0, send_frames=lambda frames: None)
    async with hall([reply]) as here:
        here.stop_hearing()
        nothing: Any = None
        hosted = HostedSession(here.harness, nothing, nothing)
        EventStream(peer, wishes, Statistics()).follow(hosted)
        run = here.harness.prompt(PromptInput("go"))
        assert isinstance(run, Run)
        with anyio.fail_after(DEADLINE_S):
            await run.wait()
    assert pauses == [pause_s]


def test_a_long_interval_merges_what_follows_the_first_delta(tmp_path: Path) -> None:
    client = run(tmp_path, {"minIntervalMs": 60_000})
    assert len(deltas(client)) == 2
    assert "".join(deltas(client)) == ANSWER[0]["text"]


def test_without_a_wish_a_fast_reply_comes_in_fewer_deltas_than_it_was_made_of(
    tmp_path: Path,
) -> None:
    client = run(tmp_path, {}, [[{"repeatText": "ab ", "count": 2000}]])
    assert "".join(deltas(client)) == "ab " * 2000
    assert 2 <= len(deltas(client)) < 1000
    (end,) = [
        each["assistantMessageEvent"]
        for each in client.events("message_update")
        if each["assistantMessageEvent"]["type"] == "text_end"
    ]
    assert end["content"] == "ab " * 2000


@pytest.mark.parametrize("key", ["pi", None])
def test_wishes_are_taken_from_the_capabilities_or_from_pi_among_them(
    tmp_path: Path, key: str | None
) -> None:
    wishes = {"events": {"optOut": ["message_update", "session_changed"]}}
    with wire(tmp_path, [ANSWER], features={key: wishes} if key else wishes) as client:
        client.ask("prompt", {"message": "go"})
        client.end()
    check(client)
    types = {each["type"] for each in client.events()}
    assert not types & {"message_update", "session_changed"}
    assert {"agent_start", "message_start", "message_end", "agent_settled"} <= types


def test_what_pi_says_outweighs_what_is_said_beside_it(tmp_path: Path) -> None:
    outside = {"optOut": ["message_end"]}
    client = run(tmp_path, outside, pi={"events": {"optOut": ["message_start"]}})
    assert client.events("message_end")
    assert not client.events("message_start")


def test_an_unknown_event_in_opt_out_is_no_mistake(tmp_path: Path) -> None:
    assert run(tmp_path, {"optOut": ["event_of_tomorrow"]}).events("agent_settled")


def turns(tmp_path: Path, **wishes: Any) -> Wire:
    (tmp_path / "a.txt").write_text("the file\n")
    replies = [[call("read", path="a.txt")], [say("done")]]
    return run(tmp_path, {"minIntervalMs": 0, **wishes}, replies)


def test_turns_name_their_entries_and_do_not_repeat_the_messages(tmp_path: Path) -> None:
    client = turns(tmp_path)
    ids = [each["entryId"] for each in client.events("message_end")]
    assert len(ids) == 4
    assert [each["entryIds"] for each in client.events("turn_end")] == [ids[1:3], ids[3:]]
    (end,) = client.events("agent_end")
    assert end["entryIds"] == ids
    for each in [*client.events("turn_end"), end]:
        assert not {"message", "messages", "toolResults"} & set(each)


def test_a_client_that_wants_everything_gets_the_messages_too(tmp_path: Path) -> None:
    client = turns(tmp_path, full=True)
    told = [each["message"] for each in client.events("message_end")]
    first, second = client.events("turn_end")
    assert first["message"] == told[1]
    assert first["toolResults"] == [told[2]]
    assert second["message"] == told[3]
    assert second["toolResults"] == []
    assert client.events("agent_end")[0]["messages"] == told
    ids = [each["entryId"] for each in client.events("message_end")]
    assert [*first["entryIds"], *second["entryIds"]] == ids[1:]


def test_ids_are_right_though_the_events_they_come_from_were_opted_out_of(tmp_path: Path) -> None:
    client = turns(tmp_path, optOut=["message_end"])
    first, second = client.events("turn_end")
    (end,) = client.events("agent_end")
    assert end["entryIds"][1:] == [*first["entryIds"], *second["entryIds"]]
    assert len(end["entryIds"]) == 4
    assert not client.events("message_end")


def test_a_snapshot_holds_all_that_was_said_up_to_the_update(tmp_path: Path) -> None:
    client = run(tmp_path, {"messageUpdate": "snapshot", "minIntervalMs": 0})
    so_far = ""
    for each in client.events("message_update"):
        update = each["assistantMessageEvent"]
        so_far += update["delta"] if update["type"] == "text_delta" else ""
        content = each["message"]["content"]
        assert each["message"]["role"] == "assistant"
        assert "".join(block["text"] for block in content).startswith(so_far)
    assert so_far == ANSWER[0]["text"]
    (end,) = [e for e in client.events("message_end") if e["message"]["role"] == "assistant"]
    assert client.events("message_update")[-1]["message"]["content"] == end["message"]["content"]


def test_without_a_wish_an_update_holds_only_what_is_new(tmp_path: Path) -> None:
    client = run(tmp_path, {"minIntervalMs": 0})
    assert client.events("message_update")
    assert not any("message" in each for each in client.events("message_update"))


@pytest.mark.parametrize(
    ("wishes", "path"),
    [
        ({"events": {"minIntervalMs": -1}}, "capabilities.events.minIntervalMs"),
        ({"events": {"messageUpdate": "often"}}, "capabilities.events.messageUpdate"),
        ({"pi": {"events": {"optOut": "all"}}}, "capabilities.pi.events.optOut"),
        ({"experimental": {"pi": {"ui": "yes"}}}, "capabilities.experimental.pi.ui"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_by_name(
    tmp_path: Path, wishes: Any, path: str
) -> None:
    frame = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": wishes}}
    done = subprocess.run(
        DAEMON,
        input=json.dumps(frame).encode() + b"\n",
        env={**os.environ, "PI_CODING_AGENT_DIR": str(tmp_path)},
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    error = json.loads(done.stdout)["error"]
    assert error["code"] == -32602
    assert error["data"]["path"] == path
