"""Arguments that stream: readable at every point, exact at the end."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_rpc.llm.partial_json import (
    MAX_DEPTH,
    parse_arguments,
    parse_partial,
    without_lone_surrogates,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)


def is_grown_from(early: Any, late: Any) -> bool:
    """Whether ``early`` can be what was known of ``late`` before."""
    if isinstance(early, dict) and isinstance(late, dict):
        return all(key in late and is_grown_from(early[key], late[key]) for key in early)
    if isinstance(early, list) and isinstance(late, list):
        return len(early) <= len(late) and all(map(is_grown_from, early, late))
    if isinstance(early, str) and isinstance(late, str):
        return late.startswith(early)
    return bool(early == late)


@settings(deadline=None, max_examples=60)
@given(objects, st.booleans(), st.sampled_from([None, 2]))
def test_every_prefix_is_an_object_that_the_whole_one_grew_from(
    value: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    for end in range(len(text) + 1):
        early = parse_partial(text[:end])
        assert isinstance(early, dict)
        assert is_grown_from(early, value)
    assert parse_partial(text) == value
    assert parse_arguments(text) == (json.loads(text), None)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_whatever_raises_and_the_outcome_can_be_encoded(text: str) -> None:
    msgspec.json.encode(parse_partial(text))
    arguments, problem = parse_arguments(text)
    msgspec.json.encode(arguments)
    assert problem is None or arguments == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("   ", {}),
        ("{", {}),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "x\\\\u00', {"a": "x\\u00"}),
        ('{"a": "\\ud83d', {"a": ""}),
        ('{"a": 12', {}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": tru', {}),
        ('{"a": true, "b"', {"a": True}),
        ('{"a": [1, 2', {"a": [1]}),
        ('{"a": [1, {"b": "c', {"a": [1, {"b": "c"}]}),
        ('{"a": {}}  trailing', {"a": {}}),
        ("[1, 2", {}),
        ('"text', {}),
        ("}", {}),
        ('{"p": "C:\\Users\\q', {"p": "C:\\Users\\q"}),
    ],
)
def test_what_can_be_read_of_an_unfinished_object(text: str, expected: dict[str, Any]) -> None:
    assert parse_partial(text) == expected


def test_finished_arguments_are_repaired_where_the_meaning_is_plain() -> None:
    assert parse_arguments('{"a": "one\ntwo\tthree"}') == ({"a": "one\ntwo\tthree"}, None)
    assert parse_arguments(r'{"re": "\d+\.\w"}') == ({"re": r"\d+\.\w"}, None)
    assert parse_arguments(r'{"a": "\\d \u12"}') == ({"a": r"\d \u12"}, None)


def test_no_arguments_at_all_are_an_empty_object() -> None:
    assert parse_arguments("") == ({}, None)
    assert parse_arguments(" \n") == ({}, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "not a JSON object but an array"),
        ('"x"', "not a JSON object but a string"),
        ("null", "not a JSON object but null"),
        ("true", "not a JSON object but a boolean"),
        ("3", "not a JSON object but a number"),
        ('{"a": ', "not valid JSON"),
        ('{"a": 1} {"b": 2}', "not valid JSON"),
        ('{"a": NaN}', "NaN is not a JSON value"),
    ],
)
def test_arguments_that_are_no_object_say_what_they_are(text: str, says: str) -> None:
    arguments, problem = parse_arguments(text)
    assert arguments == {}
    assert problem is not None
    assert says in problem


@pytest.mark.parametrize("opener", ["[", '{"a":', '{"a":['])
def test_deep_nesting_is_refused_and_never_a_recursion_error(opener: str) -> None:
    text = '{"a":' + opener * 50_000
    assert isinstance(parse_partial(text), dict)
    arguments, problem = parse_arguments(text)
    assert arguments == {}
    assert problem == f"the arguments are nested deeper than {MAX_DEPTH} levels"


def test_many_brackets_that_are_not_deep_are_fine() -> None:
    value = {"code": "[" * 1000, "list": [[]] * 1000}
    assert parse_arguments(json.dumps(value)) == (value, None)


def test_what_cannot_be_encoded_again_is_made_so() -> None:
    arguments, problem = parse_arguments('{"a": "x\\ud800y", "n": 123456789012345678901234567890}')
    assert problem is None
    assert arguments == {"a": "xy", "n": 1.2345678901234568e29}
    assert without_lone_surrogates("a\ud83d\ude00b\udc00") == "a\U0001f600b"
