"""One golden value per wire type: what is in the file is what crosses the wire."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from pi_rpc.protocol.encode import encode
from pi_rpc.protocol.errors import ERRORS, ProtocolError
from pi_rpc.protocol.schema import build_schema, wire_types

GOLDEN = Path(__file__).parents[1] / "golden"
TYPES = wire_types()


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    built = build_schema()
    jsonschema.Draft202012Validator.check_schema(built)
    return built


def test_every_wire_type_has_a_golden_file_and_every_file_a_type() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TYPES)


def test_every_kind_of_error_has_a_golden_file_and_every_file_a_kind() -> None:
    assert {path.stem for path in (GOLDEN / "errors").glob("*.json")} == set(ERRORS)


@pytest.mark.parametrize("name", TYPES)
def test_a_golden_value_survives_decoding_and_encoding(name: str) -> None:
    value = golden(name)
    struct = msgspec.json.decode(json.dumps(value), type=TYPES[name])
    assert json.loads(encode(struct)) == value


@pytest.mark.parametrize("name", TYPES)
def test_a_golden_value_shows_every_field(name: str) -> None:
    fields = set(TYPES[name].__struct_encode_fields__)
    if tag_field := TYPES[name].__struct_config__.tag_field:
        fields.add(tag_field)
    assert set(golden(name)) == fields


@pytest.mark.parametrize("name", TYPES)
def test_a_golden_value_is_valid_by_the_schema(name: str, schema: dict[str, Any]) -> None:
    whole = {"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}
    jsonschema.Draft202012Validator(whole).validate(golden(name))


@pytest.mark.parametrize("name", TYPES)
def test_a_value_without_a_required_field_is_refused_and_without_an_optional_one_is_not(
    name: str, schema: dict[str, Any]
) -> None:
    value = golden(name)
    required = set(schema["$defs"][name].get("required", ()))
    tag_field = TYPES[name].__struct_config__.tag_field
    for field in value.keys() - {tag_field}:
        text = json.dumps({key: each for key, each in value.items() if key != field})
        if field in required:
            with pytest.raises(msgspec.ValidationError, match=f"`{field}`"):
                msgspec.json.decode(text, type=TYPES[name])
        else:
            msgspec.json.decode(text, type=TYPES[name])


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_reaches_the_wire_as_its_golden_value(kind: str) -> None:
    value = golden(f"errors/{kind}")
    fields = {name: each for name, each in value["data"].items() if name != "kind"}
    error = ProtocolError(kind, value["message"], **fields)
    assert {"code": error.code, "message": error.message, "data": error.data} == value
    assert set(fields) == set(ERRORS[kind].fields)
