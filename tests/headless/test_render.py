"""What a person sees of a run in a terminal."""

import io
from typing import Any

import pytest

from pi_rpc.headless.render import RunRenderer


class Screen:
    """A renderer, and what it wrote on either stream."""

    def __init__(self, *, terminal: bool = False) -> None:
        self.answer = io.StringIO()
        self.notes = io.StringIO()
        for stream in (self.answer, self.notes):
            stream.isatty = lambda: terminal  # type: ignore[method-assign]
        self._renderer = RunRenderer(self.answer, self.notes)

    def draw(self, *events: dict[str, Any]) -> None:
        for event in events:
            self._renderer.draw(event)

    @property
    def noted(self) -> str:
        return self.notes.getvalue()

    @property
    def answered(self) -> str:
        return self.answer.getvalue()


def update(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message_update", "assistantMessageEvent": {"type": kind, **fields}}


def delta(text: str) -> dict[str, Any]:
    return update("text_delta", delta=text)


def ended(**fields: Any) -> dict[str, Any]:
    return {"type": "message_end", "message": {"role": "assistant", "stopReason": "stop", **fields}}


def called(args: Any, name: str = "read") -> dict[str, Any]:
    return {"type": "tool_execution_start", "toolName": name, "args": args}


def result(text: str, *, failed: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": text}, {"type": "image", "data": ""}]
    return {"type": "tool_execution_end", "result": {"content": content}, "isError": failed}


SETTLED = {
    "type": "agent_settled",
    "stopReason": "stop",
    "usage": {"input": 200, "cacheRead": 900, "cacheWrite": 100, "output": 34},
    "cost": 0.01234,
}


@pytest.fixture
def screen() -> Screen:
    return Screen()


def test_the_reply_is_written_as_it_streams_and_its_last_line_is_ended(screen: Screen) -> None:
    screen.draw(delta("Hel"), delta("lo"))
    assert screen.answered == "Hello"
    screen.draw(ended())
    assert screen.answered == "Hello\n"
    screen.draw(delta("again\n"), ended())
    assert screen.answered == "Hello\nagain\n"
    assert screen.noted == ""


def test_text_is_on_its_own_line_while_a_call_comes_for_the_live_line_takes_the_last(
    screen: Screen,
) -> None:
    screen.draw(delta("I look."), update("text_end"))
    assert screen.answered == "I look.\n"
    screen.draw(update("toolcall_start"), ended())
    assert screen.answered == "I look.\n"


def test_a_note_starts_on_a_line_of_its_own() -> None:
    one = io.StringIO()
    renderer = RunRenderer(one, one)
    renderer.draw(delta("Let me see"))
    renderer.draw(called({"path": "a"}))
    assert one.getvalue() == 'Let me see\n-> read {"path": "a"}\n'


def test_thinking_is_mentioned_and_not_shown(screen: Screen) -> None:
    screen.draw(update("thinking_start"), update("thinking_delta", delta="secret"))
    screen.draw(update("thinking_end", content="secret"))
    assert screen.noted == "thinking ...\n"
    assert screen.answered == ""


def test_a_tool_call_is_shown_with_its_arguments_as_they_are_written(screen: Screen) -> None:
    screen.draw(called({"path": "Füße.md", "limit": 3}))
    assert screen.noted == '-> read {"path": "Füße.md", "limit": 3}\n'


def test_long_arguments_are_cut_to_a_line(screen: Screen) -> None:
    screen.draw(called({"content": "x" * 1000}, "write"))
    (line,) = screen.noted.splitlines()
    assert line.startswith('-> write {"content": "xxx')
    assert line.endswith("x...")
    assert len(line) == len("-> write ") + 160


def test_what_fits_is_not_cut(screen: Screen) -> None:
    screen.draw(result("y" * 160))
    assert screen.noted == f"<- {'y' * 160}\n"


def test_a_result_is_shown_in_brief_and_says_how_much_more_there_is(screen: Screen) -> None:
    screen.draw(result("\n\n".join(f"line {number}" for number in range(1, 10))))
    assert screen.noted.splitlines() == [
        "<- line 1",
        *(f"   line {number}" for number in range(2, 7)),
        "   ... 3 more lines",
    ]


def test_a_failed_result_says_so_once(screen: Screen) -> None:
    screen.draw(result("no such file\nsorry", failed=True))
    assert screen.noted.splitlines() == ["<- failed no such file", "   sorry"]


@pytest.mark.parametrize("event", [called({"a": "\x1b[2J\x07"}), result("a\x1b]0;title\x07\x00b")])
def test_nothing_of_a_tool_can_control_the_terminal(screen: Screen, event: Any) -> None:
    screen.draw(event)
    assert all(char.isprintable() or char == "\n" for char in screen.noted)


def test_nothing_of_a_diagnostic_or_an_error_can_control_the_terminal(screen: Screen) -> None:
    screen.draw({"type": "diagnostic", "severity": "error", "message": "a\x1b[2Jb"})
    screen.draw(ended(stopReason="error", errorMessage="c\x1b[2Jd"))
    assert "a" in screen.noted
    assert "d" in screen.noted
    assert "\x1b" not in screen.noted


def test_the_reply_cannot_control_a_terminal_and_reaches_a_file_as_it_is(screen: Screen) -> None:
    reply = "a\tb\n\x1b[2Jc\u009b1md \U0001f469\u200d\U0001f4bb\x07\r\n"
    terminal = Screen(terminal=True)
    terminal.draw(delta(reply), ended())
    assert terminal.answered == "a\tb\n[2Jc1md \U0001f469\u200d\U0001f4bb\n"
    screen.draw(delta(reply), ended())
    assert screen.answered == reply


def test_a_reply_that_failed_says_why(screen: Screen) -> None:
    screen.draw(delta("half"), ended(stopReason="error", errorMessage="the key is wrong"))
    assert screen.answered == "half\n"
    assert screen.noted == "error: the key is wrong\n"


def test_a_diagnostic_is_shown(screen: Screen) -> None:
    screen.draw({"type": "diagnostic", "severity": "warning", "message": "mind the gap"})
    assert screen.noted == "warning: mind the gap\n"


def test_a_diagnostic_names_commands_for_the_requests_of_a_client(screen: Screen) -> None:
    message = "there is no model 'x'; model/list names those there are"
    screen.draw({"type": "diagnostic", "severity": "warning", "message": message})
    assert "`pi-rpc models` names those there are" in screen.noted
    assert "model/list" not in screen.noted


def test_the_end_tells_usage_cost_and_time(screen: Screen) -> None:
    screen.draw(delta("x"), SETTLED)
    assert screen.answered == "x\n"
    head, _, seconds = screen.noted.rpartition(", ")
    assert head == "[stop: 1200 tokens in, 34 out, $0.0123"
    assert seconds.endswith(" s]\n")


def test_a_run_without_usage_ends_too(screen: Screen) -> None:
    screen.draw({"type": "agent_settled", "stopReason": "aborted"})
    assert screen.noted.startswith("[aborted: 0 tokens in, 0 out, $0.0000, ")


@pytest.mark.parametrize(
    "kind", ["agent_start", "turn_start", "turn_end", "save_point", "queue_update", "of_tomorrow"]
)
def test_what_a_person_need_not_see_draws_nothing(screen: Screen, kind: str) -> None:
    screen.draw(
        {"type": kind},
        {"type": "message_end", "message": {"role": "user", "content": "hi"}},
        update("text_start"),
    )
    assert screen.answered == screen.noted == ""


def test_a_terminal_gets_colours_unless_they_are_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Screen(terminal=True)
    coloured.draw(called({}))
    assert coloured.noted == "\x1b[36m-> read {}\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Screen(terminal=True)
    plain.draw(called({}))
    assert plain.noted == "-> read {}\n"


def test_a_file_gets_no_colours(monkeypatch: pytest.MonkeyPatch, screen: Screen) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen.draw(called({}))
    assert screen.noted == "-> read {}\n"
