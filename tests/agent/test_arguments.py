"""Arguments: near misses are put right on a copy, the rest is refused with a text that helps."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pi_rpc.agent import AgentTool
from pi_rpc.agent.arguments import ArgumentsError, checked_arguments
from pi_rpc.llm.messages import ToolCall
from tests.agent.stage import tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "ratio": {"type": "number"},
        "force": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "note": {"type": ["string", "null"]},
        "place": {"$ref": "#/$defs/place"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "both": {"allOf": [{"type": "integer"}, {"minimum": 2}]},
    },
    "required": ["path"],
    "additionalProperties": {"type": "integer"},
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"line": {"type": "integer"}, "name": {"type": "string"}},
            "required": ["line"],
        }
    },
}


def check(arguments: dict[str, Any], used: AgentTool | None = None, **call: Any) -> dict[str, Any]:
    used = used or tool("read", parameters=SCHEMA)
    return checked_arguments(used, ToolCall(id="a", name="read", arguments=arguments, **call))


@pytest.mark.parametrize(
    ("given_value", "wanted"),
    [
        ({"limit": "5"}, {"limit": 5}),
        ({"limit": " -7 "}, {"limit": -7}),
        ({"limit": 5.0}, {"limit": 5}),
        ({"limit": "5.0"}, {"limit": 5}),
        ({"ratio": "2.5e1"}, {"ratio": 25.0}),
        ({"force": "true"}, {"force": True}),
        ({"force": "False"}, {"force": False}),
        ({"names": "x"}, {"names": ["x"]}),
        ({"counts": "3"}, {"counts": [3]}),
        ({"counts": ["3", 4]}, {"counts": [3, 4]}),
        ({"limit": None}, {}),
        ({"note": None}, {"note": None}),
        ({"either": None}, {"either": None}),
        ({"either": "4"}, {"either": 4}),
        ({"both": "4"}, {"both": 4}),
        ({"place": {"line": "3", "name": None}}, {"place": {"line": 3}}),
        ({"other": "3"}, {"other": 3}),
    ],
)
def test_near_misses_are_put_right(given_value: dict[str, Any], wanted: dict[str, Any]) -> None:
    checked = check({"path": "p", **given_value})
    assert checked == {"path": "p", **wanted}
    for key, value in wanted.items():
        assert type(checked[key]) is type(value)


@pytest.mark.parametrize(
    ("arguments", "bullet"),
    [
        ({}, "  - path: is required"),
        ({"path": None}, "  - path: expected string, got null"),
        ({"path": 5}, "  - path: expected string, got number 5"),
        ({"path": "p", "limit": "five"}, '  - limit: expected integer, got string "five"'),
        ({"path": "p", "limit": "0x10"}, '  - limit: expected integer, got string "0x10"'),
        ({"path": "p", "limit": "1_000"}, '  - limit: expected integer, got string "1_000"'),
        ({"path": "p", "limit": 1.5}, "  - limit: expected integer, got number 1.5"),
        ({"path": "p", "ratio": "NaN"}, '  - ratio: expected number, got string "NaN"'),
        ({"path": "p", "ratio": "1e999"}, '  - ratio: expected number, got string "1e999"'),
        ({"path": "p", "force": 1}, "  - force: expected boolean, got number 1"),
        ({"path": "p", "place": {}}, "  - place.line: is required"),
        ({"path": "p", "names": ["a", {}]}, "  - names.1: expected string, got object {}"),
        ({"path": "p", "note": 3}, "  - note: expected string or null, got number 3"),
        ({"path": "p", "both": 1}, "  - both: 1 is less than the minimum of 2"),
    ],
)
def test_what_cannot_be_put_right_is_named_by_its_path(
    arguments: dict[str, Any], bullet: str
) -> None:
    with pytest.raises(ArgumentsError) as refused:
        check(arguments)
    lines = str(refused.value).split("\n")
    assert lines[0] == "The arguments for tool read are not valid:"
    assert lines[1] == bullet
    assert lines[2:4] == ["", "Received:"]


def test_every_problem_is_reported_with_the_arguments_as_they_were_received() -> None:
    with pytest.raises(ArgumentsError) as refused:
        check({"limit": "x", "ratio": "y"})
    assert str(refused.value) == (
        "The arguments for tool read are not valid:\n"
        "  - path: is required\n"
        '  - limit: expected integer, got string "x"\n'
        '  - ratio: expected number, got string "y"\n'
        "\n"
        "Received:\n"
        '{\n  "limit": "x",\n  "ratio": "y"\n}'
    )


def test_a_huge_argument_does_not_make_a_huge_error() -> None:
    with pytest.raises(ArgumentsError) as refused:
        check({"path": ["x" * 100_000], "limit": "y" * 100_000})
    assert len(str(refused.value)) < 6000


def test_the_transcript_keeps_what_the_model_wrote() -> None:
    def prepare(raw: dict[str, Any]) -> dict[str, Any]:
        raw["path"] = raw.pop("file")
        raw["place"]["line"] = "9"
        return raw

    written = {"file": "p", "limit": "5", "place": {"line": "1"}}
    used = tool("read", parameters=SCHEMA, prepare_arguments=prepare)
    assert check(written, used) == {"path": "p", "limit": 5, "place": {"line": 9}}
    assert written == {"file": "p", "limit": "5", "place": {"line": "1"}}


def test_arguments_that_could_not_be_read_are_reported_as_such_and_not_prepared() -> None:
    def prepare(_raw: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError

    used = tool("read", parameters=SCHEMA, prepare_arguments=prepare)
    with pytest.raises(ArgumentsError, match="could not be read: it ends in the middle"):
        check({}, used, arguments_error="it ends in the middle")


def test_a_prepare_that_raises_or_gives_no_object_is_an_error_of_the_call() -> None:
    def raises(_raw: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("file")

    with pytest.raises(ArgumentsError, match="could not be prepared: 'file'"):
        check({}, tool("read", parameters=SCHEMA, prepare_arguments=raises))
    with pytest.raises(ArgumentsError, match="no object"):
        check({}, tool("read", parameters=SCHEMA, prepare_arguments=lambda _raw: 5))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "obejct"},
        {"type": "object", "properties": {"path": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"path": {"$ref": "https://example.invalid/s.json"}}},
        {"type": "object", "properties": {"path": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": 5},
    ],
)
def test_a_tool_with_a_broken_schema_is_named_and_nothing_is_fetched(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *request, **_: fetched.append(request))
    with pytest.raises(ArgumentsError, match="Tool read cannot be called: its parameter schema"):
        check({"path": "p"}, tool("read", parameters=schema))
    assert fetched == []


def test_endless_schemas_and_deep_arguments_are_errors_of_the_call() -> None:
    endless = {"type": "object", "properties": {"path": {"$ref": "#/properties/path"}}}
    with pytest.raises(ArgumentsError):
        check({"path": "p"}, tool("read", parameters=endless))
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"d": deep}
    with pytest.raises(ArgumentsError, match="nested too deeply"):
        check({"path": "p", "limit": deep})
    while deep:  # take it apart, or its end is as deep as it is
        deep = deep["d"]


def test_a_value_that_fits_no_branch_says_what_the_branches_wanted() -> None:
    with pytest.raises(ArgumentsError) as refused:
        check({"path": "p", "either": "x"})
    assert '  - either: expected integer or null, got string "x"' in str(refused.value)
    schema = {
        "type": "object",
        "properties": {"edit": {"oneOf": [SCHEMA["$defs"]["place"], {"type": "string"}]}},
    }
    with pytest.raises(ArgumentsError) as refused:
        check({"edit": {"line": "first"}}, tool("read", parameters=schema))
    assert '  - edit.line: expected integer, got string "first"' in str(refused.value)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*SCHEMA["properties"], "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["line", "name", "x"]), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
)
def test_any_arguments_are_either_made_valid_or_refused(arguments: dict[str, Any]) -> None:
    try:
        checked = check(arguments)
    except ArgumentsError:
        return
    assert check(checked) == checked
