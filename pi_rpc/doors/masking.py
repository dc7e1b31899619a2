"""Taking credentials out of what is recorded of a connection.

Owns which frames carry one: those with values that are known (``pi_rpc.host.masking``), the fields
for them (``apiKey``, all of ``auth/set``), answers to questions that were secret. Does not own
where what is left goes. A key that a model says in pieces, one delta at a time, is not known
again.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from pi_rpc.host.masking import MASK, SecretMask

__all__ = ["MASK", "Masks"]

_KEY_FIELD = "apiKey"
_TELLING = (b"auth/set", b"apiKey")
"""What cannot be read and holds one of these is not shown at all."""
_SHOWN = frozenset({"provider", "apiKeyEnv"})
"""Params of ``auth/set`` that hold no key. A command may, in its text."""
_SECRET_QUESTION = b'"method":"ui/input"'
_HEAD_BYTES = 80
"""A question of ours names its method within these."""


class _Head(Struct):
    id: Any = None
    method: Any = None


class _Question(Struct):
    id: str
    params: "_QuestionParams"


class _QuestionParams(Struct):
    secret: bool = False


_head = msgspec.json.Decoder(_Head)
_question = msgspec.json.Decoder(_Question)


class Masks(SecretMask):
    """What must not be told of a connection. Threads may share it."""

    def __init__(self, resolved: Callable[[], Iterable[str]] = tuple) -> None:
        """``resolved`` gives the credentials known so far, each time something is looked at."""
        super().__init__(resolved)
        self._secret_questions: set[str] = set()

    def came(self, frame: bytes) -> bytes:
        """A frame of the other end, without credentials."""
        with self._lock:
            try:
                head = _head.decode(frame)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return self._unreadable(frame)
            if head.method == "auth/set":
                return self._changed(frame, self._in_auth_set)
            if head.method is None and str(head.id) in self._secret_questions:
                return self._changed(frame, self._in_answer)
            # A client may have escaped what we would not.
            return self._masked(frame, thorough=b"\\" in frame)

    def sent(self, frame: bytes) -> bytes:
        """A frame of ours, without credentials."""
        with self._lock:
            if _SECRET_QUESTION in frame[:_HEAD_BYTES]:
                self._note(frame)
            return self._masked(frame, thorough=False)

    # --- how -------------------------------------------------------------------------------------

    def _note(self, frame: bytes) -> None:
        with contextlib.suppress(msgspec.MsgspecError):  # something that quotes a question
            question = _question.decode(frame)
            if question.params.secret:
                self._secret_questions.add(question.id)

    def _masked(self, frame: bytes, *, thorough: bool) -> bytes:
        self._look()
        if b'"apiKey"' in frame or any(pattern in frame for pattern in self._patterns):
            return self._changed(frame, self._below)
        return self._changed(frame, self._below) if thorough and self._values else frame

    def _unreadable(self, frame: bytes) -> bytes:
        self._look()
        if self._secret_questions or any(each in frame for each in _TELLING):
            return MASK.encode()
        for pattern in self._patterns:
            frame = frame.replace(pattern, MASK.encode())
        return frame

    def _changed(self, frame: bytes, change: Callable[[Any], Any]) -> bytes:
        self._look()
        try:
            value = msgspec.json.decode(frame)
            changed = change(value)
            return frame if changed == value else msgspec.json.encode(changed)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._unreadable(frame)

    def _in_auth_set(self, frame: dict[str, Any]) -> dict[str, Any]:
        params = frame.get("params")
        if not isinstance(params, dict):
            return {**frame, "params": MASK} if params else frame
        for name, value in params.items():
            if name == _KEY_FIELD and isinstance(value, str):
                self.add(value.strip())
        shown = {name: each if name in _SHOWN else MASK for name, each in params.items()}
        return {**frame, "params": self._below(shown)}

    def _in_answer(self, frame: dict[str, Any]) -> dict[str, Any]:
        result = frame.get("result")
        if isinstance(result, dict) and isinstance(value := result.get("value"), str):
            self.add(value)
        return {**frame, "result": MASK} if result is not None else frame
