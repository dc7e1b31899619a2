"""What pygls by itself gets wrong on the wire, and what its editors send that nobody expects."""

import json
from pathlib import Path
from typing import Any

import psutil

from tests.deadlines import DEADLINE_S
from tests.lsp.client import FULL, call, command, hold, lsp, say
from tests.server.test_slow_clients import wait_until, wait_until_it_rests

Frame = dict[str, Any]


def test_a_header_in_lower_case_is_a_header(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        frame = {"jsonrpc": "2.0", "id": "low", "method": "workspace/none"}
        editor.send_raw(json.dumps(frame).encode(), header=b"content-length")
        assert editor.until(lambda each: each.get("id") == "low")["error"]["code"] == -32601
        assert editor.command("pi.prompt", {"text": "go", "wait": True})["text"] == "ok"


def test_a_body_that_is_no_json_is_answered_and_does_no_harm(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        for body in (b"{", b"\xff\xfe", b"", b"[" * 100_000):
            editor.send_raw(body)
        assert editor.command("pi.prompt", {"text": "go", "wait": True})["text"] == "ok"
        codes = [each["error"]["code"] for each in editor.frames if "error" in each]
        assert codes
        assert set(codes) <= {-32700, -32600}
        assert codes[0] == -32700


def test_a_batch_is_answered(tmp_path: Path) -> None:
    with lsp(tmp_path) as editor:
        editor.send_raw(b'[{"jsonrpc":"2.0","id":1,"method":"shutdown"}]')
        refused = editor.until(lambda each: "error" in each)
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)


def test_params_may_hold_a_key_called_jsonrpc_and_any_other(tmp_path: Path) -> None:
    with lsp(tmp_path, [[say("ok")]]) as editor:
        odd = {"jsonrpc": "2.0", "class": 1, "a-b": 2, "type_name": "x", "id": 3, "method": "y"}
        asked = {"text": "go", "wait": True, "more": odd, "uri": None, "jsonrpc": "2.0"}
        assert editor.command("pi.prompt", asked)["text"] == "ok"


def test_a_text_about_json_rpc_is_kept_as_it_is(tmp_path: Path) -> None:
    text = '{"jsonrpc": "2.0", "id": 1, "method": "x"}\n'
    with lsp(tmp_path, [[call("read", path="a.json")], [say("ok")]], *FULL) as editor:
        editor.open("a.json", text, on_disk="")
        editor.command("pi.prompt", {"text": "go", "wait": True})
    (path,) = (tmp_path / "sessions").rglob("*.jsonl")
    assert json.dumps(text)[1:-2] in path.read_text()


def test_nulls_and_unknown_fields_do_no_harm(tmp_path: Path) -> None:
    with lsp(tmp_path) as editor:
        uri = editor.open("app.py", "x\n")
        part = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
        params = {
            "textDocument": {"uri": uri, "version": None, "more": None},
            "range": {**part, "more": 1},
            "context": {"diagnostics": [], "only": None, "triggerKind": None, "more": {}},
            "workDoneToken": None,
            "partialResultToken": None,
        }
        assert len(editor.ask("textDocument/codeAction", params)) == 3


def test_what_is_said_before_initialize_and_after_shutdown_is_refused(tmp_path: Path) -> None:
    with lsp(tmp_path) as editor:
        again = editor.answer(editor.begin("initialize", {"capabilities": {}}))
        assert again["error"]["code"] == -32600
        editor.tell("$/whatever", {})
        editor.tell("textDocument/didOpen", {"textDocument": 3})
        editor.tell("textDocument/didChange", [])
        assert editor.ask("shutdown") is None
        late = editor.answer(editor.begin("textDocument/hover", {}))
        assert late["error"]["code"] == -32600
        editor.tell("exit")
        assert editor.process.wait(DEADLINE_S) == 0


def test_a_client_that_does_not_read_can_still_stop_a_run(tmp_path: Path) -> None:
    flood = {"repeatText": "ab " * 400, "count": 20_000}
    options = {"agentEvents": True}
    with lsp(tmp_path, [[flood, hold()]], options=options) as editor:
        editor.begin("workspace/executeCommand", command("pi.prompt", {"text": "go"}))
        # Nothing is read from here on; the pipe fills, the run waits, and the server still hears.
        wait_until(lambda: bool(list((tmp_path / "sessions").rglob("*.jsonl"))))
        wait_until_it_rests(psutil.Process(editor.process.pid))
        editor.begin("workspace/executeCommand", command("pi.stop"))

        def is_stored() -> bool:
            (path,) = (tmp_path / "sessions").rglob("*.jsonl")
            return '"stopReason":"aborted"' in path.read_text().replace(": ", ":")

        wait_until(is_stored)
        (path,) = (tmp_path / "sessions").rglob("*.jsonl")
        assert path.stat().st_size < 8 * 1024 * 1024
        assert editor.end() == 0
        ends = [
            each for each in editor.all("agent/event") if each["event"]["type"] == "agent_settled"
        ]
        assert len(ends) == 1
