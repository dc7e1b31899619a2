"""What a person sees when the agent asks, on the screen of a real Neovim with the real daemon."""

from pathlib import Path

from conftest import Stage
from screen import Screen
from test_chat import HINT, ask, call, text


def asked(stage: Stage, *, width: int = 100, height: int = 30) -> Screen:
    """A screen on which the agent wants to edit a file and waits for the answer."""
    stage.write("valve.txt", "one\nThe valve is red.\nthree\n")
    edits = [{"oldText": "red", "newText": "blue"}]
    screen = stage.open(
        [call("edit", path="valve.txt", edits=edits)],
        [text("Painted.")],
        mode="ask",
        width=width,
        height=height,
    )
    ask(screen, "Paint it.")
    screen.wait_for("waits for :Pi answer")
    return screen


def read(stage: Stage, wanted: str) -> bool:
    return Path(stage.project / "valve.txt").read_text() == wanted


def test_a_question_waits_beside_the_text_and_takes_no_focus(stage: Stage) -> None:
    screen = asked(stage)
    screen.type("typed meanwhile")
    shown = screen.wait_for("typed meanwhile")
    assert "● waits for :Pi answer" in shown
    assert len(screen.nvim.tabpages) == 1


def test_an_answer_shows_the_change_and_the_rule_in_words(stage: Stage) -> None:
    screen = asked(stage)
    screen.type("<Esc>:Pi answer<CR>")
    shown = screen.wait_for("Type number and <Enter>")
    assert "-The valve is red." in shown
    assert "+The valve is blue." in shown
    assert "Allow in this session: all files in the project" in shown
    number = next(row.split(":")[0].strip() for row in shown.split("\n") if row.endswith(": Allow"))
    screen.type(f"{number}<CR>")
    screen.wait_for("Painted.")
    assert read(stage, "one\nThe valve is blue.\nthree\n")


def test_a_change_is_reviewed_side_by_side_and_changed_before_it_is_accepted(stage: Stage) -> None:
    screen = asked(stage)
    screen.type("<Esc>:Pi answer<CR>")
    screen.wait_for("Type number and <Enter>")
    screen.type("1<CR>")
    shown = screen.wait_for(r"The valve is red\. +│ *(\d+ )?The valve is blue\.")
    assert screen.lua("return vim.wo.diff")
    screen.type(":%s/blue/green/<CR>")
    screen.wait_for("The valve is green.")
    screen.type("ga")
    shown = screen.wait_for("Painted.")
    assert read(stage, "one\nThe valve is green.\nthree\n"), shown


def test_a_change_that_is_rejected_is_not_written(stage: Stage) -> None:
    screen = asked(stage)
    screen.type("<Esc>:Pi answer<CR>")
    screen.wait_for("Type number and <Enter>")
    screen.type("1<CR>")
    screen.wait_for(r"The valve is red\. +│ *(\d+ )?The valve is blue\.")
    screen.type("gr")
    screen.wait_for("Why not")
    screen.type("Red is right.<CR>")
    screen.wait_for("Painted.")
    assert read(stage, "one\nThe valve is red.\nthree\n")
    assert "✗ edit valve.txt" in screen.text()


def test_questions_fit_on_a_small_screen(stage: Stage) -> None:
    stage.write("valve.txt", "red\n")
    screen = stage.open(
        [call("bash", command="cat valve.txt; " + "true; " * 40)],
        [text("Read.")],
        mode="ask",
        width=50,
        height=20,
    )
    ask(screen, "Read it.", layout="float")
    screen.wait_for("waits for :Pi answer")
    screen.type("<Esc>:Pi answer<CR>")
    shown = screen.wait_for("Type number and <Enter>|-- More --")
    assert "cat valve.txt" in shown


def test_what_is_to_be_typed_stays_where_it_is_after_an_answer(stage: Stage) -> None:
    screen = asked(stage)
    screen.type("my next question<Esc>:Pi answer<CR>")
    shown = screen.wait_for("Type number and <Enter>")
    number = next(
        row.split(":")[0].strip() for row in shown.split("\n") if row.endswith(": Reject")
    )
    screen.type(f"{number}<CR>")
    shown = screen.wait_for("Painted.")
    assert "my next question" in shown
    assert HINT not in shown
