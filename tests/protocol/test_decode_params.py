"""Params are read with good will, and what cannot be read is named."""

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from pi_rpc.llm.messages import ImageBlock, TextBlock
from pi_rpc.protocol.attachments import SelectionAttachment
from pi_rpc.protocol.base import Empty, Limits, ModelRef, SessionNewParams, SessionParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.requests import (
    AbortParams,
    PromptParams,
    SessionConfigureParams,
    SessionEntryParams,
    SessionMessagesParams,
)
from pi_rpc.protocol.schema import wire_types
from pi_rpc.wire_errors import members

GOLDEN = Path(__file__).parents[1] / "golden"

SELECTION = {
    "type": "selection",
    "uri": "file:///a.py",
    "range": {"start": {"line": 1.0, "character": 0}, "end": {"line": 2, "character": 0.0}},
    "text": "x",
}


def decoded(type_: Any, value: Any) -> Any:
    return decode_params(type_, json.dumps(value).encode())


@pytest.mark.parametrize("raw", [None, b"", b"null", b"[]", b"[null]", b"{}", b" [ null ] "])
@pytest.mark.parametrize("type_", [Empty, SessionParams, SessionNewParams, AbortParams])
def test_params_that_say_nothing_are_an_empty_object(type_: Any, raw: bytes | None) -> None:
    assert decode_params(type_, raw) == type_()


def test_raw_json_is_decoded_as_bytes_are() -> None:
    assert decode_params(SessionParams, Raw(b'{"sessionId":"s"}')).session_id == "s"


def test_null_for_an_optional_field_means_absent() -> None:
    params = decoded(
        PromptParams,
        {"message": "hi", "sessionId": None, "images": None, "wait": None, "attachments": None},
    )
    assert params == PromptParams(message="hi")
    assert params.wait == "settled"


def test_null_for_a_required_field_is_refused_by_its_name() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"got `null` - at `\$\.message`"):
        decoded(PromptParams, {"message": None})


def test_an_empty_array_stands_for_an_empty_object_and_the_other_way_round() -> None:
    params = decoded(SessionNewParams, {"limits": [], "tools": {}, "additionalDirectories": {}})
    assert (params.limits, params.tools, params.additional_directories) == (Limits(), [], [])
    assert decoded(PromptParams, {"message": {}}).message == []


def test_an_empty_object_stays_one_inside_a_mended_value() -> None:
    params = decoded(SessionConfigureParams, {"limits": {}, "activeTools": {}})
    assert (params.limits, params.active_tools) == (Limits(), [])


def test_mending_reaches_into_arrays_and_tagged_unions() -> None:
    blocks = [{"type": "text", "text": "a", "textSignature": None}]
    images = [{"type": "image", "data": "", "mimeType": "image/png"}]
    params = decoded(
        PromptParams, {"message": blocks, "images": images, "attachments": [SELECTION]}
    )
    assert params.message == [TextBlock(text="a")]
    assert params.images == [ImageBlock(data="", mime_type="image/png")]
    (selection,) = params.attachments
    assert isinstance(selection, SelectionAttachment)
    assert (selection.range.start.line, selection.range.end.line) == (1, 2)


def test_a_whole_float_is_an_integer_and_another_is_not() -> None:
    assert decoded(SessionMessagesParams, {"limit": 5.0}).limit == 5
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`.* - at `\$\.limit`"):
        decoded(SessionMessagesParams, {"limit": 5.5})


def test_unknown_fields_are_ignored_whatever_they_are_called() -> None:
    value = {"entryId": "e", "class": 1, "jsonrpc": {"id": None}, "limit": None}
    assert decoded(SessionEntryParams, value) == SessionEntryParams(entry_id="e")


def test_unknown_huge_numbers_do_not_hurt_when_something_must_be_mended() -> None:
    value = {"entryId": "e", "sessionId": None, "n": 2**100}
    assert decoded(SessionEntryParams, value).entry_id == "e"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([1], "$"),
        (["s"], "$"),
        (5, "$"),
        ("text", "$"),
        ({}, "$"),
        ({"message": 5}, "$.message"),
        ({"message": "x", "wait": "forever"}, "$.wait"),
        ({"message": "x", "images": [{"data": 1, "mimeType": "x"}]}, "$.images[0].data"),
        ({"message": [{"type": "video"}]}, "$.message[0].type"),
        ({"message": "x", "attachments": [{**SELECTION, "text": 1}]}, "$.attachments[0].text"),
        ({"message": "x", "sessionId": None, "clientMessageId": 1}, "$.clientMessageId"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(value: Any, path: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        decoded(PromptParams, value)
    assert str(caught.value).endswith(f"at `{path}`")


@pytest.mark.parametrize("limits", [{"turns": 0}, {"costUsd": 0}, {"seconds": -1}])
def test_a_limit_that_nothing_could_meet_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.limits\."):
        decoded(SessionNewParams, {"limits": limits})


def test_a_model_is_named_in_one_string_or_in_two_fields() -> None:
    assert decoded(SessionNewParams, {"model": "a/b"}).model == "a/b"
    named = decoded(SessionNewParams, {"model": {"provider": "a", "id": "b", "name": None}})
    assert named.model == ModelRef(provider="a", id="b")
    assert decoded(SessionNewParams, {"model": None}).model is UNSET


def test_nesting_without_end_is_refused_and_does_not_end_the_process() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(msgspec.ValidationError, match="nesting"):
        decode_params(PromptParams, b'{"message":"x","other":' + deep + b"}")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "text", "uri", "range", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["message", "images", "attachments", "wait", "sessionId", "x"]), JSON
    )
)
def test_any_json_either_decodes_or_is_refused_with_a_path(value: dict[str, Any]) -> None:
    refusal = ""
    try:
        params: Any = decoded(PromptParams, value)
    except msgspec.ValidationError as error:
        refusal = str(error)
        params = None
    assert isinstance(params, PromptParams) != (" - at `$" in refusal)


WORDS = [
    (struct, field)
    for struct in wire_types().values()
    for field, type_ in zip(
        struct.__struct_encode_fields__,
        (get_type_hints(struct)[name] for name in struct.__struct_fields__),
        strict=True,
    )
    if Literal in {get_origin(each) for each in members(type_)} and str not in members(type_)
]


@pytest.mark.parametrize(("type_", "field"), WORDS)
def test_for_a_word_that_is_not_allowed_those_are_named_that_are(type_: Any, field: str) -> None:
    golden = json.loads((GOLDEN / f"{type_.__name__}.json").read_text(encoding="utf-8"))
    allowed = [
        word
        for member in members(get_type_hints(type_)[to_snake(field, type_)])
        for word in get_args(member)
    ]
    wrong = "fll" if isinstance(allowed[0], str) else 99
    with pytest.raises(msgspec.ValidationError) as refused:
        decoded(type_, {**golden, field: wrong})
    expected, _, got = str(refused.value).partition(", got ")
    assert got == f"{wrong!r} - at `$.{field}`"
    named = expected.removeprefix("Expected ").removeprefix("one of ").split(", ")
    assert sorted(named) == sorted(map(repr, allowed))


def to_snake(field: str, type_: Any) -> str:
    """The name in Python of a field of the wire."""
    place = type_.__struct_encode_fields__.index(field)
    return str(type_.__struct_fields__[place])


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (
            PromptParams,
            {"message": [{"type": "text", "text": "a"}, {"type": "txt"}]},
            "Expected one of 'text', 'image', got 'txt' - at `$.message[1].type`",
        ),
        (
            dict[str, SessionNewParams],
            {"a": {"permissionMode": "- at `$.b`"}},
            (
                "Expected one of 'ask', 'edits', 'full', 'readonly', got '- at `$.b`'"
                " - at `$[...].permissionMode`"
            ),
        ),
    ],
)
def test_the_words_that_are_allowed_are_found_wherever_the_wrong_one_is(
    type_: Any, value: Any, expected: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        decoded(type_, value)
    assert str(refused.value) == expected
