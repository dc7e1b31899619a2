"""The tables agree with each other, with the schema and with the document."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pi_rpc.protocol.errors import COMMON_ERRORS, ERRORS
from pi_rpc.protocol.handshake import EVENT_NAMES, METHOD_NAMES
from pi_rpc.protocol.methods import EVENTS, METHODS
from pi_rpc.protocol.schema import GENERATED_FILES, KINDS, build_schema, render, update_files
from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parents[2]
ANSWERED_BY_THE_EDITOR = {"editor/readDocument", "workspace/applyEdit", "editor/saveDocument"}
AS_IN_LSP = {"window/showMessageRequest"}
"""Questions that a person answers in LSP's shape; null there says that they dismissed it."""
DOCUMENT = (ROOT / "protocol.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return build_schema()


def test_initialize_announces_exactly_what_the_tables_have() -> None:
    ours = tuple(name for name, method in METHODS.items() if method.sender == "client")
    assert ours == METHOD_NAMES
    assert tuple(EVENTS) == EVENT_NAMES


def test_methods_name_kinds_of_error_that_exist_and_repeat_no_common_one() -> None:
    assert set(COMMON_ERRORS) <= set(ERRORS)
    for method in METHODS.values():
        assert set(method.errors) <= set(ERRORS) - set(COMMON_ERRORS), method.name
        assert len(set(method.errors)) == len(method.errors), method.name


def test_notifications_promise_no_answer() -> None:
    for method in METHODS.values():
        if not method.is_request:
            assert (method.result, method.errors) == (None, ()), method.name
            assert method.order in {"none", "in_turn"}, method.name
        else:
            assert method.order != "in_turn", method.name


def test_requests_that_can_name_a_session_keep_its_order() -> None:
    for method in METHODS.values():
        fields = method.params.__struct_encode_fields__ if method.params else ()
        if method.is_request and method.sender == "client":
            assert (method.order == "session") == ("sessionId" in fields), method.name
            assert ("sessionNotFound" in method.errors) == ("sessionId" in fields), method.name
    assert [each.name for each in METHODS.values() if each.order == "barrier"] == [
        "initialize",
        "shutdown",
    ]


def test_every_question_to_the_client_can_be_named_attributed_and_limited() -> None:
    for method in METHODS.values():
        if method.is_request and method.sender == "daemon":
            assert method.params is not None
            assert method.result is not None
            fields = set(method.params.__struct_encode_fields__)
            assert {"requestId", "sessionId", "timeoutMs"} <= fields, method.name
            if method.name not in ANSWERED_BY_THE_EDITOR | AS_IN_LSP:
                assert "cancelled" in method.result.__struct_encode_fields__, method.name


def test_every_kind_of_error_is_raised_somewhere_or_said_to_be_reserved() -> None:
    tables = {"_method.py", "errors.py"}
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "pi_rpc").rglob("*.py")
        if not (path.name.startswith("_rows_") or path.name in tables)
        or path.parent.name == "jsonrpc"
    )
    unraised = {kind for kind in ERRORS if f'"{kind}"' not in sources}
    reserved = {kind for kind, error in ERRORS.items() if error.description.startswith("Reserved")}
    assert unraised == reserved


def test_codes_of_errors_are_unique() -> None:
    assert len({error.code for error in ERRORS.values()}) == len(ERRORS)


def test_every_type_and_field_of_the_schema_is_described(schema: dict[str, Any]) -> None:
    bare = [
        f"{name}.{field}"
        for name, definition in schema["$defs"].items()
        for field, value in definition.get("properties", {}).items()
        if not value.get("description")
    ]
    bare += [name for name, definition in schema["$defs"].items() if not definition["description"]]
    assert bare == []


def test_every_definition_is_a_valid_json_schema_and_every_reference_leads_somewhere(
    schema: dict[str, Any],
) -> None:
    for definition in schema["$defs"].values():
        jsonschema.Draft202012Validator.check_schema(definition)
    references = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert references <= set(schema["$defs"])


def test_descriptions_are_markdown_for_client_authors(schema: dict[str, Any]) -> None:
    text = json.dumps(schema)
    assert "``" not in text
    assert "pi_rpc." not in text
    assert "harness" not in text


def test_schema_and_document_are_up_to_date() -> None:
    assert update_files(ROOT, check=True) == [], "run `pi-rpc schema --write`"


def test_drift_is_reported_and_writing_mends_it(tmp_path: Path) -> None:
    (tmp_path / "schema").mkdir()
    shutil.copy(ROOT / "protocol.md", tmp_path)
    path = tmp_path / "protocol.md"
    path.write_text(DOCUMENT.replace("| -32700 |", "| -1 |"), encoding="utf-8")
    both = [*GENERATED_FILES, "protocol.md"]
    assert update_files(tmp_path, check=True) == both
    assert update_files(tmp_path, check=False) == both
    assert update_files(tmp_path, check=True) == []
    assert path.read_text(encoding="utf-8") == DOCUMENT


def test_a_document_without_a_marker_is_refused(tmp_path: Path) -> None:
    text = DOCUMENT.replace("<!-- generated:errors -->", "")
    (tmp_path / "protocol.md").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="generated:errors"):
        update_files(tmp_path, check=True)


def test_a_file_in_another_language_joins_with_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "protocol.md", tmp_path)
    monkeypatch.setitem(GENERATED_FILES, "clients/x/protocol.ts", "typescript")
    assert "clients/x/protocol.ts" in update_files(tmp_path, check=False)
    written = tmp_path / "clients" / "x" / "protocol.ts"
    assert written.read_text(encoding="utf-8") == render("typescript")
    written.write_text("// by hand\n", encoding="utf-8")
    assert update_files(tmp_path, check=True) == ["clients/x/protocol.ts"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_printed_by_the_command(kind: str) -> None:
    argv = [sys.executable, "-m", "pi_rpc", "schema", f"--{kind}"]
    done = subprocess.run(argv, capture_output=True, cwd=ROOT, timeout=DEADLINE_S, check=True)
    assert done.stdout.decode("utf-8") == render(kind)


def test_both_renderings_hold_every_method_event_and_error() -> None:
    as_json, as_markdown = json.loads(render("json")), render("markdown")
    assert set(as_json["methods"]) == set(METHODS)
    assert set(as_json["events"]) == set(EVENTS)
    assert set(as_json["errors"]) == set(ERRORS)
    for name in [*METHODS, *EVENTS, *ERRORS]:
        assert f"`{name}`" in as_markdown


def test_links_within_the_document_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", DOCUMENT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", DOCUMENT)) <= anchors
    assert len(anchors) == len(headings)
