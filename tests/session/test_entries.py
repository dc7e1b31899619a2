"""Entries: every type, what is unknown, what is almost right."""

import json
from typing import Any

import msgspec
import pytest

from pi_rpc.agent.messages import OpaqueMessage, default_roles
from pi_rpc.llm.messages import (
    AssistantMessage,
    TextBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    Wire,
)
from pi_rpc.session import EntryReader, StoredEntry
from pi_rpc.session.entries import (
    ENTRY_TYPES,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    LabelEntry,
    MessageEntry,
    SessionHeader,
    UnknownEntry,
    encode_entry,
    encode_header,
    iso_of_ms,
    ms_of_iso,
    normal_name,
)
from pi_rpc.session.stored import parse_header
from tests.session.builders import FIXTURE

FIXTURE_LINES = FIXTURE.read_bytes().splitlines()[1:]


def read(line: bytes | dict[str, Any]) -> StoredEntry:
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    stored = EntryReader().line(raw)
    assert stored is not None
    return stored


def entry_of(kind: str, **fields: Any) -> Any:
    base = {"type": kind, "id": "a1", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z"}
    return read({**base, **fields}).entry


def message_of(**message: Any) -> Any:
    entry = entry_of("message", message=message)
    assert isinstance(entry, MessageEntry)
    return entry.message


def test_the_fixture_has_every_type_and_an_unknown_one() -> None:
    types = {read(line).type for line in FIXTURE_LINES}
    assert types - ENTRY_TYPES.keys() == {"hologram"}
    assert ENTRY_TYPES.keys() <= types


@pytest.mark.parametrize("line", FIXTURE_LINES, ids=lambda line: json.loads(line)["id"])
def test_an_entry_written_again_says_the_same(line: bytes) -> None:
    stored = read(line)
    assert stored.raw == line
    assert stored.json == line
    if stored.type == "hologram":
        assert isinstance(stored.entry, UnknownEntry)
    else:
        assert type(stored.entry) is ENTRY_TYPES[stored.type]
    again = json.loads(encode_entry(stored.entry))
    expected = json.loads(line)
    expected.get("message", {}).pop("futureField", None)  # kept in the line, not in the struct
    assert again == expected


def test_the_first_fields_of_a_line_are_in_the_order_pi_writes_them() -> None:
    entry = LabelEntry(id="a1", parent_id=None, timestamp="t", target_id="a0")
    assert encode_entry(entry) == (
        b'{"type":"label","id":"a1","parentId":null,"timestamp":"t","targetId":"a0"}'
    )


def test_every_usage_and_cost_number_is_written() -> None:
    message = AssistantMessage(
        content=[],
        api="x",
        provider="x",
        model="x",
        usage=Usage.ZERO,
        stop_reason="stop",
        timestamp=0,
    )
    entry = MessageEntry(id="a1", parent_id=None, timestamp="t", message=message)
    usage = json.loads(encode_entry(entry))["message"]["usage"]
    assert usage == {
        "input": 0,
        "output": 0,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 0,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }


def test_an_unknown_role_is_kept_as_its_bytes() -> None:
    message = message_of(role="oracle", says=[1, 2])
    assert message == OpaqueMessage("oracle", b'{"role": "oracle", "says": [1, 2]}')


def test_a_registered_role_is_decoded() -> None:
    class Note(Wire, tag_field="role", tag="note", frozen=True, kw_only=True):
        text: str

    roles = default_roles()
    roles.register(Note)
    line = {"type": "message", "id": "a", "message": {"role": "note", "text": "x"}}
    stored = EntryReader(roles).line(json.dumps(line).encode())
    assert stored is not None
    assert isinstance(stored.entry, MessageEntry)
    assert stored.entry.message == Note(text="x")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"{",
        b"null",
        b"5",
        b"[]",
        b"{}",
        b'{"type":"label"}',
        b'{"type":"label","id":""}',
        b'{"type":"label","id":7}',
        b'{"type":5,"id":"a"}',
        b'{"type":"session","id":"a"}',
        b"\x00\x00\x00",
        b"\xff\xfe",
        b'{"type":"label","id":"a","x":NaN}',
        b'{"type":"label","id":"a","x":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    ],
)
def test_what_is_no_entry_is_skipped(line: bytes) -> None:
    assert EntryReader().line(line) is None


def test_a_known_type_in_an_unknown_shape_is_unknown_and_kept() -> None:
    entry = entry_of("label", targetId=5)
    assert isinstance(entry, UnknownEntry)
    assert entry.type == "label"
    assert json.loads(entry.raw)["targetId"] == 5


@pytest.mark.parametrize("message", [None, 5, "text", [], {}, {"role": 5}, {"content": "x"}])
def test_a_message_entry_without_a_message_is_unknown(message: Any) -> None:
    assert isinstance(entry_of("message", message=message), UnknownEntry)


def test_invalid_utf8_reads_as_replacement_characters_and_keeps_its_bytes() -> None:
    line = (
        b'{"type":"message","id":"a","parentId":null,"timestamp":"",'
        b'"message":{"role":"user","content":"caf\xe9","timestamp":1}}'
    )
    stored = read(line)
    assert stored.raw == line
    assert stored.json.decode() == line.decode(errors="replace")
    assert isinstance(stored.entry, MessageEntry)
    assert stored.entry.message == UserMessage(content="caf\ufffd", timestamp=1)


@pytest.mark.parametrize("half", [r"\ud83d", r"\ude00", r"\ud83d and \ude00"])
def test_half_a_surrogate_pair_reads_as_a_replacement_character(half: str) -> None:
    line = (
        '{"type":"message","id":"a","parentId":"b","timestamp":"t",'
        f'"message":{{"role":"user","content":"x{half}","timestamp":1}}}}'
    ).encode()
    stored = read(line)
    assert (stored.raw, stored.id, stored.parent_id, stored.role) == (line, "a", "b", "user")
    assert isinstance(stored.entry, MessageEntry)
    assert "\ufffd" in stored.entry.message.content
    msgspec.json.decode(stored.json)


def test_a_message_with_half_a_surrogate_pair_can_be_written() -> None:
    message = UserMessage(content="x\ud83d", timestamp=1)
    line = encode_entry(MessageEntry(id="a", parent_id=None, timestamp="t", message=message))
    assert json.loads(line)["message"]["content"] == "x\ud83d"
    assert isinstance(read(line).entry, MessageEntry)


def test_an_opaque_message_laid_out_over_lines_is_written_on_one() -> None:
    message = OpaqueMessage("oracle", b'{"role":\n"oracle",\r\n"a":"\\n"}')
    line = encode_entry(MessageEntry(id="a", parent_id=None, timestamp="t", message=message))
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line)["message"] == {"role": "oracle", "a": "\n"}


@pytest.mark.parametrize("role", ["user", "assistant", "toolResult"])
def test_null_content_is_empty(role: str) -> None:
    message = message_of(role=role, content=None, timestamp=1, toolCallId="c", toolName="t")
    assert message.content == []


def test_an_old_reply_without_numbers_is_readable() -> None:
    message = message_of(role="assistant", content="hi", usage={"input": 3, "cost": None})
    assert isinstance(message, AssistantMessage)
    assert message.content == [TextBlock(text="hi")]
    assert (message.usage.input, message.usage.total_tokens, message.usage.cost.total) == (3, 0, 0)
    assert message.stop_reason == "stop"
    assert message.timestamp == ms_of_iso("2026-01-01T00:00:00.000Z")


def test_content_of_a_later_version_is_left_out_of_what_is_read() -> None:
    message = message_of(
        role="toolResult",
        toolCallId="c",
        toolName="t",
        content=[{"type": "text", "text": "a"}, {"type": "audio", "data": "b"}],
        isError=False,
        timestamp=5.0,
    )
    assert isinstance(message, ToolResultMessage)
    assert message.content == [TextBlock(text="a")]
    assert message.timestamp == 5


def test_a_custom_message_without_content_is_empty() -> None:
    entry = entry_of("custom_message", customType="x", content=None, display=None)
    assert isinstance(entry, CustomMessageEntry)
    assert (entry.content, entry.display) == ([], False)


def test_a_compaction_that_names_nothing_to_keep_keeps_nothing() -> None:
    entry = entry_of("compaction", summary="s", tokensBefore=1.0, details=None)
    assert isinstance(entry, CompactionEntry)
    assert (entry.first_kept_entry_id, entry.tokens_before) == ("a1", 1)


def test_arguments_with_nulls_are_kept() -> None:
    entry = entry_of("custom", customType="x", data={"a": None})
    assert isinstance(entry, CustomEntry)
    assert entry.data == {"a": None}


def test_a_header_is_read_with_what_it_lacks_filled_in() -> None:
    header = parse_header(b'\xef\xbb\xbf{"type":"session","id":"x","parentSession":null}')
    assert header == SessionHeader(version=1, id="x", timestamp="", cwd="")


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"session"}',
        b'{"type":"session","id":5}',
        b'{"type":"session","id":""}',
        b'{"type":"message","id":"x"}',
        b'{"type":"session","id":"x","version":"three"}',
        b'{"type":"session","id":"x","version":0}',
    ],
)
def test_what_is_no_header_is_none(line: bytes) -> None:
    assert parse_header(line) is None


def test_a_header_written_again_says_the_same() -> None:
    line = b'{"type":"session","version":3,"id":"x","timestamp":"t","cwd":"/","parentSession":"p"}'
    header = parse_header(line)
    assert header is not None
    assert encode_header(header) == line


def test_times_convert_both_ways() -> None:
    assert ms_of_iso("2026-01-31T12:00:00.123Z") == 1769860800123
    assert iso_of_ms(1769860800123) == "2026-01-31T12:00:00.123Z"
    assert ms_of_iso("yesterday") is None
    assert iso_of_ms(1e30) == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("name", "expected"), [("  a\r\nb\n\nc ", "a b c"), ("\n", ""), ("plain", "plain")]
)
def test_a_name_is_one_trimmed_line(name: str, expected: str) -> None:
    assert normal_name(name) == expected
