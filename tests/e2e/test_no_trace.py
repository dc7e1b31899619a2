"""A call that was refused has not happened: nothing on the disk tells of it."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.editor import Step, call
from tests.e2e.forbidden import Ground, run

EXTENSION = """
from pathlib import Path

from pi_rpc.agent.tool import AgentTool, ToolResult

def setup(api):
    def plant(tool_call_id, params, signal, on_update):
        Path(params["path"]).write_text("planted")
        return ToolResult.of_text("done")

    for kind in ("edit", "execute", "other"):
        api.tool(AgentTool(name=f"plant_{kind}", label="Plant", description="Plants.", kind=kind,
                           execute=plant, parameters={"type": "object"}))
"""
EVERY = [
    *("read", "bash", "edit", "write", "grep", "find", "ls"),
    *("plant_edit", "plant_execute", "plant_other"),
]


def calls(ground: Ground) -> dict[str, list[Step]]:
    """Of every tool, calls that are refused in the modes ask, edits and readonly alike."""
    out = str(ground.outside)
    edit = [{"oldText": "private", "newText": "public"}]
    return {
        "read": [call("read", path=f"{out}/notes.txt"), call("read", path="note.txt")],
        "grep": [call("grep", pattern="private", path=out)],
        "find": [call("find", pattern="*", path=out)],
        "ls": [call("ls", path=out)],
        "edit": [call("edit", path=path, edits=edit) for path in (f"{out}/notes.txt", "note.txt")],
        "write": [
            call("write", path=f"{out}/new/deep/file.txt", content="x"),
            call("write", path="link/new/file.txt", content="x"),
            call("write", path=".git/hooks/new/pre-commit", content="x"),
            call("write", path=f"{out}/notes.txt", content="x"),
        ],
        "bash": [
            call("bash", command="touch made"),
            call("bash", command=f"touch {out}/made; " + "# " + "x" * 300_000),
        ],
        **{
            name: [call(name, path=str(ground.project / "planted"))]
            for name in EVERY
            if name.startswith("plant")
        },
    }


INSIDE = [
    call("write", path="new/deep/file.txt", content="x"),
    call("write", path="main.py", content="x"),
    call("edit", path="main.py", edits=[{"oldText": "hello", "newText": "bye"}]),
]
"""Free in the mode edits."""


@pytest.mark.parametrize("askable", [True, False], ids=["rejected", "unasked"])
@pytest.mark.parametrize("mode", ["ask", "edits", "readonly"])
def test_a_refused_call_of_any_tool_leaves_no_trace(
    tmp_path: Path, mode: str, askable: bool
) -> None:
    ground = Ground(tmp_path)
    (ground.home / "extensions-py").mkdir()
    (ground.home / "extensions-py" / "plants.py").write_text(EXTENSION)
    wanted = calls(ground)
    assert set(wanted) == set(EVERY)
    made = [each for steps in wanted.values() for each in steps]
    made += INSIDE if mode != "edits" else []
    options: dict[str, Any] = {"permissionMode": mode, "tools": EVERY}
    with run(ground, made, askable=askable, **options) as (told, before):
        assert [each for each in told.ends if not each["isError"]] == []
        assert len(told.ends) == len(made)
        assert ground.picture() == before


def test_a_rule_that_denies_leaves_no_trace_in_full_either(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.home / "settings.json").write_text(
        '{"piRpc": {"permissions": {"deny": ["bash", "edit", "read(~/**)", "read(/tmp/**)"]}}}'
    )
    made = [call("bash", command="touch made"), *INSIDE]
    with run(ground, made, askable=True, permissionMode="full") as (told, before):
        assert [each for each in told.ends if not each["isError"]] == []
        assert told.asked == []
        assert ground.picture() == before
