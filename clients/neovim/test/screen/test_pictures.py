"""The pictures of the README: made of the screen, and held to what the plugin shows now.

``PI_TEST_WRITE=1`` writes them anew."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

from conftest import Stage
from screen import ROOT, Screen
from test_chat import ask, call, text

MEDIA = ROOT / "media"
MAX_BYTES = 150_000
VALVE = """\
local Valve = {}
Valve.__index = Valve

function Valve.new(colour)
  return setmetatable({ colour = colour, open = false }, Valve)
end

---Let steam through.
function Valve:turn()
  self.open = not self.open
end

---@return boolean
function Valve:is_open()
  return self.open == true
end

return Valve
"""
ANSWER = """\
`turn` toggles the valve (`src/valve.lua:9`), so calling it twice closes it. \
I have added a way to say **which** state is meant:

```lua
valve:set_open(true)
```

The tests pass.
"""


def words(picture: str) -> list[str]:
    """What a picture says, in order; figures depend on where a test runs."""
    root = ElementTree.fromstring(picture)
    found = [node.text or "" for node in root.iter() if node.tag.endswith("text")]
    return re.sub(r"\d[\d.]*k?", "N", " ".join(found)).split()


def check(screen: Screen, name: str, title: str) -> None:
    screen.update()
    picture, file = screen.svg(title), MEDIA / f"{name}.svg"
    assert len(picture.encode()) < MAX_BYTES
    if os.environ.get("PI_TEST_WRITE"):
        MEDIA.mkdir(exist_ok=True)
        file.write_text(picture)
    assert words(Path(file).read_text()) == words(picture), f"PI_TEST_WRITE=1 writes {file} anew"


def edit() -> dict[str, object]:
    place = "---@return boolean\n"
    new = "---Open or close it.\nfunction Valve:set_open(open)\n  self.open = open\nend\n\n"
    change = {"oldText": place, "newText": new + place}
    return call("edit", path="src/valve.lua", edits=[change])


def prepared(stage: Stage, mode: str) -> Screen:
    stage.write("src/valve.lua", VALVE)
    stage.write("Makefile", "test:\n\t@echo '12 tests passed'\n")
    screen = stage.open(
        [
            {"thinking": "The person asks about turn.\nRead it first."},
            call("read", path="src/valve.lua"),
        ],
        [edit()],
        [call("bash", command="make test")],
        [text(ANSWER)],
        width=112,
        height=42,
        mode=mode,
        chat={"width": 0.5, "height": 0.5},
        questions={"notify": False},
    )
    screen.nvim.command("edit src/valve.lua | syntax on | set number")
    screen.lua("vim.treesitter.start()")
    return screen


def test_the_picture_of_a_chat_is_what_is_shown(stage: Stage) -> None:
    screen = prepared(stage, "full")
    ask(screen, "What happens when I turn the valve twice?")
    screen.wait_for("The tests pass")
    screen.wait("that it is done", lambda shown: "working" not in shown)
    screen.type("Write a test for it, too.")
    screen.wait_for("for it, too")
    check(
        screen,
        "chat",
        "A chat beside a file: thinking and a long output are folded, an edit is a diff",
    )


def test_the_picture_of_a_review_is_what_is_shown(stage: Stage) -> None:
    screen = prepared(stage, "ask")
    ask(screen, "What happens when I turn the valve twice?")
    screen.wait_for("waits for :Pi answer")
    # Names of buffers there hold an id.
    screen.nvim.command("set showtabline=0")
    screen.type("<Esc>:Pi answer<CR>")
    screen.wait_for("Type number and <Enter>")
    screen.type("1<CR>")
    screen.wait_for("set_open")
    check(
        screen,
        "review",
        "An edit is looked at side by side, and can be changed before it is accepted",
    )


def test_the_picture_of_a_float_is_what_is_shown(stage: Stage) -> None:
    screen = prepared(stage, "ask")
    ask(screen, "What happens when I turn the valve twice?", layout="float")
    screen.wait_for("waits for :Pi answer")
    check(screen, "float", "A chat as a float; a question of the agent waits and takes no focus")
