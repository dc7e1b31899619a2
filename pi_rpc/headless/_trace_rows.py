"""Rows of a timeline: one line of a trace, or a run of deltas that is shown as one.

Owns how a row reads. Which rows there are is ``pi_rpc.headless.trace``'s.
"""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field

__all__ = ["Row", "Run", "subject"]

_MOST = 160
_SHORT_ID = 8


class Row(Struct):
    """What happened at a moment."""

    moment: datetime
    mark: str
    """Who speaks: ``→`` the client, ``←`` the daemon; ``!`` something is missing; ``─`` a break."""
    note: str
    method: str = ""
    id: Any = None
    session: str = ""
    event: str = ""
    seq: str = ""
    held: str = ""
    duration_ms: float | None = None
    is_answer: bool = False
    is_error: bool = False
    pair: int = 0
    """The same for a request and its answer; 0: neither."""

    def text(self) -> str:
        """For people: one line, whatever the frame holds."""
        parts = [self.moment.strftime("%H:%M:%S.%f")[:-3], self.mark]
        if self.is_error:
            parts.append("ERROR")
        if self.session:
            parts.append(f"[{self.session[-_SHORT_ID:]}]")
        if self.event:
            parts += [f"{self.seq:>5}", self.event]
        elif self.method and not self.note:
            parts.append(self.method)
        if self.id is not None:
            parts.append(f"#{self.id}")
        if self.is_answer and self.duration_ms is not None:
            parts.append(f"answered in {self.duration_ms:.1f} ms:")
        if self.note:
            parts.append(self.note)
        if self.held:
            parts.append(self.held)
        return _one_line(" ".join(parts))

    def json(self) -> str:
        """For programs."""
        fields: dict[str, Any] = {
            "time": self.moment.isoformat(),
            "from": {"→": "client", "←": "daemon"}.get(self.mark),
            "method": self.method,
            "id": self.id,
            "sessionId": self.session,
            "seq": self.seq,
            "event": self.event,
            "durationMs": None if self.duration_ms is None else round(self.duration_ms, 3),
            "isAnswer": self.is_answer,
            "isError": self.is_error,
            "note": self.note,
            "brief": self.held,
        }
        kept = {name: each for name, each in fields.items() if each not in (None, "", False)}
        return msgspec.json.encode(kept).decode()


class Run(Struct):
    """Deltas of one block, or of one command, in a row."""

    moment: datetime
    session: str
    first: dict[str, Any]
    seq: int
    size: int
    last: int = 0
    count: int = 1
    pieces: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.last = self.seq
        self.pieces = [_delta(self.first) or ""]

    @staticmethod
    def begins_with(event: dict[str, Any]) -> bool:
        """It is a delta."""
        return _delta(event) is not None

    def takes(self, event: dict[str, Any]) -> bool:
        """It is one of the same block."""
        return _delta(event) is not None and _block(event) == _block(self.first)

    def add(self, event: dict[str, Any], seq: int, size: int) -> None:
        """One more."""
        self.last, self.count, self.size = seq, self.count + 1, self.size + size
        if sum(map(len, self.pieces)) < _MOST:
            self.pieces.append(_delta(event) or "")

    def row(self) -> Row:
        """All of them as one."""
        kind = self.first.get("assistantMessageEvent", {}).get("type") or self.first["type"]
        seqs = str(self.seq) if self.count == 1 else f"{self.seq}-{self.last}"
        told = f"{self.count} as one, {self.size} bytes: {subject(''.join(self.pieces))}"
        return Row(
            self.moment,
            "←",
            "",
            method="agent/event",
            session=self.session,
            seq=seqs,
            event=str(kind),
            held=told,
        )


def subject(value: Any) -> str:
    """The beginning of a value, as JSON."""
    if value is None or value == {}:
        return ""
    try:
        text = msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, UnicodeError, TypeError):
        text = repr(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text)} characters)"


def _delta(event: dict[str, Any]) -> str | None:
    news: Any = event
    if event.get("type") == "message_update":
        news = event.get("assistantMessageEvent")
    elif event.get("type") == "tool_execution_update":
        news = event.get("partialResult")
    elif event.get("type") != "bash_output":
        return None
    delta = news.get("delta") if isinstance(news, dict) else None
    return delta if isinstance(delta, str) else None


def _block(event: dict[str, Any]) -> tuple[Any, ...]:
    news = event.get("assistantMessageEvent") or {}
    names = ("type", "messageId", "toolCallId", "token")
    return (*(event.get(name) for name in names), news.get("type"), news.get("contentIndex"))


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else "�" for each in text)
