"""Sends cases to a real daemon and keeps account of what must come back.

Owns the client of the fuzzing: it writes and reads at the same time, with a deadline for every
wait. Does not own the cases (``frames``) nor how many there are (the tests).
"""

import json
import threading
from collections import Counter, deque
from pathlib import Path
from typing import Any

import psutil

from tests.protocol.daemon_process import DaemonProcess
from tests.soak.frames import Case, Cases

DEADLINE_S = 120.0
_BATCH = 100
"""Cases that are sent before the daemon must show that it still answers."""
_LAST_CASES = 300


class Fuzzed(DaemonProcess):
    """A daemon that is sent nonsense, and what it has answered."""

    def __init__(self, home: Path) -> None:
        project = home / "project"
        project.mkdir(parents=True)
        (home / "script.json").write_text(
            json.dumps({"replies": [{"steps": [{"text": "Fine.", "pieces": 2}]}], "repeat": True})
        )
        (project / "a.txt").write_text("a\n")
        self.stderr = home / "stderr"
        self._errors = self.stderr.open("wb")
        self.project = project
        self.counts: Counter[str] = Counter()
        """Cases by kind."""
        self.errors: Counter[str] = Counter()
        """Errors by kind."""
        self._owed: dict[str, Case] = {}
        """Requests without an answer, by id as JSON."""
        self._settled: set[str] = set()
        self._recent: deque[Case] = deque(maxlen=_LAST_CASES)
        self._faults: list[str] = []
        self._pings = 0
        self._changed = threading.Condition()
        super().__init__(
            home,
            project,
            ["--model", "scripted/scripted"],
            {
                "PI_CODING_AGENT_DIR": str(home / "agent"),
                "PI_RPC_SCRIPT": str(home / "script.json"),
            },
            deadline_s=DEADLINE_S,
            stderr=self._errors,
            warm=False,
        )

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)
        self._errors.close()

    @property
    def places(self) -> dict[str, list[Any]]:
        """Values for fields that say where something is or what is run."""
        home = self.project.parent
        return {
            "sessionId": [*[None] * 6, "nowhere", ""],
            "cwd": [str(self.project), "/nowhere", "relative", None],
            "path": [str(home / "nowhere" / "a"), "a\0b", ""],
            "additionalDirectories": [[], [str(home)], ["/nowhere"], "x"],
            "command": ["true", "echo on", "printf '\\0'", "exit 3"],
            "apiKeyCommand": ["true"],
            "uri": [(self.project / "a.txt").as_uri(), "file:///nowhere", "untitled:1", "%%", ""],
            "model": ["scripted/scripted", "nobody/nothing", 5, {"provider": "scripted"}],
            "wait": ["accepted", "settled"],
        }

    def begin(self) -> None:
        """``initialize``."""
        case = Case(
            "initialize", b'{"jsonrpc":"2.0","id":"begin","method":"initialize"}', '"begin"'
        )
        self._send([case])
        self._settle()

    def fuzz(self, cases: Cases, number: int) -> None:
        """Send ``number`` cases; fails where the daemon does not bear them."""
        for _ in range(0, number, _BATCH):
            self._send([cases.next() for _ in range(_BATCH)])
            self.ping()
            self._wait(lambda: len(self._owed) < _BATCH, "requests pile up")

    def ping(self) -> None:
        """The daemon answers, whatever it was sent."""
        self._pings += 1
        identity = f"ping-{self._pings}"
        line = json.dumps({"jsonrpc": "2.0", "id": identity, "method": "ping"}).encode()
        self._send([Case("ping", line, json.dumps(identity))])
        self._wait(lambda: json.dumps(identity) not in self._owed, "a ping was not answered")

    def _settle(self) -> None:
        self._wait(lambda: not self._owed, "requests were not answered")

    def finish(self) -> int:
        """Everything that was owed has come; the daemon ends in order. Its resident memory."""
        self._settle()
        memory = int(psutil.Process(self.process.pid).memory_info().rss)
        self._input.close()
        assert self.process.wait(DEADLINE_S) == 0
        self._reader.join(DEADLINE_S)
        self._check()
        assert b"Traceback" not in self.stderr.read_bytes()
        return memory

    # --- both ways -------------------------------------------------------------------------------

    def _send(self, cases: list[Case]) -> None:
        with self._changed:
            for case in cases:
                self.counts[case.kind] += 1
                self._recent.append(case)
                if case.id is not None:
                    self._owed[case.id] = case
        self._input.write(b"".join(case.line + b"\n" for case in cases))
        self._input.flush()

    def _wait(self, done: Any, problem: str) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: done() or self._faults, DEADLINE_S):
                self._faults.append(f"{problem}: {[*self._owed.values()][:3]}")
        self._check()

    def _check(self) -> None:
        if self._faults:
            recent = b"\n".join(case.line for case in self._recent).decode("utf-8", "replace")
            raise AssertionError("\n".join([*self._faults, "the latest cases were:", recent]))

    def _read(self) -> None:
        for line in self._output:
            with self._changed:
                self._take(line)
                self._changed.notify_all()
        with self._changed:
            if self._owed:
                self._faults.append(f"the daemon ended and owes {[*self._owed.values()][:3]}")
            self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            frame = json.loads(line)
        except ValueError:
            self._faults.append(f"no frame: {line!r}")
            return
        if b"Traceback" in line:
            self._faults.append(f"a traceback: {line!r}")
        if "method" in frame:
            return
        if error := frame.get("error"):
            self.errors[error["data"]["kind"]] += 1
            if error["data"]["kind"] == "internalError":
                case = self._owed.get(json.dumps(frame["id"]))
                self._faults.append(f"an internal error: {line!r} for {case}")
        identity = json.dumps(frame["id"])
        if self._owed.pop(identity, None) is not None:
            self._settled.add(identity)
        elif identity in self._settled:
            self._faults.append(f"answered twice: {line!r}")
