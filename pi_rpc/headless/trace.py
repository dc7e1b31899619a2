"""``pi-rpc trace show``: what ``--trace`` has recorded, as a timeline.

Owns reading a trace line by line, pairing answers with requests, and the words. The format of the
file is described in ``pi_rpc.doors.tracing``. Exit codes: 0 shown, 2 the file cannot be read.
"""

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from pi_rpc.headless._trace_rows import Row, Run, subject

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["Timeline", "run_trace"]

_FAILED = 2


def run_trace(arguments: "Namespace") -> int:
    """Print it; returns the exit code."""
    timeline = Timeline(lambda text: sys.stderr.write(f"pi-rpc trace: {text}\n"))
    try:
        if arguments.file == "-":
            lines: Iterable[bytes] = [] if sys.stdin is None else sys.stdin.buffer
            _print(timeline.rows(lines), arguments, sys.stdout)
        else:
            with Path(arguments.file).open("rb") as file:
                _print(timeline.rows(file), arguments, sys.stdout)
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(f"pi-rpc trace: {arguments.file} cannot be read: {reason}\n")
        return _FAILED
    return 0


def _print(rows: Iterator[Row], arguments: "Namespace", output: TextIO) -> None:
    if arguments.session:
        # Whose a request is that names no session, its answer says.
        kept = list(rows)
        theirs = {row.pair for row in kept if row.pair and row.session == arguments.session}
        rows = iter([row for row in kept if row.session == arguments.session or row.pair in theirs])
    for row in rows:
        if arguments.method not in {None, row.method, row.event}:
            continue
        output.write(f"{row.json() if arguments.json else row.text()}\n")
    output.flush()


class Timeline:
    """Makes rows of the lines of a trace. ``complain`` is told of lines that are none."""

    def __init__(self, complain: Any) -> None:
        self._complain = complain
        self._asked: dict[tuple[str, Any], tuple[Row, datetime]] = {}
        """Requests without an answer, by who asked and their id."""
        self._seqs: dict[str, int] = {}
        self._runs: dict[str, Run] = {}
        """Deltas that are being counted, by session."""
        self._pairs = 0

    def rows(self, lines: Iterable[bytes]) -> Iterator[Row]:
        """The rows in order of time; at the end, what has no answer."""
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = msgspec.json.decode(line)
                moment = datetime.fromisoformat(record["time"])
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                self._complain(f"line {number} is skipped: it is no JSON")
                continue
            except (KeyError, TypeError, ValueError):
                self._complain(f"line {number} is skipped: it has no time")
                continue
            yield from self._record(record, moment, number)
        yield from self._flushed()
        yield from self._unanswered()

    def _record(self, record: dict[str, Any], moment: datetime, number: int) -> Iterator[Row]:
        match record:
            case {"start": start}:
                yield from self._flushed()
                yield from self._unanswered()
                self._seqs.clear()
                yield Row(moment, "─", f"a daemon began: {subject(start)}")
            case {"dropped": gap}:
                yield from self._flushed()
                yield Row(moment, "!", f"gap: not recorded: {subject(gap)}", is_error=True)
            case {"direction": "in" | "out" as direction, "frame": dict() as frame}:
                size = record.get("bytes", 0)
                yield from self._frame(moment, direction, frame, size)
            case {"direction": "in" | "out" as direction}:
                yield from self._flushed()
                what = record.get("problem", record.get("text", record.get("frame")))
                text = f"no message: {subject(what)}"
                yield Row(moment, _arrow(direction), text, is_error=True)
            case _:
                self._complain(f"line {number} is skipped: it is none of a trace")

    def _frame(
        self, moment: datetime, direction: str, frame: dict[str, Any], size: int
    ) -> Iterator[Row]:
        method, id = frame.get("method"), frame.get("id")
        named = frame.get("params")
        params: dict[str, Any] = named if isinstance(named, dict) else {}
        is_event = isinstance(params.get("event"), dict) and isinstance(params.get("seq"), int)
        if method == "agent/event" and is_event:
            yield from self._event(moment, params, size)
            return
        yield from self._flushed()
        if not isinstance(method, str):
            yield self._answer(moment, direction, frame)
            return
        row = Row(moment, _arrow(direction), "", method=method, session=_session(params))
        row.held = subject(named)
        if id is not None:
            self._pairs += 1
            row.id, row.pair = id, self._pairs
            self._asked[direction, _key(id)] = (row, moment)
        yield row

    def _answer(self, moment: datetime, direction: str, frame: dict[str, Any]) -> Row:
        id, error = frame.get("id"), frame.get("error")
        asked = self._asked.pop(("out" if direction == "in" else "in", _key(id)), None)
        row = Row(moment, _arrow(direction), "", id=id, is_answer=True)
        if asked is None:
            row.note = "nothing asked for it"
        else:
            row.method, row.pair, row.session = asked[0].method, asked[0].pair, asked[0].session
            row.duration_ms = (moment - asked[1]).total_seconds() * 1000
        result = frame.get("result")
        if isinstance(result, dict):
            row.session = row.session or _session(result)
        if error is not None:
            row.is_error = True
            row.held = subject(error)
        else:
            row.held = subject(result)
        return row

    def _event(self, moment: datetime, params: dict[str, Any], size: int) -> Iterator[Row]:
        session, seq, event = _session(params), params["seq"], params["event"]
        last = self._seqs.get(session)
        self._seqs[session] = seq
        if last is not None and seq != last + 1:
            yield from self._flushed()
            if seq == 1:
                yield Row(moment, "─", "numbers start over: another epoch", session=session)
            else:
                text = f"gap: events {last + 1} to {seq - 1} are not here"
                yield Row(moment, "!", text, session=session, is_error=True)
        run = self._runs.get(session)
        if run is not None and run.takes(event):
            run.add(event, seq, size)
            return
        if Run.begins_with(event):
            if run is not None:
                yield self._runs.pop(session).row()
            self._runs[session] = Run(moment, session, event, seq, size)
            return
        yield from self._flushed()
        row = Row(moment, "←", "", method="agent/event", session=session, seq=str(seq))
        row.event = str(event.get("type"))
        row.held = subject({name: each for name, each in event.items() if name != "type"})
        row.is_error = bool(event.get("isError") or event.get("stopReason") == "error")
        yield row

    def _flushed(self) -> Iterator[Row]:
        runs, self._runs = self._runs, {}
        for run in sorted(runs.values(), key=lambda each: each.moment):
            yield run.row()

    def _unanswered(self) -> Iterator[Row]:
        for row, moment in self._asked.values():
            text = f"no answer to {row.method} #{row.id}"
            yield Row(moment, "!", text, method=row.method, session=row.session, is_error=True)
        self._asked.clear()


def _arrow(direction: str) -> str:
    return "→" if direction == "in" else "←"


def _session(params: dict[str, Any]) -> str:
    return str(params.get("sessionId") or "")


def _key(id: Any) -> Any:
    return id if isinstance(id, str | int | float) else None
