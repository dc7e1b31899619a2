"""``initialize`` takes what language clients send, and costs little."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lsprotocol import types as lsp
from lsprotocol.converters import get_converter

from pi_rpc.agent.tool import Position, Range
from pi_rpc.protocol.attachments import EditorDiagnostic
from pi_rpc.protocol.base import SessionNewParams, file_path
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.encode import encode
from pi_rpc.protocol.handshake import (
    EVENT_NAMES,
    METHOD_NAMES,
    ClientFeatures,
    InitializeParams,
    client_features,
    default_session_params,
    initialize_result,
    position_encoding,
    working_directory,
)

CONVERTER = get_converter()


def params_of(value: Any) -> InitializeParams:
    return decode_params(InitializeParams, json.dumps(value).encode())


def from_lsp(params: lsp.InitializeParams) -> InitializeParams:
    return params_of(CONVERTER.unstructure(params, lsp.InitializeParams))


def full_client() -> lsp.ClientCapabilities:
    return lsp.ClientCapabilities(
        general=lsp.GeneralClientCapabilities(
            position_encodings=[lsp.PositionEncodingKind.Utf8, lsp.PositionEncodingKind.Utf16],
            markdown=lsp.MarkdownClientCapabilities(parser="marked", version="1.1.0"),
        ),
        window=lsp.WindowClientCapabilities(
            work_done_progress=True, show_message=lsp.ShowMessageRequestClientCapabilities()
        ),
        workspace=lsp.WorkspaceClientCapabilities(
            apply_edit=True,
            workspace_edit=lsp.WorkspaceEditClientCapabilities(document_changes=True),
        ),
        text_document=lsp.TextDocumentClientCapabilities(
            synchronization=lsp.TextDocumentSyncClientCapabilities(did_save=True)
        ),
        experimental={"any": [1, None]},
    )


def test_a_language_client_is_taken_as_it_is() -> None:
    params = from_lsp(
        lsp.InitializeParams(
            capabilities=full_client(),
            process_id=42,
            client_info=lsp.ClientInfo(name="Visual Studio Code", version="1.99"),
            locale="en",
            root_path="/old",
            root_uri="file:///root",
            workspace_folders=[
                lsp.WorkspaceFolder(uri="untitled:1", name="u"),
                lsp.WorkspaceFolder(uri="file:///home/ada/my%20engine", name="engine"),
            ],
            trace=lsp.TraceValue.Off,
            initialization_options={"session": {"name": "n"}, "theirs": 1},
        )
    )
    assert params.process_id == 42
    assert position_encoding(params) == "utf-8"
    assert working_directory(params) == "/home/ada/my engine"
    assert default_session_params(params) == SessionNewParams(name="n")
    assert client_features(params).permission is False


def test_a_language_client_that_sends_nulls_everywhere_is_taken_too() -> None:
    value = {
        "processId": None,
        "clientInfo": None,
        "locale": None,
        "rootPath": None,
        "rootUri": None,
        "capabilities": {"general": None, "window": None, "textDocument": None, "events": None},
        "initializationOptions": None,
        "trace": None,
        "workspaceFolders": None,
    }
    params = params_of(value)
    assert working_directory(params) is None
    assert position_encoding(params) == "utf-16"
    assert client_features(params).events.min_interval_ms == 16


@pytest.mark.parametrize("value", [{}, [], [None], None, {"capabilities": []}])
def test_a_client_that_says_nothing_is_welcome(value: Any) -> None:
    assert params_of(value) == InitializeParams()


def test_our_wishes_are_read_beside_those_of_lsp_or_under_a_key_of_their_own() -> None:
    wishes = {"permission": True, "events": {"messageUpdate": "snapshot", "minIntervalMs": 0}}
    beside = client_features(params_of({"capabilities": {"textDocument": {}, **wishes}}))
    apart = client_features(params_of({"capabilities": {"pi": wishes, "events": {"full": True}}}))
    experimental = {"experimental": {"pi": wishes}}
    assert client_features(params_of({"capabilities": experimental})) == apart
    both = {**experimental, "pi": {}}
    assert client_features(params_of({"capabilities": both})) == ClientFeatures()
    for features in (beside, apart):
        assert features.permission is True
        assert features.events.message_update == "snapshot"
        assert features.events.min_interval_ms == 0
        assert features.events.full is False


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8", "utf-16"], "utf-8"),
        (["utf-7", "utf-32"], "utf-32"),
        (["utf-7"], "utf-16"),
        ([], "utf-16"),
        (None, "utf-16"),
    ],
)
def test_the_first_position_encoding_that_is_known_is_chosen(offered: Any, chosen: str) -> None:
    params = params_of({"capabilities": {"general": {"positionEncodings": offered}}})
    assert position_encoding(params) == chosen
    assert initialize_result(params, "1").capabilities.position_encoding == chosen


def test_the_working_directory_is_cwd_then_a_folder_then_the_root() -> None:
    folders = [{"uri": "ssh://host/x", "name": ""}, {"uri": "file:///folder", "name": ""}]
    value = {"cwd": "/cwd", "workspaceFolders": folders, "rootUri": "file:///root"}
    assert working_directory(params_of(value)) == "/cwd"
    assert working_directory(params_of({**value, "cwd": None})) == "/folder"
    assert working_directory(params_of({"rootUri": "file:///root"})) == "/root"
    assert working_directory(params_of({"rootUri": "ssh://host/root"})) is None


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b.py", "/a/b.py"),
        ("FILE:///a", "/a"),
        ("file:/a", "/a"),
        ("file://localhost/a", "/a"),
        ("file://server/share/a", "//server/share/a"),
        ("file:///a%20b%C3%A9%23", "/a bé#"),
        ("file:///100%", "/100%"),
        ("file:///a%zz", "/a%zz"),
        ("file:///a?query#fragment", "/a"),
        ("file:///c%3A/x", "c:/x" if sys.platform == "win32" else "/c:/x"),
        ("file:///a%4", "/a%4"),
        ("file:///a% 4", "/a% 4"),
        ("https://example.org/a", None),
        ("untitled:Untitled-1", None),
        ("", None),
    ],
)
def test_a_file_uri_names_a_path_and_no_other_does(uri: str, path: str | None) -> None:
    assert file_path(uri) == path


def test_wrong_options_for_the_default_session_are_refused_with_their_whole_path() -> None:
    params = params_of({"initializationOptions": {"session": {"cwd": 5}}})
    with pytest.raises(
        msgspec.ValidationError, match=r"at `\$\.initializationOptions\.session\.cwd`"
    ):
        default_session_params(params)


@pytest.mark.parametrize("options", [None, [], "x", 5, {}, {"session": None}, {"session": []}])
def test_initialization_options_of_another_server_are_ignored(options: Any) -> None:
    params = params_of({"initializationOptions": options})
    assert default_session_params(params) == SessionNewParams()


def test_the_answer_announces_our_version_and_what_there_is() -> None:
    answer = json.loads(encode(initialize_result(params_of({"protocolVersion": 9}), "0.1.0")))
    assert answer["protocolVersion"] == 1
    assert answer["serverInfo"] == {"name": "pi-rpc", "version": "0.1.0"}
    assert answer["capabilities"]["pi"]["methods"] == list(METHOD_NAMES)
    assert answer["capabilities"]["pi"]["events"] == list(EVENT_NAMES)
    assert set(answer["capabilities"]) == {"positionEncoding", "pi"}


def test_positions_and_ranges_are_those_of_lsp() -> None:
    theirs = lsp.Range(start=lsp.Position(line=1, character=2), end=lsp.Position(3, 4))
    text = json.dumps(CONVERTER.unstructure(theirs, lsp.Range))
    ours = msgspec.json.decode(text, type=Range)
    assert ours == Range(start=Position(line=1, character=2), end=Position(line=3, character=4))
    assert CONVERTER.structure(json.loads(encode(ours)), lsp.Range) == theirs


def test_diagnostics_are_those_of_lsp() -> None:
    theirs = lsp.Diagnostic(
        range=lsp.Range(lsp.Position(0, 0), lsp.Position(0, 1)),
        message="unused",
        severity=lsp.DiagnosticSeverity.Warning,
        code="F401",
        code_description=lsp.CodeDescription(href="https://example.org"),
        source="ruff",
        tags=[lsp.DiagnosticTag.Unnecessary],
        data={"fix": 1},
    )
    text = json.dumps(CONVERTER.unstructure(theirs, lsp.Diagnostic))
    ours = msgspec.json.decode(text, type=EditorDiagnostic)
    back = CONVERTER.structure(json.loads(encode(ours)), lsp.Diagnostic)
    assert CONVERTER.unstructure(back, lsp.Diagnostic) == json.loads(text)


def test_answering_initialize_imports_nothing_heavy() -> None:
    program = (
        "import sys, msgspec; before = set(sys.modules);"
        "import pi_rpc.protocol.errors, pi_rpc.protocol.handshake as h;"
        "h.initialize_result(h.decode_params(h.InitializeParams, b'{\"cwd\":null}'), '1');"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert set(done.stdout.split()) == {
        "pi_rpc",
        "pi_rpc.protocol",
        "pi_rpc.protocol.base",
        "pi_rpc.protocol.decode",
        "pi_rpc.protocol.errors",
        "pi_rpc.protocol.handshake",
        "pi_rpc.wire",
        "pi_rpc.wire_errors",
    }
