"""Records what client and daemon really say to each other, for ``protocol.md``.

Owns the client of the recordings (a real process, lines of JSON, a deadline for every wait), the
placeholders that take the place of what differs from run to run, and the blocks of the document.
Which conversations are recorded is ``exchanges``' business.
"""

import json
import os
import queue
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from tests.deadlines import DEADLINE_S
from tests.protocol.daemon_process import DaemonProcess

ELISION = "…"
"""The last item of a list that goes on, and the end of a text that does."""

Frame: TypeAlias = dict[str, Any]
Step: TypeAlias = dict[str, Any]
Said: TypeAlias = tuple[Literal["→", "←"], Frame]


class Conversation(DaemonProcess):
    """A daemon in a project of its own, and everything that was said since recording began."""

    witness: "ClassVar[Callable[[Conversation, str, Any], None] | None]" = None
    """Told of all that happens, recording or not: ``start``, ``→``, ``←``, and what a client does
    beside talking: ``write``, ``gate`` and ``open``."""

    def __init__(
        self, home: Path, replies: Sequence[Sequence[Step]] = (), arguments: Sequence[str] = ()
    ) -> None:
        self.home = home
        self.project = home / "engine"
        self.project.mkdir(parents=True, exist_ok=True)
        self.said: list[Said] = []
        self.recording = True
        self._number = 0
        self._lines: queue.Queue[bytes] = queue.Queue()
        home.mkdir(parents=True, exist_ok=True)
        steps = [list(each) for each in replies]
        self._happened("start", {"replies": steps, "arguments": list(arguments)})
        environment = {"PI_CODING_AGENT_DIR": str(home / ".pi" / "agent")}
        if replies:
            script = home / "script.json"
            script.write_text(json.dumps({"replies": [{"steps": each} for each in steps]}))
            environment["PI_RPC_SCRIPT"] = str(script)
        super().__init__(home, self.project, arguments, environment, deadline_s=DEADLINE_S)

    def begin(self, params: Mapping[str, Any] | None = None) -> Frame:
        """Initialize without recording it, since it is the same everywhere."""
        self.recording = False
        answer = self.request("initialize", {"cwd": str(self.project), **(params or {})})
        self.recording = True
        return answer

    def send(self, method: str, params: Any = None) -> int:
        """Send a request; its id."""
        self._number += 1
        self._write({"id": self._number, "method": method}, params)
        return self._number

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self._write({"method": method}, params)

    def question(self, method: str) -> Frame:
        """Read up to a request of the daemon's."""
        return self.until(lambda frame: frame.get("method") == method and "id" in frame)

    def reply(self, question: Frame, result: Any) -> None:
        """Answer a request of the daemon's."""
        self.put({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def answer(self, number: int) -> Frame:
        """Read up to the answer to a request."""
        return self.until(lambda frame: frame.get("id") == number)

    def request(self, method: str, params: Any = None) -> Frame:
        """Send a request and read up to its answer."""
        return self.answer(self.send(method, params))

    def event(self, kind: str, **fields: Any) -> Frame:
        """Read up to an event of this type; ``fields`` must be among its own."""

        def fits(frame: Frame) -> bool:
            event = frame.get("params", {}).get("event", {})
            return event.get("type") == kind and fields.items() <= event.items()

        return self.until(fits)["params"]["event"]  # type: ignore[no-any-return]

    def until(self, wanted: Callable[[Frame], bool]) -> Frame:
        """Read up to the frame that is wanted."""
        while True:
            line = self._lines.get(timeout=DEADLINE_S)
            if not line:
                raise EOFError(f"the daemon ended; it had said {self.said}")
            frame = json.loads(line)
            self._happened("←", frame)
            if self.recording:
                self.said.append(("←", frame))
            if wanted(frame):
                return frame  # type: ignore[no-any-return]

    def end(self) -> int:
        """Read until the daemon has ended; its exit code."""
        while line := self._lines.get(timeout=DEADLINE_S):
            frame = json.loads(line)
            self._happened("←", frame)
            if self.recording:
                self.said.append(("←", frame))
        return self.process.wait(DEADLINE_S)

    def write(self, path: Path, text: str) -> None:
        """Write a file, as an editor beside the daemon would."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._happened("write", {"path": str(path.relative_to(self.home)), "text": text})

    @contextmanager
    def gate(self) -> Iterator[Callable[[], None]]:
        """``sh check.sh`` in the project says its piece and waits until what is given is called."""
        os.mkfifo(self.project / "gate")
        self.write(self.project / "check.sh", "echo '12 tests passed'\nread -r _ < gate\n")
        self._happened("gate", {})
        # Open for both, so that neither this nor the command waits for the other to open it.
        both = os.open(self.project / "gate", os.O_RDWR)

        def open_gate() -> None:
            self._happened("open", {})
            os.write(both, b"\n")

        try:
            yield open_gate
        finally:
            os.close(both)

    def _happened(self, what: str, details: Any) -> None:
        if Conversation.witness is not None:
            Conversation.witness(self, what, details)

    def _write(self, frame: Frame, params: Any) -> None:
        message = {"jsonrpc": "2.0", **frame}
        if params is not None:
            message["params"] = params
        self.put(message)

    def put(self, message: Frame) -> None:
        """Send a frame as it is."""
        self._happened("→", message)
        if self.recording:
            self.said.append(("→", message))
        self._input.write(json.dumps(message).encode() + b"\n")
        self._input.flush()

    def _read(self) -> None:
        for line in self._output:
            self._lines.put(line)
        self._lines.put(b"")


# --- placeholders -------------------------------------------------------------------------------

_NAMES = {
    re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"): "s{}",
    re.compile(r"\brun_[0-9a-f]{12}\b"): "run_{}",
    re.compile(r"\bcp_[0-9a-f]{17}\b"): "cp_{}",
    re.compile(r"\brule_[0-9a-f]{12}\b"): "rule_{}",
    re.compile(r"(?<![0-9a-f-])[0-9a-f]{16}(?![0-9a-f-])"): "epoch-{}",
    re.compile(r"(?<![0-9a-f_-])[0-9a-f]{8}(?![0-9a-f-])"): "{:08x}",
}
"""Ids, the longest kind first, and what stands for the first, second, … of them."""
SAME_SHAPE = (
    "00000000-0000-7000-8000-{:012x}",
    "run_{:012x}",
    "cp_{:017x}",
    "rule_{:012x}",
    "{:016x}",
    "{:08x}",
)
"""What stands for ids where it must be told again that they are some."""
IDS = re.compile("|".join(each.pattern for each in _NAMES))
_TOOK = re.compile(r"\bin [0-9.]+ ms\.")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d([:-])\d\d[:-]\d\d([.-])\d{3}Z")
_CONSTANT = {
    "timestamp": 1767225600000,
    "durationMs": 12.5,
    "wall_time_seconds": 0.012,
    "pid": 4711,
    "processId": 4711,
    "uptimeSeconds": 12.5,
    "residentBytes": 41943040,
    "meanMs": 1.5,
    "maxMs": 2.5,
    "bytes": 2048,
    # Estimates, which count the length of the working directory's name.
    "tokensBefore": 420,
    "estimatedTokensAfter": 415,
}


class Placeholders:
    """Puts the same values in place of what differs from run to run. One for each exchange."""

    def __init__(
        self,
        home: Path,
        lists: Mapping[str, int],
        texts: Mapping[str, int],
        forms: Iterable[str] = tuple(_NAMES.values()),
    ) -> None:
        """``lists`` and ``texts``: fields that are cut, and how many items or characters stay.
        ``forms``: of the placeholders of each kind of id."""
        self._forms = tuple(zip(_NAMES, forms, strict=True))
        self._places = {
            str(home): "/home/ada",
            str(home).strip("/").replace("/", "-"): "home-ada",
        }
        self._lists, self._texts = lists, texts
        self.known: dict[str, str] = {}
        """Ids, and what stands for them."""
        self._counts: dict[str, int] = {}

    def of(self, value: Any, key: str = "") -> Any:
        """``value`` with placeholders."""
        if key == "contextUsage":
            # An estimate, which counts the length of the working directory's name.
            return {**value, "tokens": 410, "percent": 0.2}
        if isinstance(value, dict):
            return {name: self.of(each, name) for name, each in value.items()}
        if isinstance(value, list):
            most = self._lists.get(key, len(value))
            cut = [ELISION] if len(value) > most else []
            return [self.of(each) for each in value[:most]] + cut
        if isinstance(value, str):
            return self._text(value, key)
        if key in _CONSTANT and isinstance(value, int | float) and not isinstance(value, bool):
            return _CONSTANT[key]
        return value

    def _text(self, text: str, key: str) -> str:
        for place, name in self._places.items():
            text = text.replace(place, name)
        for pattern, form in self._forms:
            text = pattern.sub(lambda found, form=form: self._name(found[0], form), text)  # type: ignore[misc]
        text = _ISO.sub(
            lambda found: "2026-01-01T00{0}00{0}00{1}000Z".format(*found.groups()), text
        )
        text = _TOOK.sub("in 1.5 ms.", text)
        most = self._texts.get(key, len(text))
        return text if len(text) <= most else text[:most] + ELISION

    def _name(self, found: str, form: str) -> str:
        if found in self.known.values():
            return found
        if found not in self.known:
            self._counts[form] = number = self._counts.get(form, 0) + 1
            self.known[found] = form.format(number)
        return self.known[found]


# --- the document -------------------------------------------------------------------------------


def as_lines(said: Sequence[Said]) -> str:
    """One frame a line, behind an arrow that says who wrote it."""
    return "".join(f"{sender} {_body(frame)}\n" for sender, frame in said)


def as_headers(said: Sequence[Said]) -> str:
    """Each frame with its header."""
    texts = ((sender, _body(frame)) for sender, frame in said)
    return "".join(
        f"{sender} Content-Length: {len(text.encode())}\n\n{text}\n" for sender, text in texts
    )


def block(document: str, name: str) -> str:
    """The recorded text behind the marker ``name``. Raises ``ValueError`` without one."""
    found = _pattern(name).search(document)
    if found is None:
        raise ValueError(f"the document has no block behind <!-- recorded:{name} -->")
    return found[2]


def with_block(document: str, name: str, text: str) -> str:
    """The document with ``text`` behind the marker ``name``."""
    block(document, name)
    return _pattern(name).sub(lambda found: found[1] + text + found[3], document)


def block_names(document: str) -> list[str]:
    """The names of the markers, in the order of the document."""
    return re.findall(r"^<!-- recorded:(\S+) -->$", document, re.MULTILINE)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- recorded:{re.escape(name)} -->\n```\n)(.*?)(```\n)", re.DOTALL)


def _body(frame: Frame) -> str:
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
