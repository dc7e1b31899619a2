"""The language server as pytest-lsp's client meets it, with what real editors say that they can do.

That client is pygls at the other end: it checks what is answered against the capabilities, and
reads it by lsprotocol's types, which refuse what is not the protocol's.
"""

import ast
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from lsprotocol import types
from lsprotocol.converters import get_converter
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

from tests.lsp.client import DEADLINE_S, say
from tests.lsp.test_editing import DIAGNOSTIC, FIXED, FIXING, SOURCE

LONG = "It doubles.\n\nAnd it does so by adding."


class Buffers:
    """What the client has open."""

    def __init__(self, client: LanguageClient, path: Path) -> None:
        self.uri = path.as_uri()
        self.text = SOURCE
        self.edited = anyio.Event()
        document = types.TextDocumentItem(self.uri, "python", 1, SOURCE)
        client.text_document_did_open(types.DidOpenTextDocumentParams(document))

        @client.feature(types.WORKSPACE_APPLY_EDIT)
        def apply(
            client: LanguageClient, params: types.ApplyWorkspaceEditParams
        ) -> types.ApplyWorkspaceEditResult:
            edits = self.edits_of(params.edit)
            (edit,) = edits
            assert isinstance(edit, types.TextEdit)
            line = edit.range.start.line
            lines = self.text.split("\n")
            start, end = edit.range.start.character, edit.range.end.character
            lines[line] = lines[line][:start] + edit.new_text + lines[line][end:]
            self.text = "\n".join(lines)
            client.text_document_did_change(
                types.DidChangeTextDocumentParams(
                    types.VersionedTextDocumentIdentifier(2, self.uri),
                    [types.TextDocumentContentChangePartial(edit.range, edit.new_text)],
                )
            )
            self.edited.set()
            return types.ApplyWorkspaceEditResult(applied=True)

    def edits_of(self, edit: types.WorkspaceEdit) -> Sequence[object]:
        """Versioned where the editor says that it knows of versions."""
        if edit.document_changes is None:
            assert edit.changes is not None
            return edit.changes[self.uri]
        (change,) = edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.version == 1
        return change.edits


@pytest.mark.anyio
@pytest.mark.parametrize("editor", ["neovim", "visual_studio_code"])
async def test_a_file_is_opened_the_action_seen_and_run_and_the_edit_lands(
    editor: str, tmp_path: Path
) -> None:
    replies = [*FIXING, [say(LONG)]]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": each} for each in replies]}))
    (tmp_path / "app.py").write_text(SOURCE)
    environment = {
        **os.environ,
        "PI_CODING_AGENT_DIR": str(tmp_path / "agent"),
        "PI_RPC_SCRIPT": str(script),
    }
    client = make_test_lsp_client()
    command = (sys.executable, "-m", "pi_rpc", "--lsp", "--permission-mode", "full")
    await client.start_io(*command, env=environment, cwd=str(tmp_path))
    try:
        with anyio.fail_after(DEADLINE_S):
            await initialized_and_used(client, editor, tmp_path)
            await client.shutdown_session()
    finally:
        process = client._server
        assert process is not None
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await client.stop()


async def initialized_and_used(client: LanguageClient, editor: str, folder: Path) -> None:
    result = await client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities(editor),
            process_id=os.getpid(),
            workspace_folders=[types.WorkspaceFolder(folder.as_uri(), "here")],
        )
    )
    encoding = "utf-8" if editor == "neovim" else "utf-16"
    wanted = client.capabilities.general.position_encodings if client.capabilities else None
    assert result.capabilities.position_encoding == (wanted[0] if wanted else encoding)
    buffers = Buffers(client, folder / "app.py")
    problem = types.Diagnostic(
        range=types.Range(types.Position(1, 11), types.Position(1, 12)),
        message=str(DIAGNOSTIC["message"]),
        severity=types.DiagnosticSeverity.Error,
    )
    actions = await client.text_document_code_action_async(
        types.CodeActionParams(
            types.TextDocumentIdentifier(buffers.uri),
            problem.range,
            types.CodeActionContext([problem]),
        )
    )
    assert actions is not None
    fix, explain, _ = map(code_action, actions)
    assert fix.title == "Fix with pi"
    await run(client, fix)
    await buffers.edited.wait()
    assert buffers.text == FIXED
    await run(client, explain)
    while not (client.shown_documents or len(client.messages) > 1):
        await anyio.sleep(0.02)  # it tells nobody when something comes
    shown = [each.uri for each in client.shown_documents]
    shown += [each.message.rpartition(": ")[2] for each in client.messages[1:]]
    path = Path(shown[0].removeprefix("file://"))
    assert LONG in path.read_text()
    for values in client.progress_reports.values():
        kinds = [type(each) for each in values]
        assert kinds[0] is types.WorkDoneProgressBegin


def code_action(found: types.Command | types.CodeAction) -> types.CodeAction:
    """lsprotocol takes every code action with a command for a command with a strange name."""
    if isinstance(found, types.CodeAction):
        return found
    action = {"title": found.title, "command": ast.literal_eval(found.command)}
    return get_converter().structure(action, types.CodeAction)


async def run(client: LanguageClient, action: types.CodeAction) -> None:
    assert action.command is not None
    await client.workspace_execute_command_async(
        types.ExecuteCommandParams(action.command.command, action.command.arguments)
    )
