"""What a person does with pi in an editor that speaks LSP and nothing else."""

from pathlib import Path

from tests.lsp.client import FULL, call, lsp, say

DIAGNOSTIC = {
    "range": {"start": {"line": 1, "character": 11}, "end": {"line": 1, "character": 12}},
    "message": "undefined name 'y'",
    "severity": 1,
    "source": "pyflakes",
}
SOURCE = "def double(x):\n    return y\n"


def fixing(project: Path) -> list[list[dict[str, object]]]:
    edits = [{"oldText": "return y", "newText": "return 2 * x"}]
    return [[call("edit", path=str(project / "app.py"), edits=edits)], [say("It was a typo.")]]


def test_fix_with_pi_lands_in_an_unsaved_buffer(tmp_path: Path) -> None:
    with lsp(tmp_path, fixing(tmp_path / "project"), *FULL) as editor:
        uri = editor.open("app.py", SOURCE)
        editor.act("Fix with pi", uri, 1, diagnostics=[DIAGNOSTIC])
        assert editor.until_progress("end")["value"]["message"] == "done"
        assert editor.buffers[uri] == (2, "def double(x):\n    return 2 * x\n")
        assert (editor.project / "app.py").read_text() == SOURCE
        assert editor.called("window/showMessage")["message"] == "It was a typo."
        (edit,) = editor.all("workspace/applyEdit")
        (change,) = edit["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": uri, "version": 1}
        assert editor.end() == 0
