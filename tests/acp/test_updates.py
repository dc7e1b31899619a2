"""What is drawn of events that few turns have, as the schema has it."""

import json
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.acp.handshake import ClientCapabilities, SessionCapabilities
from pi_rpc.acp.permissions import _options
from pi_rpc.acp.shapes import SessionUpdate
from pi_rpc.acp.updates import OWN_PROMPT, Updates
from pi_rpc.agent import events as e
from pi_rpc.agent.messages import CustomMessage
from pi_rpc.agent.permission import PermissionOption
from pi_rpc.agent.tool import ToolResult
from pi_rpc.llm.messages import UserMessage
from tests.acp.schema import Frame, check

DRAWS_ALL = ClientCapabilities(session=SessionCapabilities(compaction={}, notices={}))
DRAWS_LITTLE = ClientCapabilities()


def drawn(*events: e.AgentEvent, client: ClientCapabilities = DRAWS_ALL) -> list[Frame]:
    updates = Updates(client, list, list)
    found = []
    for event in events:
        for update in updates.of(event):
            params = json.loads(msgspec.json.encode(SessionUpdate(session_id="s", update=update)))
            check({"jsonrpc": "2.0", "method": "session/update", "params": params}, None)
            found.append(params["update"])
    return found


def said(client_message_id: Any) -> e.MessageEnd:
    message = UserMessage(content="more", timestamp=0)
    return e.MessageEnd(message=message, message_id="m", client_message_id=client_message_id)


START = e.CompactionStart(reason="manual")


def ended(**fields: Any) -> e.CompactionEnd:
    return e.CompactionEnd(**{"reason": "manual", "aborted": False, "will_retry": False, **fields})


CUSTOM = CustomMessage(custom_type="x", content="a note", display=True, timestamp=0)
RETRY = e.AutoRetryStart(attempt=1, max_attempts=3, delay_ms=5, error_message="busy")
CASES: list[tuple[str, list[e.AgentEvent], list[Frame]]] = [
    (
        "a new name",
        [e.SessionChanged(changes={"name": "Parser"})],
        [{"sessionUpdate": "session_info_update", "title": "Parser"}],
    ),
    (
        "no name any more",
        [e.SessionChanged(changes={}, removed=["name"])],
        [{"sessionUpdate": "session_info_update", "title": None}],
    ),
    (
        "a compaction that was stopped",
        [START, ended(aborted=True)],
        [
            {
                "sessionUpdate": "compaction_update",
                "compactionId": ANY,
                "status": status,
            }
            for status in ("in_progress", "cancelled")
        ],
    ),
    (
        "a compaction that failed",
        [START, ended(error_message="too short")],
        [
            {
                "sessionUpdate": "compaction_update",
                "compactionId": ANY,
                "status": "in_progress",
            },
            {
                "sessionUpdate": "compaction_update",
                "compactionId": ANY,
                "status": "failed",
                "error": "too short",
            },
        ],
    ),
    (
        "a retry",
        [RETRY],
        [{"sessionUpdate": "notice", "severity": "warning", "title": "Attempt 1 of 3: busy"}],
    ),
    (
        "a message of an extension",
        [e.MessageEnd(message=CUSTOM, message_id="m")],
        [
            {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": "a note"},
                "messageId": "m",
            }
        ],
    ),
    (
        "words of a person that the client does not know",
        [said(UNSET)],
        [
            {
                "sessionUpdate": "user_message_chunk",
                "content": {"type": "text", "text": "more"},
                "messageId": "m",
            }
        ],
    ),
    ("words that it does know", [said(f"{OWN_PROMPT}1")], []),
    (
        "a result without a beginning",
        [
            e.ToolExecutionEnd(
                tool_call_id="c", tool_name="t", result=ToolResult.of_text("x"), is_error=True
            )
        ],
        [
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "c",
                "status": "failed",
                "content": [{"type": "content", "content": {"type": "text", "text": "x"}}],
            }
        ],
    ),
]


@pytest.mark.parametrize(
    ("events", "updates"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_an_event_is_drawn(events: list[e.AgentEvent], updates: list[Frame]) -> None:
    assert drawn(*events) == updates


def test_what_a_client_does_not_draw_is_not_sent_or_sent_beside() -> None:
    assert drawn(START, ended(aborted=True), client=DRAWS_LITTLE) == []
    (told,) = drawn(RETRY, client=DRAWS_LITTLE)
    assert told["_meta"]["pi"]["diagnostic"]["severity"] == "warning"


def test_a_compaction_has_an_id_of_its_own_also_once_the_session_was_unloaded() -> None:
    ids = [
        [update["compactionId"] for update in drawn(*events)]
        for events in ([START, ended(aborted=True), START], [START, ended(aborted=True)])
    ]
    (first, first_end, second), (third, third_end) = ids
    assert (first, third) == (first_end, third_end)
    assert len({first, second, third}) == 3


@pytest.mark.parametrize(
    ("kinds", "offered"),
    [
        (["allow_once", "reject_once"], ["allow_once", "reject_once"]),
        (
            ["allow_once", "allow_session", "reject_once"],
            ["allow_once", "allow_always", "reject_once"],
        ),
        (
            ["allow_once", "allow_session", "allow_always", "allow_session", "reject_once"],
            ["allow_once", "allow_always", "reject_once"],
        ),
    ],
)
def test_one_option_of_each_kind_is_offered(kinds: list[Any], offered: list[str]) -> None:
    options = [
        PermissionOption(id=f"{kind}-{place}", name=kind, kind=kind)
        for place, kind in enumerate(kinds)
    ]
    assert [each.kind for each in _options(options)] == offered
    ids = {each.option_id for each in _options(options)}
    assert ids <= {each.id for each in options}
