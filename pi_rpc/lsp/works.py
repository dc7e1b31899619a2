"""What goes on at the editor's request: shown as progress, told on hover, stopped.

Owns that every progress that began ends exactly once, where in a document something goes on while
that document changes, and which requests may be stopped how. Does not own what is done
(``pi_rpc.lsp.commands``).
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

import anyio

from pi_rpc.agent.tool import Range
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.lsp.documents import LineChange
from pi_rpc.lsp.shapes import PlaceArguments

__all__ = ["Work", "Works"]

_CREATE_S = 10.0
"""How long the editor may take to say that it shows progress."""


class Work:
    """Something that was asked of a session, until it has ended."""

    def __init__(self, title: str, session_id: str, place: PlaceArguments | None = None) -> None:
        self.title = title
        self.session_id = session_id
        self.doing = "waiting"
        self.cancelled = False
        self.ended = anyio.Event()
        self._began = time.monotonic()
        self._stop: Callable[[], None] | None = None
        self.uri: str | None = None
        if place is not None and place.uri and place.range:
            self.uri = place.uri
            self._first, self._last = _lines(place.range)

    def cancel(self) -> None:
        """Stop it as soon as it can be."""
        self.cancelled = True
        if self._stop is not None:
            self._stop()

    def stops_by(self, stop: Callable[[], None]) -> None:
        """From now on ``stop`` stops it; at once, if it was cancelled before."""
        self._stop = stop
        if self.cancelled:
            stop()

    def is_at(self, uri: str, line: int) -> bool:
        """It is about this line."""
        return self.uri == uri and self._first <= line <= self._last

    def meets(self, uri: str, part: Range) -> bool:
        """It is about some line of ``part``."""
        first, last = _lines(part)
        return self.uri == uri and self._first <= last and first <= self._last

    def moved(self, change: LineChange) -> None:
        """Lines have changed: it stays with the text that it is about."""
        if change.uri != self.uri or change.first > self._last:
            return
        if change.last < self._first:
            self._first += change.more
        self._last = max(self._last + change.more, self._first)

    def story(self) -> str:
        """What is going on, as plain text: a model's words are no Markdown of ours."""
        seconds = round(time.monotonic() - self._began)
        return f"pi · {self.title} · {seconds} s\n\n{self.doing}"


class Works:
    """All of one editor."""

    def __init__(self, peer: Peer, asking: Asking, *, shows_progress: bool) -> None:
        self._peer = peer
        self._asking = asking
        self._shows_progress = shows_progress
        self._works: dict[Work, int | str] = {}
        """Those that go on, with the tokens of their progress."""
        self._shown: set[Work] = set()
        """Those whose progress has begun."""
        self._numbers = itertools.count(1)
        self._idle = anyio.Event()

    def begin(self, work: Work, token: int | str | None = None) -> None:
        """``work`` goes on; ``token``: the editor's own for its progress."""
        self._works[work] = f"pi-{next(self._numbers)}" if token is None else token
        if token is not None:
            self._begin_progress(work)

    async def show(self, work: Work) -> None:
        """Have the editor show the progress of ``work``, if it does and has no token of its own."""
        if work in self._shown or work not in self._works or not self._shows_progress:
            return
        method = "window/workDoneProgress/create"
        params = {"token": self._works[work]}
        if await self._asking.granted(method, params, timeout_s=_CREATE_S) and work in self._works:
            self._begin_progress(work)

    def end(self, work: Work, how: str) -> None:
        """``work`` has ended."""
        if work in self._shown:
            self._shown.discard(work)
            self._progress(work, {"kind": "end", "message": how})
        del self._works[work]
        work.ended.set()
        if not self._works:
            self._idle.set()
            self._idle = anyio.Event()

    def report(self, session_id: str, doing: str) -> None:
        """What a session is doing now."""
        for work in self._works:
            # Those behind the first wait for their turn.
            if work.session_id == session_id:
                if work.doing != doing:
                    work.doing = doing
                    if work in self._shown:
                        self._progress(work, {"kind": "report", "message": doing})
                return

    def cancel(self, token: int | str) -> None:
        """``window/workDoneProgress/cancel``."""
        for work, known in self._works.items():
            if known == token:
                work.cancel()

    def cancel_all(self) -> None:
        """Stop everything that was asked for up to now."""
        for work in self._works:
            work.cancel()

    def moved(self, change: LineChange) -> None:
        """Lines of a document have changed."""
        for work in self._works:
            work.moved(change)

    def at(self, uri: str, line: int) -> Work | None:
        """What goes on there."""
        return next((work for work in self._works if work.is_at(uri, line)), None)

    def meets(self, uri: str, part: Range) -> bool:
        """Something goes on there."""
        return any(work.meets(uri, part) for work in self._works)

    def is_going_on(self, session_id: str) -> bool:
        """Something was asked of a session that has not ended."""
        return any(work.session_id == session_id for work in self._works)

    async def ended(self) -> None:
        """Return once nothing goes on."""
        while self._works:
            await self._idle.wait()

    def _begin_progress(self, work: Work) -> None:
        self._shown.add(work)
        begin = {
            "kind": "begin",
            "title": f"pi: {work.title}",
            "cancellable": True,
            "message": work.doing,
        }
        self._progress(work, begin)

    def _progress(self, work: Work, value: dict[str, Any]) -> None:
        self._peer.notify("$/progress", {"token": self._works[work], "value": value})


def _lines(part: Range) -> tuple[int, int]:
    """The first line and the last; one that ends before its first character is none."""
    first, last = part.start.line, part.end.line
    if part.end.character == 0 and last > first:
        last -= 1
    return first, last
