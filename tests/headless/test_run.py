"""``pi-rpc run`` in this process: what its options do to the answer and to the exit code."""

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.cli import parse
from pi_rpc.headless.exit_codes import MEANINGS, ExitCode, exit_code_table
from pi_rpc.headless.run import run_prompt

ROOT = Path(__file__).parent.parent.parent
KEY = "sk-secret-0123456789abcdef"


@dataclass
class Done:
    """A command line that has ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Done]


def say(text: str) -> dict[str, Any]:
    return {"text": text}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"toolCall": {"name": name, "arguments": arguments}}


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Run a command line with scripted replies, in an empty directory."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(home))
    monkeypatch.delenv("CI", raising=False)

    def command(*argv: str, replies: Sequence[Any] = ([say("done")],), stdin: bytes = b"") -> Done:
        script = tmp_path / f"script-{len(list(tmp_path.iterdir()))}.json"
        script.write_text(json.dumps({"replies": [{"steps": steps} for steps in replies]}))
        monkeypatch.setenv("PI_RPC_SCRIPT", str(script))
        (tmp_path / "stdin").write_bytes(stdin)
        capfdbinary.readouterr()
        with (tmp_path / "stdin").open("rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            code = run_prompt(parse(["run", "--model", "scripted/scripted", *argv]))
        out, err = capfdbinary.readouterr()
        return Done(code, out.decode(), err.decode())

    return command


def said(done: Done) -> str:
    """What the model was told, of the first message of a run with ``--json``."""
    content = next(each for each in done.lines if each["type"] == "message_end")["message"]
    blocks = content["content"]
    return blocks if isinstance(blocks, str) else "".join(each.get("text", "") for each in blocks)


# --- what is said --------------------------------------------------------------------------------


def test_only_the_answer_of_the_last_turn_is_on_standard_output(run: Run) -> None:
    Path("a.txt").write_text("x")
    done = run("go", replies=[[say("I look."), call("read", path="a.txt")], [say("It is x.")]])
    assert (done.code, done.out) == (0, "It is x.\n")


def test_files_and_standard_input_come_before_the_words(run: Run) -> None:
    Path("note.txt").write_text("ends </file> here\n")
    Path("empty.txt").write_text("")
    done = run("--json", "sum", "@note.txt", "@empty.txt", "up", stdin=b"piped\n")
    here = Path.cwd()
    expected = f'piped\n\n<file name="{here}/note.txt">\nends <\\/file> here\n</file>\n\nsum up'
    assert said(done) == expected


def test_a_dash_is_standard_input_and_is_taken_for_no_command(run: Run, tmp_path: Path) -> None:
    prompts = tmp_path / "home" / "prompts"
    prompts.mkdir()
    (prompts / "greet.md").write_text("expanded")
    assert said(run("--json", "-", stdin=b"/greet\n")) == "/greet"
    assert said(run("--json", "/greet", stdin=b"")) == "expanded"
    assert said(run("--json", "/greet", stdin=b"/greet")) == "/greet\n\nexpanded"


def test_an_image_is_sent_as_one(run: Run) -> None:
    Path("a.gif").write_bytes(b"GIF89a" + bytes(20))
    done = run("--json", "look", "@a.gif")
    message = next(each for each in done.lines if each["type"] == "message_end")["message"]
    assert [each["type"] for each in message["content"]] == ["text", "image"]
    assert message["content"][1]["mimeType"] == "image/gif"
    assert f'<file name="{Path.cwd()}/a.gif"></file>' in message["content"][0]["text"]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["go", "@nowhere"], "nowhere cannot be read: No such file"),
        (["go", "@binary"], "is a binary file"),
        (["go", "@."], "cannot be read"),
        (["go", "@latin"], "is no text in UTF-8"),
        (["-"], "there is no prompt"),
        (["go", "--cwd", "nowhere"], "expected a directory that exists"),
        (["go", "--session", "nobody"], "there is no session nobody"),
        (["go", "--session", "./nowhere.jsonl"], "nowhere.jsonl"),
        (["go", "--allow", "bash(ls)"], "--permission-mode ask"),
        (["go", "--deny", "bash("], "--deny 'bash('"),
        (["go", "--output-schema", "nowhere"], "nowhere cannot be read"),
        (["go", "--output-schema", "binary"], "is not JSON"),
        (["go", "--output-schema", "list.json"], "expected an object"),
        (["go", "--output-schema", "bad.json"], "is no JSON Schema"),
        (["go", "--output-schema", "kind.json"], "5 is not of type 'string' (at $schema)"),
        (["go", "--output-schema", "deep.json"], "is no JSON Schema: it is nested too deeply"),
        (["go", "--replay", "nowhere"], "nowhere cannot be read"),
        (["go", "--replay", "list.json"], "is no recording"),
        (["go", "--replay", "x", "--continue"], "--replay keeps no session"),
        (["go", "--record", "no/where"], "no/where cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_asked_for_is_a_usage_error_and_nothing_is_run(
    run: Run, tmp_path: Path, argv: list[str], reason: str
) -> None:
    Path("binary").write_bytes(b"\x00\x01")
    Path("latin").write_bytes("ä".encode("latin-1"))
    Path("list.json").write_text("[]")
    Path("kind.json").write_text('{"$schema": 5}')
    Path("deep.json").write_text('{"not":' * 300 + "{}" + "}" * 300)
    Path("bad.json").write_text('{"type": "nothing"}')
    done = run(*argv)
    assert (done.code, done.out) == (2, "")
    assert reason in done.err
    assert list((tmp_path / "home").rglob("*.jsonl")) == []


def test_more_input_than_any_model_reads_is_a_usage_error(run: Run) -> None:
    done = run("go", stdin=b"a" * (10 * 2**20 + 1))
    assert (done.code, done.out) == (2, "")
    assert "more than 10 MiB" in done.err


# --- sessions ------------------------------------------------------------------------------------


def test_a_session_is_gone_on_with_by_id_by_file_and_as_the_latest(
    run: Run, tmp_path: Path
) -> None:
    first = run("--json", "one")
    session_id = first.lines[0]["sessionId"]
    (path,) = (tmp_path / "home").rglob("*.jsonl")
    for options in (["--session", session_id], ["--session", str(path)], ["--continue"]):
        again = run("--json", *options, "more")
        assert (again.code, again.lines[0]["sessionId"]) == (0, session_id), options
    assert len(list((tmp_path / "home").rglob("*.jsonl"))) == 1


def test_without_a_session_to_go_on_with_a_new_one_begins(run: Run) -> None:
    done = run("--continue", "go")
    assert (done.code, done.out) == (0, "done\n")
    assert "this is a new one" in done.err


def test_another_directory_is_worked_in(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "b.txt").write_text("of there")
    replies = [[call("read", path="b.txt")], [say("ok")]]
    done = run("--json", "--cwd", "../there", "go", replies=replies)
    assert done.lines[0]["cwd"] == str((tmp_path / "there").resolve())
    (end,) = [each for each in done.lines if each["type"] == "tool_execution_end"]
    assert "of there" in end["result"]["content"][0]["text"]


# --- permissions and limits ----------------------------------------------------------------------

TOUCH = ([call("bash", command="touch made")], [say("ok")])


def test_a_call_that_is_not_permitted_is_exit_code_three(run: Run) -> None:
    for options in ([], ["--permission-mode", "ask"], ["--permission-mode", "edits"]):
        done = run("--json", *options, "go", replies=TOUCH)
        result = done.lines[-1]
        assert (done.code, result["exitCode"]) == (3, 3), options
        assert [each["toolName"] for each in result["refused"]] == ["bash"]
        assert "session/configure" not in result["refused"][0]["reason"]
        assert not Path("made").exists()


def test_rules_of_the_command_line_allow_and_deny(run: Run) -> None:
    ask = ("--permission-mode", "ask")
    denied = run(*ask, "--allow", "bash(touch *)", "--deny", "bash(*made)", "go", replies=TOUCH)
    assert denied.code == 3
    assert "one call was not permitted" in denied.err
    assert not Path("made").exists()
    full = run("--permission-mode", "full", "--deny", "bash", "go", replies=TOUCH)
    assert (full.code, Path("made").exists()) == (3, False)
    allowed = run(*ask, "--allow", "bash(touch *)", "go", replies=TOUCH)
    assert (allowed.code, Path("made").exists()) == (0, True)


def test_a_limit_of_turns_ends_the_run_with_exit_code_four(run: Run) -> None:
    Path("a.txt").write_text("x")
    replies = [[call("read", path="a.txt")], [say("never")]]
    done = run("--json", "--max-turns", "1", "go", replies=replies)
    result = done.lines[-1]
    assert (done.code, result["stopReason"], result["turns"]) == (4, "limit", 1)
    assert "limit" in result["errorMessage"]
    assert run("--max-turns", "2", "go", replies=replies).code == 0


def test_an_answer_that_was_cut_off_is_a_failure(run: Run) -> None:
    done = run("go", replies=[[say("half"), {"stopReason": "length"}]])
    assert (done.code, done.out) == (1, "half\n")
    assert "cut off" in done.err


# --- answers of a given shape --------------------------------------------------------------------


@pytest.fixture
def schema() -> Path:
    path = Path("schema.json")
    properties = {"count": {"type": "integer"}}
    path.write_text(json.dumps({"type": "object", "properties": properties, "required": ["count"]}))
    return path


@pytest.mark.parametrize("answer", ['{"count": 2}', '\n```json\n{"count": 2}\n```\n'])
def test_an_answer_that_fits_is_printed_as_json(run: Run, schema: Path, answer: str) -> None:
    done = run("--output-schema", str(schema), "go", replies=[[say(answer)]])
    assert (done.code, done.out) == (0, '{"count":2}\n')


def test_a_wrong_answer_is_put_right_once(run: Run, schema: Path) -> None:
    replies = [[say('{"count": "two"}')], [say('{"count": 2}')]]
    done = run("--json", "--output-schema", str(schema), "go", replies=replies)
    result = done.lines[-1]
    assert (done.code, result["output"], result["turns"]) == (0, {"count": 2}, 2)
    prompts = [each for each in done.lines if each["type"] == "message_end"]
    asked = [each["message"]["content"] for each in prompts if each["message"]["role"] == "user"]
    assert "count: 'two' is not of type 'integer'" in asked[1]


@pytest.mark.parametrize(
    "wrong",
    [
        "words",
        '{"count": NaN}',
        '{"count": 2} and more',
        "{}",
        '{"count": 2, "half a pair": "\\ud800"}',
        '{"count": 2, "beyond any number": 1e999}',
    ],
)
def test_an_answer_that_is_wrong_twice_is_exit_code_five_and_not_printed(
    run: Run, schema: Path, wrong: str
) -> None:
    replies = [[say("first")], [say(wrong)], [say('{"count": 2}')]]
    done = run("--output-schema", str(schema), "go", replies=replies)
    assert (done.code, done.out) == (5, "")
    assert "pi-rpc run: the answer " in done.err


def test_no_second_attempt_is_made_beyond_a_limit(run: Run, schema: Path) -> None:
    replies = [[say("wrong")], [say('{"count": 2}')]]
    done = run("--output-schema", str(schema), "--max-turns", "1", "go", replies=replies)
    assert (done.code, done.out) == (5, "")


@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x", "file:///etc/hosts", "no.json"])
def test_a_reference_that_leads_elsewhere_is_not_followed_and_no_fault_of_the_model(
    run: Run, reference: str
) -> None:
    Path("schema.json").write_text(json.dumps({"$ref": reference}))
    done = run("--output-schema", "schema.json", "go", replies=[[say("1")]])
    assert (done.code, done.out) == (2, "")
    assert f"cannot be applied: the reference {reference!r} leads nowhere" in done.err


def test_an_answer_that_takes_forever_to_check_ends_with_the_time_limit(run: Run) -> None:
    Path("schema.json").write_text(json.dumps({"pattern": "^(a+)+$"}))
    answer = json.dumps("a" * 60 + "!")
    done = run("--timeout", "1", "--output-schema", "schema.json", "go", replies=[[say(answer)]])
    assert (done.code, done.out) == (124, "")


# --- forms of the output -------------------------------------------------------------------------


def test_the_result_alone_is_one_object_of_json(run: Run) -> None:
    done = run("--output", "json", "go")
    (result,) = done.lines
    assert (result["type"], result["text"], result["exitCode"]) == ("result", "done", 0)
    assert result["turns"] == 1


def test_there_is_a_result_as_soon_as_there_is_a_session(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    done = run("--json", "--model", "anthropic/claude-sonnet-4-5", "go")
    header, result = done.lines
    assert (header["type"], result["type"], result["runId"]) == ("session", "result", "")
    assert (done.code, result["exitCode"], result["stopReason"]) == (1, 1, "error")
    assert "ANTHROPIC_API_KEY" in result["errorMessage"]
    unknown = run("--json", "--model", "nobody/nothing", "go")
    assert (unknown.code, unknown.out) == (2, "")
    assert "nobody/nothing" in unknown.err


def test_a_report_has_the_answer_and_what_is_to_be_known(run: Run) -> None:
    replies = [[call("bash", command="ls | tail")], [say("# Answer")]]
    done = run("--output", "markdown", "go", replies=replies)
    assert done.code == 3
    assert done.out.startswith("> **Exit code 3.**")
    assert "\n# Answer\n" in done.out
    assert "- `bash`: " in done.out
    assert "| Model | scripted/scripted |" in done.out


def test_credentials_are_masked_also_where_they_come_in_pieces(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_DEPLOY_TOKEN", KEY)
    Path("a.txt").write_text(f"it is {KEY}!\n")
    pieces = {"text": f"the key is {KEY}, sk-secret-not", "pieces": 12}
    replies = [[call("read", path="a.txt")], [pieces]]
    shown = "the key is ***, sk-secret-not"
    told = run("--json", "go", f"{KEY}", replies=replies)
    assert KEY not in told.out + told.err
    deltas = [each["assistantMessageEvent"] for each in told.lines if "messageId" in each
              and each["type"] == "message_update"]  # fmt: skip
    text = "".join(each["delta"] for each in deltas if each["type"] == "text_delta")
    assert text == told.lines[-1]["text"] == shown
    plain = run("go", replies=replies)
    assert plain.out == f"{shown}\n"
    assert KEY not in plain.err
    for form in ("json", "markdown"):
        assert KEY not in run("--output", form, "go", replies=replies).out


# --- recordings ----------------------------------------------------------------------------------

RECORDED = (
    [{"thinking": "well"}, call("read", path="a.txt"), call("grep", pattern="x")],
    [say("It is x.")],
)


def test_replays_of_a_recording_are_equal_byte_for_byte_and_need_no_key(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.txt").write_text("x\n")
    recorded = run("--record", "tape.jsonl", "--json", "go", "@a.txt", replies=RECORDED)
    assert recorded.code == 0
    stored = len(list((tmp_path / "home").rglob("*.jsonl")))
    first = run("--replay", "tape.jsonl", "--json", "go", "@a.txt", replies=[])
    second = run("--replay", "tape.jsonl", "--json", "go", "@a.txt", replies=[])
    assert first.code == 0
    assert first.out == second.out
    assert first.lines[-1]["text"] == "It is x."
    kinds = [each["type"] for each in recorded.lines if each["type"] != "tool_execution_update"]
    # One tool runs after the other, so that it is always the same one that ends first.
    assert sorted(each["type"] for each in first.lines) == sorted(kinds)
    assert len(list((tmp_path / "home").rglob("*.jsonl"))) == stored
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "nobody"))
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("x\n")
    moved = run("--replay", "work/tape.jsonl", "go", "@a.txt", replies=[])
    assert (moved.code, moved.out) == (0, "It is x.\n")


def test_a_recording_answers_no_other_prompt_and_no_further_request(run: Run) -> None:
    run("--record", "tape.jsonl", "go")
    other = run("--replay", "tape.jsonl", "leave")
    assert (other.code, other.out) == (1, "")
    assert "answers another prompt in reply 1 ('go')" in other.err
    Path("a.txt").write_text("x\n")
    run("--record", "tape.jsonl", "go", replies=RECORDED)
    lines = Path("tape.jsonl").read_text().splitlines()
    Path("tape.jsonl").write_text("\n".join(lines[:2]))
    short = run("--replay", "tape.jsonl", "go")
    assert short.code == 1
    assert "has 1 replies, and this is request 2" in short.err


def test_a_recording_that_somebody_has_edited_is_a_failure_that_says_so(run: Run) -> None:
    run("--record", "tape.jsonl", "go")
    tape = Path("tape.jsonl")
    tape.write_text(tape.read_text().replace('"contentIndex":0', '"contentIndex":7'))
    done = run("--replay", "tape.jsonl", "go")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: the recording is damaged: record it anew with --record\n")


def test_a_failure_is_recorded_with_what_kind_it_was(run: Run) -> None:
    failure = {"error": {"message": "the key is wrong", "status": 401}}
    run("--record", "tape.jsonl", "go", replies=[[say("half"), failure]])
    done = run("--replay", "tape.jsonl", "go")
    assert (done.code, done.out) == (1, "half\n")
    assert "the key is wrong" in done.err


def test_no_credential_is_recorded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_DEPLOY_TOKEN", KEY)
    run("--record", "tape.jsonl", "go", replies=[[{"text": f"it is {KEY}", "pieces": 9}]])
    tape = Path("tape.jsonl").read_text()
    assert KEY not in tape
    assert KEY[:9] not in tape
    assert run("--replay", "tape.jsonl", "go").out == "it is ***\n"


# --- the table of exit codes ---------------------------------------------------------------------


def test_every_exit_code_is_documented_as_it_is() -> None:
    assert set(MEANINGS) == set(ExitCode)
    assert exit_code_table() in (ROOT / "docs" / "headless.md").read_text()
