"""An editor that does anything at any moment: then every request has exactly one answer, every run
one end, every progress that began one end, and the documents are what the editor has."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import Editor, call, command, lsp, say
from tests.lsp.test_editing import at

EDIT = [{"oldText": "two\n", "newText": "two\ntwo more\n"}]
REPLIES = [
    [say("Just words.")],
    [{"thinking": "hm"}, say("A command. "), call("bash", command="echo hi")],
    [say("Slowly: "), {"delayMs": 30}, say("done.")],
    [call("read", path="a.txt"), call("edit", path="a.txt", edits=EDIT)],
    [{"error": {"message": "it broke", "status": 400}}],
]


class Anything:
    """One editor, and what it has asked."""

    def __init__(self, editor: Editor, seed: int) -> None:
        self.editor = editor
        self.random = random.Random(seed)
        self.uri = editor.open("a.txt", "one\ntwo\nthree\n")
        self.begun: list[int] = []
        editor.answers["window/showMessageRequest"] = self.permit

    def permit(self, params: dict[str, Any]) -> Any:
        """As people do: mostly, or not, or by closing the question, or not at all."""
        one, *_, last = params["actions"]
        return self.random.choice([one, one, one, last, None, {"title": "?"}, NotImplemented])

    def act(self) -> None:
        place = {"uri": self.uri, "range": at(1, 0, 2)}
        match self.random.randrange(13):
            case 0 | 1 | 2:
                self.ask(command("pi.fix", {**place, "wait": self.random.random() < 0.5}))
            case 3:
                self.ask(command("pi.prompt", "go", workDoneToken=len(self.begun)))
            case 4:
                self.ask(command("pi.stop"))
            case 5:
                self.editor.tell("$/cancelRequest", {"id": self.random.choice(self.begun)})
            case 6:
                self.ask(command("pi.steer", "more"))
            case 7:
                self.ask(command("pi.compact", {"wait": self.random.random() < 0.5}))
            case 8:
                text = self.editor.buffers[self.uri][1]
                change = {"range": at(0, 0, 0), "text": "é😀\n"}
                self.editor.change(self.uri, change, text=f"é😀\n{text}")
            case 9:
                self.begin("textDocument/hover", position={"line": 1, "character": 0})
            case 10:
                for each in self.editor.all("$/progress")[-1:]:
                    self.editor.tell("window/workDoneProgress/cancel", {"token": each["token"]})
            case 11:
                self.ask(command("pi.newSession"))
            case _:
                self.editor.read()

    def ask(self, params: dict[str, Any]) -> None:
        self.begun.append(self.editor.begin("workspace/executeCommand", params))

    def begin(self, method: str, **params: Any) -> None:
        document = {"textDocument": {"uri": self.uri}}
        self.begun.append(self.editor.begin(method, {**document, **params}))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_done_is_answered_once_and_ends(seed: int, tmp_path: Path) -> None:
    options = {"agentEvents": True}
    with lsp(tmp_path, REPLIES * 12, options=options) as editor:
        anything = Anything(editor, seed)
        for _ in range(40):
            # Something is always owed, so that reading never waits in vain.
            anything.begin("textDocument/hover", position={"line": 0, "character": 0})
            anything.act()
        anything.ask(command("pi.stop"))
        for number in anything.begun:
            editor.answer(number)
        # What was steered into a run of its own has no end but this.
        editor.answers["window/showMessageRequest"] = lambda params: params["actions"][0]
        done = editor.command("pi.prompt", {"text": "the last", "wait": True})
        assert done["stopReason"] in {"stop", "error", "toolUse"}
        text = editor.buffers[anything.uri][1]
        assert editor.end() == 0
        answers = Counter(each["id"] for each in editor.frames if "method" not in each)
        assert {answers[number] for number in anything.begun} == {1}
        kinds = Counter((each["token"], each["value"]["kind"]) for each in editor.all("$/progress"))
        for (token, kind), count in kinds.items():
            assert kind == "report" or count == 1, token
            assert kinds[token, "begin"] == kinds[token, "end"] == 1
        events = [each["event"] for each in editor.all("agent/event")]
        begun = {each["runId"] for each in events if each["type"] == "agent_start"}
        settled = Counter(each["runId"] for each in events if each["type"] == "agent_settled")
        assert set(settled.values()) == {1}
        assert set(settled) == begun
        assert (editor.project / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert text.endswith("three\n")
