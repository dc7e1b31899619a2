"""What ``pi-rpc run`` prints: lines of JSON while it goes on, or the answer when it is there.

Owns the forms of the output. Credentials are masked in all of them. Does not own the streams
(``pi_rpc.headless.console``) nor the result (``pi_rpc.headless.result``).
"""

import os
import stat
import sys
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from pi_rpc.agent.events import AgentEvent, ToolExecutionUpdate
from pi_rpc.headless import github
from pi_rpc.headless.console import Answer, Notes
from pi_rpc.headless.progress import Progress
from pi_rpc.headless.render import RunRenderer
from pi_rpc.headless.result import RunResult, report
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.masking import MaskedEvents
from pi_rpc.protocol.convert import EntryIds, to_wire
from pi_rpc.protocol.encode import encode

__all__ = ["ForPeople", "Form", "JsonLines", "Output"]

Form: TypeAlias = Literal["text", "json", "markdown"]


class Output(Protocol):
    """Is told what happens, in order."""

    def begin(self, hosted: HostedSession) -> None:
        """The session is open."""
        ...

    def take(self, events: Sequence[AgentEvent]) -> None:
        """Something happened."""
        ...

    def end(self, result: RunResult) -> None:
        """It is over."""
        ...


class JsonLines:
    """Every event as a line of JSON, between a header and a result."""

    def __init__(
        self, answer: Answer, masked: MaskedEvents, *, is_replay: bool, for_github: bool
    ) -> None:
        self._answer = answer
        self._masked = masked
        self._is_replay = is_replay
        self._for_github = for_github
        self._entry_ids = EntryIds()
        self._began = False

    def begin(self, hosted: HostedSession) -> None:
        """Write the header."""
        session = hosted.harness.session
        self._began = True
        self._line({"type": "session", "sessionId": session.session_id, "cwd": session.cwd})

    def take(self, events: Sequence[AgentEvent]) -> None:
        """Write the events."""
        for event in events:
            if self._is_replay and isinstance(event, ToolExecutionUpdate):
                continue  # How often a tool reports depends on how fast it is.
            wire = to_wire(event, entry_ids=self._entry_ids.observe(event))
            for line in self._masked.masked(encode(wire)):
                self._write(line)

    def end(self, result: RunResult) -> None:
        """Write the result, unless nothing had begun."""
        if self._began:
            self._line(result.record())

    def _line(self, value: Any) -> None:
        for line in self._masked.masked(encode(value)):
            self._write(line)

    def _write(self, line: bytes) -> None:
        self._answer.line((github.quoted_json(line) if self._for_github else line) + b"\n")


class ForPeople:
    """The answer on standard output, what happens on standard error."""

    def __init__(
        self,
        form: Form,
        answer: Answer,
        notes: Notes,
        masked: MaskedEvents,
        *,
        is_json: bool,
        for_github: bool,
    ) -> None:
        """``is_json``: an answer that is no JSON as it should be is none. Otherwise, on a terminal,
        all text is written as it streams."""
        self._form = form
        self._is_json = is_json
        self._answer = answer
        self._masked = masked
        self._for_github = for_github
        streams = form == "text" and answer.is_terminal
        self._streams = streams and not (is_json or for_github)
        self._renderer = RunRenderer(answer if self._streams else None, notes)
        self._began = False
        self.progress = Progress(notes)

    def begin(self, hosted: HostedSession) -> None:
        """Nothing is said yet."""
        del hosted
        self._began = True

    def take(self, events: Sequence[AgentEvent]) -> None:
        """Draw the events."""
        for event in events:
            for line in self._masked.masked(encode(to_wire(event))):
                shown = msgspec.json.decode(line)
                self.progress.take(shown)
                self._renderer.draw(shown)

    def end(self, result: RunResult) -> None:
        """Write the answer."""
        if not self._began:
            return
        if self._form == "json":
            self._say(encode(result.record()).decode() + "\n")
        elif result.handled:
            return
        elif self._form == "markdown":
            self._say(report(result))
        elif result.output is not msgspec.UNSET:
            self._say(encode(result.output).decode() + "\n")
        elif result.text and not (self._streams or self._is_json):
            self._say(result.text if result.text.endswith("\n") else f"{result.text}\n")

    def _say(self, text: str) -> None:
        # A file is nobody's log, and holds what was said to the letter.
        if self._for_github and not _is_file():
            is_json = self._form == "json"
            text = github.quoted_json(text.encode()).decode() if is_json else github.quoted(text)
        self._answer.write(text)


def _is_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False
