"""A trace as a timeline: what belongs together is paired, what is missing is said."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pi_rpc.cli import parse
from pi_rpc.headless.trace import run_trace

Line = dict[str, Any]


def line(at: float, direction: str, **frame: Any) -> Line:
    return {
        "time": f"2026-01-31T12:00:{at:09.6f}Z",
        "direction": direction,
        "bytes": len(json.dumps(frame)),
        "frame": {"jsonrpc": "2.0", **frame},
    }


def event(at: float, seq: int, kind: str, session: str = "s1", **fields: Any) -> Line:
    params = {"sessionId": session, "seq": seq, "event": {"type": kind, **fields}}
    return line(at, "out", method="agent/event", params=params)


def delta(at: float, seq: int, text: str, session: str = "s1") -> Line:
    news = {"type": "text_delta", "contentIndex": 0, "delta": text}
    return event(at, seq, "message_update", session, messageId="m1", assistantMessageEvent=news)


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What is printed for a trace, and what is complained about."""

    def shown(trace: Sequence[Line | str], *options: str) -> tuple[list[str], str]:
        path = tmp_path / "trace.jsonl"
        texts = [each if isinstance(each, str) else json.dumps(each) for each in trace]
        path.write_text("".join(f"{text}\n" for text in texts))
        assert run_trace(parse(["trace", "show", str(path), *options])) == 0
        captured = capsys.readouterr()
        return captured.out.splitlines(), captured.err

    return shown


def test_an_answer_names_what_was_asked_and_how_long_it_took(show: Any) -> None:
    out, err = show(
        [
            line(1, "in", id=1, method="ping"),
            line(2, "out", id="d1", method="ui/confirm", params={"title": "Sure?"}),
            line(2.25, "in", id="d1", result={"confirmed": True}),
            line(2.5, "out", id=1, result={}),
        ]
    )
    assert out == [
        "12:00:01.000 → ping #1",
        '12:00:02.000 ← ui/confirm #d1 {"title":"Sure?"}',
        '12:00:02.250 → ui/confirm #d1 answered in 250.0 ms: {"confirmed":true}',
        "12:00:02.500 ← ping #1 answered in 1500.0 ms:",
    ]
    assert err == ""


def test_deltas_of_a_block_are_one_line_and_everything_else_keeps_its_place(show: Any) -> None:
    out, _ = show(
        [
            event(1, 1, "turn_start"),
            delta(1.1, 2, "Once "),
            delta(1.1, 1, "Other", "s2"),
            delta(1.2, 3, "upon"),
            delta(1.3, 4, " a time"),
            event(2, 5, "turn_end"),
        ]
    )
    assert [each.split(" ", 2)[2] for each in out] == [
        "[s1]     1 turn_start",
        "[s1]   2-4 text_delta 3 as one, " + out[1].split("as one, ")[1],
        "[s2]     1 text_delta 1 as one, " + out[2].split("as one, ")[1],
        "[s1]     5 turn_end",
    ]
    assert out[1].endswith('"Once upon a time"')


def test_errors_gaps_and_what_has_no_answer_are_marked(show: Any) -> None:
    out, _ = show(
        [
            {"time": "2026-01-31T12:00:00Z", "start": {"version": "1", "pid": 7}},
            line(1, "in", id=1, method="prompt", params={"sessionId": "s1"}),
            line(1, "in", id=2, method="ping"),
            line(1.5, "out", id=1, error={"code": 1002, "message": "busy"}),
            event(2, 1, "turn_start"),
            event(2, 4, "turn_end"),
            {"time": "2026-01-31T12:00:03Z", "dropped": {"frames": 9, "bytes": 99}},
            {**line(3, "in"), "frame": None, "problem": "too large"},
            event(4, 1, "turn_start"),
        ]
    )
    text = "\n".join(out)
    assert "a daemon began" in out[0]
    assert '← ERROR [s1] prompt #1 answered in 500.0 ms: {"code":1002,"message":"busy"}' in text
    assert "! ERROR [s1] gap: events 2 to 3 are not here" in text
    assert '! ERROR gap: not recorded: {"frames":9,"bytes":99}' in text
    assert '→ ERROR no message: "too large"' in text
    assert "─ [s1] numbers start over: another epoch" in text
    assert "no answer to ping #2" in out[-1]


def test_bad_lines_are_named_and_skipped(show: Any) -> None:
    out, err = show(
        [
            line(1, "in", id=1, method="ping"),
            "{broken",
            '"text"',
            '{"time": 5}',
            '{"time": "2026-01-31T12:00:00Z"}',
            "",
            line(2, "out", id=1, result={}),
        ]
    )
    assert len(out) == 2
    assert [each.split(": ")[1].split(" is")[0] for each in err.splitlines()] == [
        "line 2",
        "line 3",
        "line 4",
        "line 5",
    ]


def test_one_session_is_shown_with_the_requests_whose_answers_name_it(show: Any) -> None:
    trace = [
        line(1, "in", id=1, method="prompt", params={"message": "default"}),
        line(1, "in", id=2, method="prompt", params={"sessionId": "s2"}),
        event(2, 1, "turn_start"),
        event(2, 1, "turn_start", "s2"),
        line(3, "out", id=1, result={"sessionId": "s1"}),
        line(3, "out", id=2, result={"sessionId": "s2"}),
    ]
    out, _ = show(trace, "--session", "s1")
    assert len(out) == 3
    assert not [each for each in out if "s2" in each]
    assert "default" in out[0]
    out, _ = show(trace, "--method", "turn_start")
    assert len(out) == 2


def test_json_is_a_line_each_with_the_duration(show: Any) -> None:
    out, _ = show([line(1, "in", id=1, method="ping"), line(1.5, "out", id=1, result={})], "--json")
    asked, answered = (json.loads(each) for each in out)
    assert asked["from"] == "client"
    assert (answered["method"], answered["durationMs"], answered["isAnswer"]) == (
        "ping",
        500.0,
        True,
    )


def test_a_frame_cannot_write_to_the_terminal(show: Any) -> None:
    out, _ = show([line(1, "in", method="x\x1b[2J\n\u202ey", params={"a": "\u202e"})])
    assert len(out) == 1
    assert not set(out[0]) & {"\x1b", "\u202e"}


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_trace(parse(["trace", "show", "/nowhere/trace"])) == 2
    said = "pi-rpc trace: /nowhere/trace cannot be read: No such file or directory\n"
    assert capsys.readouterr().err == said
