"""What a person sees of a chat, on the screen of a real Neovim with the real daemon."""

import re
from typing import Any

import pytest
from conftest import Stage
from screen import Screen

EMPTY = "Ask, @file, /command or !shell"
HINT = "Ask, @file"


def text(words: str, pieces: int = 1) -> dict[str, Any]:
    return {"text": words, "pieces": pieces}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"toolCall": {"name": name, "arguments": arguments}}


def ask(screen: Screen, words: str, *, layout: str = "") -> None:
    screen.nvim.command(f"Pi open {layout}")
    screen.wait_for(HINT)
    screen.type(f"{words}<CR>")


def follow(screen: Screen, words: str) -> None:
    """Press Enter on some words in the chat."""
    screen.type("<Esc><C-w>k")
    screen.wait("the chat", lambda _: screen.lua("return vim.bo.filetype") == "pi-chat")
    screen.lua("vim.fn.cursor(1, 1); vim.fn.search([[\\V]] .. ..., [[cW]])", words)
    screen.type("<CR>")


def column(screen: Screen, left: int) -> list[str]:
    """The screen from a column on, without what is right of the text."""
    return [row[left:].rstrip() for row in screen.rows()]


def test_a_conversation_stands_beside_the_text(stage: Stage) -> None:
    stage.write("valve.txt", "The valve is red.\n")
    screen = stage.open(
        [{"thinking": "Look first."}, call("read", path="valve.txt")],
        [text("It is **red**, as `valve.txt` says:\n\n```\nThe valve is red.\n```\n")],
        width=90,
    )
    ask(screen, "What colour?")
    screen.wait_for("as valve.txt says")
    screen.wait("that it is done", lambda shown: "working" not in shown)
    used = screen.rows()[5].split("scripted  ")[1]
    assert re.fullmatch(r"[\d.]+k? in, \d+ out", used)
    assert column(screen, 53) == [
        "│ pi scripted · 1% of context",
        "│You",
        "│",
        "│What colour?",
        "│",
        f"│scripted  {used}",
        "│",
        "│Thinking  1 line",
        "│✓ read valve.txt",
        "│The valve is red.",
        "│",
        "│It is red, as valve.txt says:",
        "│",
        "│",
        "│The valve is red.",
        *["│"] * 4,
        "│pi-chat",
        "│ >",
        f"│{EMPTY}",
        "│~",
        "",
    ]


def test_a_reply_grows_while_it_is_written(stage: Stage) -> None:
    screen = stage.open([text("Once upon"), {"delayMs": 3000}, text(" a time")])
    ask(screen, "A story.")
    shown = screen.wait_for("Once upon$")
    assert "● working" in shown
    shown = screen.wait_for("Once upon.* a time|a time$")
    screen.wait("that it is done", lambda done: "working" not in done)


def test_output_is_shown_while_a_command_runs(stage: Stage) -> None:
    stage.write("wait.sh", "echo first; while [ ! -e go ]; do sleep 0.05; done; seq 20; exit 3\n")
    screen = stage.open([call("bash", command="sh wait.sh")], [text("Done.")], width=100)
    ask(screen, "Run it.")
    screen.wait_for("● .*sh wait.sh\n.*first")
    stage.write("go", "")
    shown = screen.wait_for(r"✗ \$ sh wait.sh  \d+ lines · exit 3")
    assert "first" not in shown


def test_thinking_is_opened_by_enter(stage: Stage) -> None:
    screen = stage.open([{"thinking": "One.\nTwo."}, text("So.")])
    ask(screen, "Well?")
    shown = screen.wait_for("Thinking  2 lines")
    assert "Two." not in shown
    follow(screen, "Thinking")
    screen.wait_for("Two.")


def test_a_chat_that_is_read_does_not_move(stage: Stage) -> None:
    stage.write("wait.sh", "while [ ! -e go ]; do sleep 0.05; done\n")
    screen = stage.open(
        [text("\n".join(f"line {n}" for n in range(60))), call("bash", command="sh wait.sh")],
        [text("End.")],
    )
    ask(screen, "Count.")
    screen.wait_for("sh wait.sh")
    screen.type("<Esc><C-w>kgg")
    screen.wait_for("^ *~? *│You")
    stage.write("go", "")
    screen.wait("that it is done", lambda shown: "working" not in shown)
    assert any(row.endswith("│You") for row in screen.rows())


def test_what_is_said_meanwhile_waits_and_comes_back(stage: Stage) -> None:
    stage.write("wait.sh", "while [ ! -e go ]; do sleep 0.05; done\n")
    screen = stage.open([call("bash", command="sh wait.sh")], [text("Done.")])
    ask(screen, "Run it.")
    screen.wait_for("● .*sh wait.sh")
    screen.type("Faster.<CR>")
    screen.wait_for("steer: Faster.")
    screen.type("Then rest.<M-CR>")
    screen.wait_for("follow up: Then rest.")
    screen.type("own")
    screen.wait_for("own$")
    screen.type("<C-c>")
    screen.wait(
        "all texts back",
        lambda shown: re.search(r"Faster\.\n[^\n]*\n[^\n]*Then rest\.\n[^\n]*\n[^\n]*own", shown),
    )
    shown = screen.wait_for("Stopped")
    assert "steer:" not in shown


def test_a_steer_reaches_the_run(stage: Stage) -> None:
    stage.write("wait.sh", "while [ ! -e go ]; do sleep 0.05; done\n")
    screen = stage.open([call("bash", command="sh wait.sh")], [text("As you like.")])
    ask(screen, "Run it.")
    screen.wait_for("● .*sh wait.sh")
    screen.type("Faster.<CR>")
    screen.wait_for("steer: Faster.")
    stage.write("go", "")
    shown = screen.wait_for("As you like.")
    assert shown.index("Faster.") < shown.index("As you like.")
    screen.wait("an empty queue", lambda later: "steer:" not in later)


def test_earlier_prompts_come_back_with_the_arrow_keys(stage: Stage) -> None:
    screen = stage.open([text("One.")], [text("Two.")])
    ask(screen, "first question")
    screen.wait_for("One.")
    screen.type("second question<CR>")
    screen.wait_for("Two.")
    screen.wait_for(HINT)
    screen.type("draft<Up>")
    screen.wait("the last one", lambda shown: shown.count("second question") == 2)
    screen.type("<Up>")
    screen.wait("the one before", lambda shown: shown.count("first question") == 2)
    screen.type("<Down><Down>")
    screen.wait_for("draft$")


def test_a_prompt_has_many_lines_and_grows(stage: Stage) -> None:
    screen = stage.open([text("Yes.")])
    screen.nvim.command("Pi")
    screen.wait_for(HINT)
    screen.type("one<C-j>two<C-j>three<C-j>four<C-j>five")
    screen.wait_for("one\n.*two\n.*three\n.*four\n.*five")
    screen.type("<CR>")
    screen.wait_for("You\n.*\n.*one\n.*two\n.*three\n.*four\n.*five(.*\n)*.*Yes")


def test_a_command_of_the_person_shows_its_output(stage: Stage) -> None:
    screen = stage.open()
    ask(screen, "!echo hello; exit 4")
    screen.wait_for(r"✗ \$ echo hello; exit 4.*\n.*hello")
    screen.type("!!echo quiet<CR>")
    screen.wait_for("✓ .*echo quiet  not for the mod")


def test_files_are_completed_after_an_at(stage: Stage) -> None:
    stage.write("src/valve.lua", "")
    stage.write("src/boiler.lua", "")
    screen = stage.open([text("Seen.")])
    screen.nvim.command("Pi")
    screen.wait_for(HINT)
    screen.type("See @valv")
    screen.wait_for(r"^.*src/valve\.lua *\n|See @src/valve")
    screen.type("<CR>")
    screen.wait_for(r"See @src/valve\.lua$")
    screen.type("<CR>")
    screen.wait_for("Seen.")
    follow(screen, "Attached")
    screen.wait_for("attached-file")


def test_commands_are_completed_after_a_slash(stage: Stage) -> None:
    stage.write(
        "../home/agent/prompts/review.md", "---\ndescription: Look closely\n---\nReview $1.\n"
    )
    screen = stage.open([text("Fine.")])
    screen.nvim.command("Pi")
    screen.wait_for(HINT)
    screen.type("/rev")
    screen.wait_for("/review ")
    screen.type("<CR> it<CR>")
    screen.wait_for("Fine.")


def test_a_selection_is_attached_shown_and_taken_off(stage: Stage) -> None:
    stage.write("valve.txt", "red\nblue\ngreen\n")
    screen = stage.open([text("Blue.")])
    screen.nvim.command("edit valve.txt")
    screen.type("jVj:Pi attach<CR>")
    screen.wait_for(r"\+ valve\.txt:2-3")
    screen.type("<M-x>")
    screen.wait("nothing attached", lambda shown: "+ valve" not in shown)
    screen.type("<Esc><C-w>hggv$:Pi attach<CR>")
    screen.wait_for(r"\+ valve\.txt:")
    screen.type("Which?<CR>")
    shown = screen.wait_for("Blue.")
    assert "+ valve" not in shown
    assert "Attached" in shown


def test_diagnostics_are_attached_on_request_alone(stage: Stage) -> None:
    stage.write("a.lua", "local x\n")
    screen = stage.open([text("Remove it.")])
    screen.nvim.command("edit a.lua")
    screen.lua(
        "vim.diagnostic.set(vim.api.nvim_create_namespace('t'), 0,"
        " {{lnum=0, col=6, end_col=7, message='unused: x', severity=2, source='lint'}})"
    )
    ask(screen, "Well?")
    shown = screen.wait_for("Remove it.")
    assert "Attached" not in shown
    screen.type("<Esc><C-w>h:Pi diagnostics<CR>")
    screen.wait_for(r"\+ 1 diagnostic of a\.lua")


def test_enter_jumps_to_a_file_that_is_named(stage: Stage) -> None:
    stage.write("src/valve.lua", "one\ntwo\nthree\n")
    screen = stage.open([text("See `src/valve.lua:2`.")])
    ask(screen, "Where?")
    screen.wait_for("src/valve.lua:2")
    follow(screen, "valve.lua")
    screen.wait_for("^one")
    assert screen.lua("return {vim.fn.expand('%:t'), vim.fn.line('.')}") == ["valve.lua", 2]


def test_enter_on_a_call_jumps_to_its_file(stage: Stage) -> None:
    stage.write("valve.txt", "red\n")
    screen = stage.open([call("read", path="valve.txt")], [text("Red.")])
    ask(screen, "Colour?")
    screen.wait_for("Red.")
    follow(screen, "`read valve")
    screen.wait("the file", lambda _: screen.lua("return vim.fn.expand('%:t')") == "valve.txt")


@pytest.mark.parametrize(("width", "height"), [(100, 30), (40, 16)])
def test_floats_stand_above_each_other_and_fit(stage: Stage, width: int, height: int) -> None:
    screen = stage.open(
        [text("A rather long reply that has to be wrapped in a narrow window.")],
        width=width,
        height=height,
    )
    ask(screen, "Hello?", layout="float")
    shown = screen.wait_for("narrow")
    rows = shown.split("\n")
    tops = [number for number, row in enumerate(rows) if "╭" in row]
    bottoms = [number for number, row in enumerate(rows) if "╰" in row]
    assert len(tops) == len(bottoms) == 2
    assert bottoms[0] + 1 == tops[1]
    assert {rows[number].count("─") for number in tops + bottoms} == {min(72, width - 2)}
    assert bottoms[1] < height


def test_floats_keep_to_a_screen_that_changes_its_size(stage: Stage) -> None:
    screen = stage.open([text("Yes.")], width=100, height=30)
    ask(screen, "Hello?", layout="float")
    screen.wait_for("Yes.")
    screen.nvim.ui_try_resize(50, 18)
    shown = screen.wait("smaller floats", lambda text: f"╭{'─' * 48}╮" in text)
    assert "Yes." in shown


@pytest.mark.parametrize("layout", ["left", "below", "tab"])
def test_other_layouts_show_the_chat_where_they_say(stage: Stage, layout: str) -> None:
    screen = stage.open([text("Yes.")])
    screen.nvim.current.buffer[:] = ["my own text"]
    ask(screen, "Hello?", layout=layout)
    shown = screen.wait_for("Yes.")
    if layout == "tab":
        assert "my own text" not in shown
        assert len(screen.nvim.tabpages) == 2
    else:
        row = next(row for row in shown.split("\n") if "my own text" in row)
        assert row.startswith("my own text") == (layout == "below")
    screen.type("<Esc>")
    screen.nvim.command("Pi close")
    shown = screen.wait("no chat", lambda later: "Yes." not in later)
    assert "my own text" in shown


def test_closing_the_chat_closes_its_prompt(stage: Stage) -> None:
    screen = stage.open([text("Yes.")])
    ask(screen, "Hello?")
    screen.wait_for("Yes.")
    screen.type("<Esc><C-w>k:q<CR>")
    screen.wait("one window", lambda _: len(screen.nvim.windows) == 1)


def test_a_chat_that_is_opened_again_shows_the_same(stage: Stage) -> None:
    screen = stage.open([{"thinking": "Hm."}, text("Yes.")])
    ask(screen, "Hello?")
    screen.wait_for("Yes.")
    screen.wait("that it is done", lambda shown: "working" not in shown)
    before = screen.text()
    screen.type("<Esc>")
    screen.nvim.command("Pi toggle")
    screen.wait("no chat", lambda shown: "Yes." not in shown)
    screen.nvim.command("Pi toggle")
    screen.wait("the same", lambda shown: shown == before)


def test_very_long_lines_are_shown_and_leave_the_editor_alone(stage: Stage) -> None:
    screen = stage.open([{"repeatText": "x" * 1000, "count": 200}], width=60)
    ask(screen, "Long.")
    screen.wait("the end", lambda shown: "working" not in shown and "xxxx" in shown)
    assert (
        screen.lua(
            "return require('pi.chat').of(require('pi').session()).buffer.view.document.rows"
        )
        >= 200000 // 8192
    )
    screen.type("short")
    screen.wait_for("short$")


def test_light_and_dark_screens_have_their_own_colours(stage: Stage) -> None:
    looks = []
    for background in ("dark", "light"):
        screen = stage.open([text("Yes.")], background=background)
        ask(screen, "Hello?")
        screen.wait_for("Yes.")
        looks.append(screen.colour_of("You"))
        screen.nvim.command(
            "colorscheme habamax" if background == "dark" else "colorscheme morning"
        )
        assert screen.colour_of("You") != looks[-1]
    assert looks[0] != looks[1]


def test_each_tab_has_a_session_of_its_own_if_wanted(stage: Stage) -> None:
    screen = stage.open([text("One.")], scope="tab")
    ask(screen, "first tab")
    screen.wait_for("One.")
    screen.type("<Esc>")
    screen.nvim.command("tabnew")
    ask(screen, "second tab")
    shown = screen.wait_for("second tab(.*\n)*.*One.")
    assert "first tab" not in shown
    screen.type("<Esc>gt")
    screen.wait_for("first tab")
    assert screen.lua("return #require('pi').sessions()") == 2
