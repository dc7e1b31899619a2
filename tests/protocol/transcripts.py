"""Conversations that a release has had, kept for ever, and held again with the daemon of today.

Owns the files below ``tests/golden/transcripts`` (a folder for each version of the protocol, and in
it one for each release), and what counts as the same: what was said is said again, fields, events
and items of open lists may be added, nothing is taken away and nothing changes its type or value.
What conversations there are is ``exchanges``' business, when they are recorded the release's:

    python -m tests.protocol.transcripts

A file is a line for each thing that happened, in order: the files that were there, a daemon that
was started (with the replies of its model), what the client and the daemon have sent, and what the
client did beside talking. Ids, times and places are placeholders of the same shape. Files of a
release are never written again.
"""

import json
import os
import queue
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

from pi_rpc import __version__
from pi_rpc.protocol.handshake import PROTOCOL_VERSION
from tests.protocol.daemon_process import ROOT
from tests.protocol.exchanges import EXCHANGES
from tests.protocol.recorder import (
    ELISION,
    IDS,
    SAME_SHAPE,
    Conversation,
    Frame,
    Placeholders,
)

Line: TypeAlias = dict[str, Any]

FOLDER = ROOT / "tests" / "golden" / "transcripts"
RELEASE = FOLDER / f"v{PROTOCOL_VERSION}" / __version__
"""Where the conversations of this release are."""

_SENDERS = {"→": "client", "←": "daemon"}
_HOME = "/home/ada"
_LISTS = {"models": 1}
"""Long lists; the first items show what the others are like."""

# --- what counts as the same ---------------------------------------------------------------------

_FOR_PEOPLE = frozenset(
    {"message", "errorMessage", "finalError", "description", "title", "version", "verbose"}
)
"""Texts that nothing depends on."""
_COUNTS = frozenset({"seq", "lastSeq"})
"""Numbers that move on where something is added."""
_FACTS = frozenset({"models"})
"""What is in these changes with the world; what it is like does not."""
_OPEN = frozenset(
    {
        *("methods", "events", "permissionModes", "thinkingLevels", "input"),
        *("tools", "commands", "options", "activeTools"),
    }
)
"""Lists that may have more items than there were."""


class Difference(Exception):
    """Something is not as it was."""


class Comparison:
    """Compares what is said with what was; remembers which id is which."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        """Of the ids that were recorded, what they are today."""

    def check(self, was: Any, now: Any) -> None:
        """Raises ``Difference`` unless ``now`` is at least ``was``."""
        known = dict(self.ids)
        try:
            self._same(was, now, "", "")
        except Difference:
            self.ids = known
            raise

    def _same(self, was: Any, now: Any, place: str, key: str, *, alike: bool = False) -> None:
        if type(was) is not type(now) and not (_is_number(was) and _is_number(now)):
            raise Difference(f"{place}: was {was!r}, is {now!r}")
        if isinstance(was, dict):
            for name, each in was.items():
                if name not in now:
                    raise Difference(f"{place}.{name} is gone; it was {each!r}")
                self._same(each, now[name], f"{place}.{name}", name, alike=alike)
        elif isinstance(was, list):
            self._items([each for each in was if each != ELISION], now, place, key, alike=alike)
        elif alike:
            pass
        elif isinstance(was, str):
            if key not in _FOR_PEOPLE:
                self._text(was, now, place)
        elif not (key in _COUNTS and _is_number(was)) and was != now:
            raise Difference(f"{place}: was {was!r}, is {now!r}")

    def _items(self, was: list[Any], now: list[Any], place: str, key: str, *, alike: bool) -> None:
        if key in _FACTS or alike:
            for each, other in zip(was, now, strict=False):
                self._same(each, other, f"{place}[]", "", alike=True)
            if was and not now:
                raise Difference(f"{place} is empty")
            return
        if key not in _OPEN and len(was) != len(now):
            raise Difference(f"{place}: had {len(was)} items, has {len(now)}: {now!r}")
        rest = iter(now)
        for index, each in enumerate(was):
            self._item(each, rest, f"{place}[{index}]", is_open=key in _OPEN)

    def _item(self, was: Any, rest: "Any", place: str, *, is_open: bool) -> None:
        problem = Difference(f"{place} is gone; it was {was!r}")
        for now in rest:
            try:
                self._same(was, now, place, "")
            except Difference as difference:
                if not is_open:
                    raise
                problem = difference
            else:
                return
        raise problem

    def _text(self, was: str, now: str, place: str) -> None:
        same = _without_ids(was) == _without_ids(now)
        pairs = list(zip(IDS.findall(was), IDS.findall(now), strict=False))
        if not same or any(self.ids.setdefault(each, other) != other for each, other in pairs):
            raise Difference(f"{place}: was {was!r}, is {now!r}")


def _without_ids(text: str) -> str:
    """A text with the shapes of ids in it."""
    return IDS.sub(lambda found: re.sub("[0-9a-f]", "0", found[0]), text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- holding one again ---------------------------------------------------------------------------


def replay(path: Path, home: Path) -> None:
    """Hold the conversation of a file again, in ``home``. Raises ``Difference``."""
    with Replay(home) as held:
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            ((what, details),) = json.loads(text).items()
            try:
                getattr(held, what)(details)
            except Difference as difference:
                raise Difference(f"{path.name}:{number}: {difference}") from None


class Replay(ExitStack):
    """The client's side of a conversation; its methods are what a line of a file can be."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self._comparison = Comparison()
        self._places = Placeholders(home, {}, {}, SAME_SHAPE)
        self._client: Conversation | None = None
        self._open_gate: Callable[[], None] | None = None

    @property
    def _talking(self) -> Conversation:
        assert self._client is not None
        return self._client

    def files(self, files: dict[str, Any]) -> None:
        """What is there when it begins."""
        for name, file in files.items():
            path = self._home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._as_of_today(file["text"]))
            path.chmod(file["mode"])

    def start(self, details: Line) -> None:
        """A daemon, in place of the one before."""
        self.close()
        client = Conversation(self._home, details["replies"], details["arguments"])
        self._client = self.enter_context(client)

    def client(self, frame: Frame) -> None:
        """What the client sends."""
        self._talking.put(self._as_of_today(frame))

    def daemon(self, frame: Frame) -> None:
        """What the daemon is to send next; more may come before it, but no answer."""
        wanted, problem = _kind(frame), Difference("it never came")

        def fits(given: Frame) -> bool:
            nonlocal problem
            try:
                self._comparison.check(frame, self._places.of(given))
            except Difference as difference:
                is_answer = "method" not in given
                if _kind(given) == wanted:
                    problem = difference
                if is_answer:
                    raise Difference(f"{frame}: {problem}; before it came {given}") from None
                return False
            return True

        try:
            self._talking.until(fits)
        except (EOFError, queue.Empty) as error:
            raise Difference(f"{frame}: {problem} ({type(error).__name__})") from None

    def write(self, details: Line) -> None:
        """The client writes a file."""
        self._talking.write(self._home / details["path"], self._as_of_today(details["text"]))

    def gate(self, details: Line) -> None:
        """The client makes ``check.sh`` wait."""
        self._open_gate = self.enter_context(self._talking.gate())

    def open(self, details: Line) -> None:
        """The client lets it go on."""
        assert self._open_gate is not None
        self._open_gate()

    def _as_of_today(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._as_of_today(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._as_of_today(each) for each in value]
        if key == "processId" and value is not None:
            return os.getpid()
        if not isinstance(value, str):
            return value
        real = {placeholder: each for each, placeholder in self._places.known.items()}

        def id_of_today(found: re.Match[str]) -> str:
            today = self._comparison.ids.get(found[0], found[0])
            return real.get(today, today)

        return IDS.sub(id_of_today, value).replace(_HOME, str(self._home))


def _kind(frame: Frame) -> object:
    """What a frame is: an answer, or a method, or an event."""
    event = frame.get("params", {}).get("event", {})
    return (frame["method"], event.get("type")) if "method" in frame else ("answer", frame["id"])


# --- recording one -------------------------------------------------------------------------------


def record(name: str, home: Path) -> str:
    """The file of one exchange, as it goes today."""
    files: dict[str, Any] | None = None
    lines: list[Line] = []

    def witness(client: Conversation, what: str, details: Any) -> None:
        nonlocal files
        if what == "→" and files is None:
            files = _files(client.home)
        lines.append({_SENDERS.get(what, what): details})

    Conversation.witness = witness
    try:
        EXCHANGES[name].hold(home)
    finally:
        Conversation.witness = None
    places = Placeholders(home, _LISTS, {}, SAME_SHAPE)
    told = [places.of(each) for each in [{"files": files}, *lines]]
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in told)


def _files(home: Path) -> dict[str, Any]:
    found = [each for each in sorted(home.rglob("*")) if each.is_file()]
    return {
        str(path.relative_to(home)): {"mode": path.stat().st_mode & 0o777, "text": path.read_text()}
        for path in found
        if path.name != "script.json"
    }


def write_release(folder: Path, names: Sequence[str]) -> None:
    """Record every exchange. Raises ``FileExistsError`` when the release has its files."""
    folder.mkdir(parents=True)
    for name in names:
        with tempfile.TemporaryDirectory() as home:
            text = record(name, Path(home).resolve() / "home")
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        write_release(RELEASE, list(EXCHANGES))
    except FileExistsError:
        sys.exit(f"{RELEASE} is there: what a release has said is never recorded again")
