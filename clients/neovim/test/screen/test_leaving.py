"""What a person meets who leaves Neovim while the agent is at work."""

import os
import signal
import time

import pytest
from conftest import Stage
from screen import DEADLINE_SECONDS, Screen

LONG = [{"text": "Working on it."}, {"delayMs": 120_000}, {"text": " Done."}]


def daemon_of(screen: Screen) -> int:
    [pid] = screen.lua("return vim.api.nvim_get_proc_children(vim.uv.os_getpid())")
    return int(pid)


def at_work(stage: Stage) -> Screen:
    stage.write("valve.txt", "The valve is red.\n")
    screen = stage.open(LONG)
    screen.nvim.command("edit valve.txt")
    screen.lua("require('pi').prompt({ message = 'Paint it.' })")
    screen.wait_until("return (require('pi').session() or { running = function() end }):running()")
    return screen


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_gone(*pids: int) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < end, "a process outlived the editor"
        time.sleep(0.02)


def test_leaving_during_a_run_asks_and_staying_changes_nothing(stage: Stage) -> None:
    screen = at_work(stage)
    for command in ("qall", "quit", "qall!"):
        screen.type(f":{command}<CR>")
        screen.wait_for("Quit and stop it")
        screen.type("s")
        screen.wait_for("^The valve is red")
        screen.wait("that the question is gone", lambda shown: "Quit and stop it" not in shown)
    assert screen.lua("return #vim.api.nvim_list_wins()") == 1
    assert screen.lua("return require('pi').session():running()") is True


@pytest.mark.parametrize("layout", ["right", "float"])
def test_staying_leaves_the_chat_as_it_is(stage: Stage, layout: str) -> None:
    screen = stage.open(LONG)
    screen.type(f":Pi open {layout}<CR>Paint it.<CR>")
    screen.wait_until("local s = require('pi').session() return s and s:running()")
    screen.wait_for("Working on it")
    screen.type("More to say")
    screen.wait_for("More to say")
    screen.type("<Esc>")
    before = screen.wait(
        "the end of Insert mode", lambda _: screen.nvim.api.get_mode()["mode"] == "n"
    )
    screen.type(":qall<CR>")
    screen.wait_for("Quit and stop it")
    screen.type("s")
    screen.wait("that the question is gone", lambda shown: "Quit and stop it" not in shown)
    assert screen.rows()[:-1] == before.split("\n")[:-1]
    # The chat is still known as such: it closes as a whole.
    screen.type(":Pi close<CR>")
    screen.wait(
        "that it is closed",
        lambda shown: "Working on it" not in shown and "More to say" not in shown,
    )


def test_leaving_all_the_same_ends_the_daemon_and_its_run(stage: Stage) -> None:
    screen = at_work(stage)
    pid = daemon_of(screen)
    screen.type(":qall<CR>")
    screen.wait_for("Quit and stop it")
    screen.type("q")
    wait_gone(pid)


def test_a_neovim_that_is_killed_leaves_no_daemon(stage: Stage) -> None:
    screen = at_work(stage)
    daemon, editor = daemon_of(screen), screen.lua("return vim.uv.os_getpid()")
    os.kill(editor, signal.SIGKILL)
    wait_gone(daemon)


def test_nothing_is_asked_while_nothing_goes_on(stage: Stage) -> None:
    screen = stage.open([{"text": "Hello."}])
    screen.lua("require('pi').prompt({ message = 'Hello?' })")
    screen.wait_until(
        "local s = require('pi').session()"
        " return s and s.state.messageCount == 2 and not s:running()"
    )
    pid = daemon_of(screen)
    screen.type(":qall<CR>")
    wait_gone(pid)
