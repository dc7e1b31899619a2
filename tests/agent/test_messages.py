"""The message registry: decoding, encoding, and how each role reads to a model."""

import json

import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.agent.events import MessageEnd
from pi_rpc.agent.messages import (
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    MessageDecodeError,
    MessageRoles,
    OpaqueMessage,
    convert_to_llm,
    decode_message,
    default_roles,
    encode_hook,
    encode_message,
    role_of,
)
from pi_rpc.llm.messages import SystemMessage, TextBlock, UserMessage, Wire

USAGE = {
    "input": 1,
    "output": 2,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 3,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.3},
}

ONE_OF_EACH_ROLE = [
    {"role": "system", "content": "be brief", "timestamp": 1},
    {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 2},
    {
        "role": "assistant",
        "content": [{"type": "toolCall", "id": "a", "name": "read", "arguments": {"path": "x"}}],
        "api": "scripted",
        "provider": "p",
        "model": "m",
        "usage": USAGE,
        "stopReason": "toolUse",
        "timestamp": 3,
    },
    {
        "role": "toolResult",
        "toolCallId": "a",
        "toolName": "read",
        "content": [],
        "isError": False,
        "timestamp": 4,
        "details": {"lines": 3},
    },
    {
        "role": "bashExecution",
        "command": "ls",
        "output": "a\n",
        "cancelled": False,
        "truncated": False,
        "timestamp": 5,
        "exitCode": 0,
    },
    {"role": "custom", "customType": "t", "content": "c", "display": True, "timestamp": 6},
    {"role": "branchSummary", "summary": "s", "fromId": None, "timestamp": 7},
    {"role": "compactionSummary", "summary": "s", "tokensBefore": 9, "timestamp": 8},
]


@pytest.mark.parametrize("shape", ONE_OF_EACH_ROLE, ids=lambda shape: shape["role"])
def test_every_known_role_is_written_as_it_was_read(shape: dict[str, object]) -> None:
    message = decode_message(json.dumps(shape).encode(), default_roles())
    assert not isinstance(message, OpaqueMessage)
    assert role_of(message) == shape["role"]
    assert json.loads(encode_message(message)) == shape


def test_a_message_of_an_unknown_role_keeps_its_bytes_also_inside_an_event() -> None:
    raw = b'{"role":"artifact",  "x":[1, 2.50],"timestamp":1}'
    message = decode_message(raw, default_roles())
    assert isinstance(message, OpaqueMessage)
    assert role_of(message) == "artifact"
    assert encode_message(message) == raw
    event = MessageEnd(message=message)
    assert raw in msgspec.json.encode(event, enc_hook=encode_hook)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"5", b"{}", b'{"role":5}', b'{"role":"user"}', b'{"role":"\xff"}']
)
def test_bytes_that_are_no_message_are_refused_with_one_kind_of_error(raw: bytes) -> None:
    with pytest.raises(MessageDecodeError):
        decode_message(raw, default_roles())


class Note(Wire, tag_field="role", tag="note", frozen=True, kw_only=True):
    """A role of an application."""

    text: str


def test_a_registered_role_is_decoded_encoded_and_read_by_the_model() -> None:
    roles = default_roles()
    raw = b'{"role":"note","text":"mind the gap"}'
    assert isinstance(decode_message(raw, roles), OpaqueMessage)
    roles.register(Note, lambda note: [UserMessage(content=note.text, timestamp=0)])
    message = decode_message(raw, roles)
    assert message == Note(text="mind the gap")
    assert encode_message(message) == raw
    assert convert_to_llm([message], roles) == [UserMessage(content="mind the gap", timestamp=0)]
    assert convert_to_llm([message], default_roles()) == []
    assert "note" in roles
    assert "note" not in default_roles()


def test_a_struct_without_a_role_tag_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="tag_field='role'"):
        MessageRoles().register(TextBlock)


def bash(**fields: object) -> BashExecutionMessage:
    defaults: dict[str, object] = {
        "command": "make",
        "output": "built\n",
        "cancelled": False,
        "truncated": False,
        "timestamp": 1,
        "exit_code": 0,
    }
    return BashExecutionMessage(**{**defaults, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (bash(), "Ran `make`\n```\nbuilt\n```"),
        (bash(output=""), "Ran `make`\n(no output)"),
        (bash(exit_code=2), "Ran `make`\n```\nbuilt\n```\nExit code: 2"),
        (
            bash(cancelled=True, exit_code=UNSET),
            "Ran `make`\n```\nbuilt\n```\n(the command was cancelled)",
        ),
        (
            bash(truncated=True, full_output_path="/t/o"),
            "Ran `make`\n```\nbuilt\n```\nThe output was cut. Full output: /t/o",
        ),
        (bash(output="```\nx\n```"), "Ran `make`\n````\n```\nx\n```\n````"),
    ],
)
def test_a_shell_command_reads_as_user_text(message: BashExecutionMessage, text: str) -> None:
    assert convert_to_llm([message], default_roles()) == [UserMessage(content=text, timestamp=1)]


def test_what_a_model_is_not_meant_to_see_is_dropped() -> None:
    messages = [
        bash(exclude_from_context=True),
        SystemMessage(content="x", timestamp=1),
        OpaqueMessage("artifact", b'{"role":"artifact"}'),
    ]
    assert convert_to_llm(messages, default_roles()) == []


def test_summaries_read_as_an_introduction_and_a_summary_element() -> None:
    messages = [
        BranchSummaryMessage(summary="left", from_id="ab", timestamp=1),
        CompactionSummaryMessage(summary="short", tokens_before=10, timestamp=2),
    ]
    branch, compaction = convert_to_llm(messages, default_roles())
    assert isinstance(branch, UserMessage)
    assert isinstance(compaction, UserMessage)
    for read, summary in ((branch, "left"), (compaction, "short")):
        assert isinstance(read.content, str)
        intro, _, rest = read.content.partition("\n\n")
        assert intro.endswith(":")
        assert rest == f"<summary>\n{summary}\n</summary>"


def test_a_custom_message_reads_as_the_same_content_of_a_user() -> None:
    content = [TextBlock(text="c")]
    message = CustomMessage(
        custom_type="t", content=content, display=False, timestamp=3, details={"secret": 1}
    )
    assert convert_to_llm([message], default_roles()) == [UserMessage(content=content, timestamp=3)]
