"""The clock and the random ids of sessions: all that makes two runs of the same thing differ.

Owns where both come from, and that they can be fixed while a recording is replayed. Not for what
must not be guessed, nor for time limits.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

__all__ = ["elapsed_s", "fixed", "now_ms", "random_bits", "random_hex"]


class _Fixed:
    """A clock that stands still, and ids that count."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.numbers = count(1)


_fixed: _Fixed | None = None


def now_ms() -> int:
    """The current time in Unix milliseconds."""
    return time.time_ns() // 1_000_000 if _fixed is None else _fixed.now_ms


def elapsed_s() -> float:
    """Seconds since some moment, to take differences of; fixed, all of them are zero."""
    return time.monotonic() if _fixed is None else 0.0


def random_bits(bits: int) -> int:
    """A random number of so many bits, a multiple of 8."""
    if _fixed is None:
        return int.from_bytes(os.urandom(bits // 8), "big")
    return next(_fixed.numbers) % (1 << bits)


def random_hex(length: int) -> str:
    """A random id: ``length`` bytes in hexadecimal."""
    return f"{random_bits(8 * length):0{2 * length}x}"


@contextmanager
def fixed(at_ms: int) -> Iterator[None]:
    """For the whole process: the clock stands at ``at_ms``, and ids are 1, 2, 3 and so on."""
    global _fixed  # noqa: PLW0603 - there is one clock
    before, _fixed = _fixed, _Fixed(at_ms)
    try:
        yield
    finally:
        _fixed = before
