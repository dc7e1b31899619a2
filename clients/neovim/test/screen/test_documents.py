"""What a person sees while files change below their buffers."""

from conftest import Stage


def test_a_command_that_changes_a_file_below_typed_text_asks_nothing(stage: Stage) -> None:
    stage.write("mine.txt", "mine\n")
    stage.write("theirs.txt", "old\n")
    command = "echo new > theirs.txt; echo other > mine.txt"
    screen = stage.open(
        [{"toolCall": {"name": "bash", "arguments": {"command": command}}}], [{"text": "Done."}]
    )
    screen.nvim.command("set noautoread | edit theirs.txt | split mine.txt")
    screen.type("cctyped<Esc>")
    screen.wait_for("^typed$")
    screen.lua("require('pi').prompt({ message = 'Change them.' })")
    screen.wait_for("^new$")
    screen.wait_until(
        "local s = require('pi').session() return s.state.messageCount == 4 and not s:running()"
    )
    shown = screen.text()
    assert screen.nvim.api.get_mode() == {"mode": "n", "blocking": False}
    assert "W12" not in shown
    assert "typed" in shown
