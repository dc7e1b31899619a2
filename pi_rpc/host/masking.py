"""Taking credentials out of what people and programs are told.

Owns what counts as one, by its value, and that one which a model says in pieces is masked, too.
Does not own which values are secret, nor what is written where.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

__all__ = ["MASK", "MaskedEvents", "SecretMask", "secret_variables"]

MASK = "***"

_SHORTEST = 8
"""Shorter values are no secrets but words, such as the key that a local server ignores."""
_SHORTEST_OF_A_VARIABLE = 16
"""``POSTGRES_PASSWORD=postgres`` is no secret; masking it would make a mess of every text."""
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS")
_KEY_FIELD = "apiKey"
_DELTAS = {"text_delta", "thinking_delta", "toolcall_delta"}


def secret_variables(environ: Mapping[str, str]) -> list[str]:
    """The values of variables whose names say that they are credentials, such as ``GH_TOKEN``."""
    return [
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST_OF_A_VARIABLE
        and name.upper().replace("-", "_").rpartition("_")[2].endswith(_SECRET_NAMES)
    ]


class SecretMask:
    """What must not be told. Threads may share it."""

    def __init__(self, resolved: Callable[[], Iterable[str]] = tuple) -> None:
        """``resolved`` gives the credentials known so far, each time something is looked at."""
        self._resolved = resolved
        self._lock = threading.Lock()
        self._found: set[str] = set()
        self._values: list[str] = []
        self._patterns: list[bytes] = []
        self._known = 0

    def add(self, value: str) -> None:
        """``value`` is a credential."""
        if len(value) >= _SHORTEST:
            self._found.add(value)

    def text(self, text: str) -> str:
        """``text`` without what is known to be a credential."""
        with self._lock:
            self._look()
            return self._without(text)

    def json(self, line: bytes) -> bytes:
        """A line of JSON, as ours are written, without what is known to be a credential."""
        with self._lock:
            self._look()
            for pattern in self._patterns:
                line = line.replace(pattern, MASK.encode())
            return line

    def held_back(self, text: str) -> int:
        """How many characters at the end of ``text`` may be the beginning of a credential."""
        with self._lock:
            self._look()
            return max((_overlap(text, value) for value in self._values), default=0)

    @property
    def is_needed(self) -> bool:
        """There is something to mask."""
        with self._lock:
            self._look()
            return bool(self._values)

    # --- how; the lock is held -------------------------------------------------------------------

    def _look(self) -> None:
        values = {each for each in self._resolved() if len(each) >= _SHORTEST} | self._found
        if len(values) == self._known:
            return
        self._known = len(values)
        # One may be part of another.
        self._values = sorted(values, key=len, reverse=True)
        self._patterns = [msgspec.json.encode(each)[1:-1] for each in self._values]

    def _below(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._without(value)
        if isinstance(value, list):
            return [self._below(each) for each in value]
        if isinstance(value, dict):
            return {
                name: MASK if name == _KEY_FIELD and each else self._below(each)
                for name, each in value.items()
            }
        return value

    def _without(self, text: str) -> str:
        for each in self._values:
            if each in text:
                text = text.replace(each, MASK)
        return text


class MaskedEvents:
    """The events of one session, without credentials, also where deltas bring one in pieces."""

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        self._held: dict[tuple[str, int], tuple[dict[str, Any], str]] = {}
        """By block: its last delta event, and what of its text was not told yet."""

    def masked(self, line: bytes) -> list[bytes]:
        """What to tell for a wire event in JSON; a delta may have to wait for the next."""
        if not self._mask.is_needed:
            return [line]
        if b'"message_update"' not in line[:40]:
            return [self._mask.json(line)]
        event = msgspec.json.decode(line)
        said = event["assistantMessageEvent"]
        block = (event["messageId"], said["contentIndex"])
        if said["type"] not in _DELTAS:
            return [*self._rest(block), self._mask.json(line)]
        _, before = self._held.pop(block, (None, ""))
        text = self._mask.text(before + said["delta"])
        if held := self._mask.held_back(text):
            self._held[block] = (event, text[-held:])
            text = text[:-held]
        said["delta"] = text
        return [msgspec.json.encode(event)] if text else []

    def _rest(self, block: tuple[str, int]) -> list[bytes]:
        event, text = self._held.pop(block, (None, ""))
        if event is None:
            return []
        event["assistantMessageEvent"]["delta"] = text
        return [msgspec.json.encode(event)]


def _overlap(text: str, value: str) -> int:
    """How long a beginning of ``value`` is at the end of ``text``, all of it excepted."""
    longest = min(len(text), len(value) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(value[:size])), 0)
