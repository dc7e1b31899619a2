"""What a person meets who begins."""

from conftest import Stage


def test_what_is_typed_while_the_daemon_starts_goes_to_the_prompt(stage: Stage) -> None:
    stage.write("valve.txt", "The valve is red.\n")
    screen = stage.open([{"text": "Hello to you."}])
    screen.nvim.command("edit valve.txt")
    screen.type(":Pi<CR>Really hello<CR>")
    screen.wait_for("Hello to you")
    screen.wait_for("Really hello")
    assert screen.lua("return vim.fn.getbufline('valve.txt', 1, '$')") == ["The valve is red."]


def test_a_program_that_is_missing_is_told_on_the_screen(stage: Stage) -> None:
    screen = stage.open(command=["pi-rpc-that-is-not-there"])
    screen.type(":Pi<CR>")
    screen.wait_for("pi-rpc-that-is-not-there is not there")
    screen.type("<CR>")


def test_the_statusline_of_other_windows_follows_the_run(stage: Stage) -> None:
    stage.write("valve.txt", "The valve is red.\n")
    wait = {"command": "while [ ! -e go ]; do sleep 0.05; done"}
    screen = stage.open(
        [{"toolCall": {"name": "bash", "arguments": wait}}], [{"text": "Hello there."}]
    )
    screen.nvim.command("edit valve.txt")
    screen.lua("vim.o.laststatus = 2 vim.o.statusline = \"%f %{%v:lua.require'pi'.statusline()%}\"")
    screen.lua("require('pi').prompt({ message = 'Hello?' })")
    screen.wait_for(r"valve.txt pi: scripted · \d+% · running")
    stage.write("go", "")
    screen.wait_for(r"valve.txt pi: scripted · \d+% · idle")
