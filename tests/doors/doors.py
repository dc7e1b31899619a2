"""The front doors with a wire, each as the tests of all doors use it: a process and its client.

What they have in common is asked for in one way: a session that has said something, the five things
that may go on in it, and what ends it. What a protocol does not have is in ``LACKS``, with why.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.acp.client import Client, text
from tests.lsp.client import ABLE, Editor
from tests.lsp.client import command as lsp_command
from tests.server.wire import Wire
from tests.warm import Daemon

__all__ = ["DOORS", "Door", "Replies"]

Replies = Sequence[Sequence[dict[str, Any]]]
"""What a scripted model says, in turn."""


class Door(ABC):
    """A process behind a front door, and its client."""

    ARGUMENT: ClassVar[str]
    LACKS: ClassVar[Mapping[str, str]] = {}
    """Ends that the protocol does not have, and why."""

    def __init__(self, process: Daemon, home: Path) -> None:
        """``home`` has a folder ``project``."""
        self.process = process
        self.home = home
        self.project = home / "project"

    @abstractmethod
    def greet(self, process_id: int) -> None:
        """``initialize``, for a client with this process."""

    @abstractmethod
    def warm(self) -> None:
        """Have a session say one thing; its model is scripted to."""

    @abstractmethod
    def idle(self) -> None:
        """Nothing goes on."""

    @abstractmethod
    def command(self) -> None:
        """A prompt whose model runs a command, which is permitted."""

    @abstractmethod
    def permission(self) -> None:
        """The same, and the question for it has come."""

    @abstractmethod
    def question(self) -> None:
        """``/ask`` asks, and the question has come."""

    @abstractmethod
    def compaction(self) -> None:
        """One more prompt, then a compaction that has begun."""

    @abstractmethod
    def poke(self) -> None:
        """Say something that is answered."""

    def exit(self) -> None:
        """Send ``exit``."""
        raise NotImplementedError(self.LACKS["exit"])


class Native(Door):
    """``--stdio``."""

    ARGUMENT = "--stdio"

    def greet(self, process_id: int) -> None:
        self.client = Wire(self.process)
        params = {"processId": process_id, "capabilities": {"permission": True, "ui": True}}
        params |= {"initializationOptions": {"session": {"permissionMode": "full"}}}
        self.client.ask("initialize", {**params, "rootUri": self.project.as_uri()})

    def warm(self) -> None:
        assert self.client.ask("prompt", {"message": "hi"})["text"] == "warm"

    def idle(self) -> None:
        assert self.client.ask("session/state")["phase"] == "idle"

    def command(self) -> None:
        self.client.say("prompt", {"message": "go"})
        self.client.until("tool_execution_start")

    def permission(self) -> None:
        self.client.ask("session/configure", {"permissionMode": "ask"})
        self.client.say("prompt", {"message": "go"})
        self.client.call("permission/request")

    def question(self) -> None:
        self.client.say("prompt", {"message": "/ask"})
        self.client.call("ui/confirm")

    def compaction(self) -> None:
        self.client.ask("prompt", {"message": "And now?"})
        self.client.say("compact")
        self.client.until("compaction_start")

    def poke(self) -> None:
        self.client.say("ping")

    def exit(self) -> None:
        self.client.say("exit", wants_answer=False)


class Acp(Door):
    """``--acp``."""

    ARGUMENT = "--acp"
    LACKS: ClassVar = {
        "exit": "the protocol has no such message",
        "death of processId": "the protocol names no process of the client's",
    }

    def greet(self, process_id: int) -> None:
        self.client = Client(self.process, self.home)
        able = {"elicitation": {"form": {}}}
        self.client.ask("initialize", protocolVersion=1, clientCapabilities=able)

    def warm(self) -> None:
        self.session = self.client.new()
        assert self.client.prompt(self.session, "hi") == "end_turn"

    def idle(self) -> None:
        assert self.client.ask("session/list")["sessions"]

    def command(self) -> None:
        allowed = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        self._asked("session/request_permission", "go", allowed)

    def permission(self) -> None:
        self._asked("session/request_permission", "go", None)

    def question(self) -> None:
        self._asked("elicitation/create", "/ask", None)

    def _asked(self, method: str, words: str, answer: Any) -> None:
        self.client.answers[method] = lambda params: answer
        self.client.begin("session/prompt", sessionId=self.session, prompt=text(words))
        self.client.until_asked(method)

    def compaction(self) -> None:
        self.client.prompt(self.session, "And now?")
        begun = self.client.begin("_pi/compact", sessionId=self.session)
        # It has begun where the one behind it is answered.
        self.client.ask("session/set_mode", sessionId=self.session, modeId="full")
        assert not self.client.count(begun)

    def poke(self) -> None:
        self.client.begin("session/list")


class Lsp(Door):
    """``--lsp``."""

    ARGUMENT = "--lsp"

    def greet(self, process_id: int) -> None:
        self.client = Editor(self.process, self.home)
        params = {"processId": process_id, "rootUri": self.project.as_uri(), "capabilities": ABLE}
        self.client.ask("initialize", params)

    def warm(self) -> None:
        assert self.client.command("pi.prompt", {"text": "hi", "wait": True})["text"] == "warm"

    def idle(self) -> None:
        assert self.client.command("pi.stop")

    def command(self) -> None:
        self._asked("go", lambda params: params["actions"][0])

    def permission(self) -> None:
        self._asked("go", lambda params: NotImplemented)

    def question(self) -> None:
        self._asked("/ask", lambda params: NotImplemented)

    def _asked(self, words: str, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.client.answers["window/showMessageRequest"] = answer
        self.client.begin("workspace/executeCommand", lsp_command("pi.prompt", words))
        self.client.called("window/showMessageRequest")

    def compaction(self) -> None:
        self.client.command("pi.prompt", {"text": "And now?", "wait": True})
        self.client.command("pi.compact")
        self.client.until(lambda each: "shortening" in str(each))

    def poke(self) -> None:
        self.client.begin("textDocument/none")

    def exit(self) -> None:
        self.client.tell("exit")


DOORS: dict[str, type[Door]] = {"native": Native, "acp": Acp, "lsp": Lsp}
