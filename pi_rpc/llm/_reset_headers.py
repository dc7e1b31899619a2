"""When a limit that was reached is reset, as vendors say it in headers of their own.

Owns the reading of ``x-ratelimit-remaining-*`` with ``x-ratelimit-reset-*`` (OpenAI, Azure, Groq,
OpenRouter and others) and ``anthropic-ratelimit-*-remaining`` with ``-reset``. Only limits of which
nothing remains count: the others tell when they would be whole again, which nobody waits for. Does
not own ``retry-after``, which says what to do and comes first (``pi_rpc.llm.failures``).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

__all__ = ["until_reset_ms"]

_DURATION = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000, 1)
_EPOCH_S = 1e9
_EPOCH_MS = 1e12


def until_reset_ms(headers: Mapping[str, str]) -> int | None:
    """Until the last of the exhausted limits is reset; None when no header says so.

    ``headers`` have lower-case names.
    """
    waits = [
        wait
        for name, value in headers.items()
        if "ratelimit" in name and "remaining" in name and value.strip() == "0"
        if (wait := _wait_ms(headers.get(name.replace("remaining", "reset"), ""))) is not None
    ]
    return max(waits, default=None)


def _wait_ms(value: str) -> int | None:
    """From ``6m0s``, ``120ms``, seconds, a moment in seconds or milliseconds, or RFC 3339."""
    value = value.strip()
    now = datetime.now(UTC).timestamp()
    try:
        number = float(value)
    except ValueError:
        pass
    else:
        if number >= _EPOCH_MS:
            number = number / 1000 - now
        elif number >= _EPOCH_S:
            number -= now
        return _rounded(number * 1000)
    found = _DURATION.fullmatch(value)
    if value and found is not None:
        parts = zip(found.groups(), _UNITS_MS, strict=True)
        return _rounded(sum(float(part) * unit for part, unit in parts if part))
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return _rounded((when.replace(tzinfo=when.tzinfo or UTC).timestamp() - now) * 1000)


def _rounded(milliseconds: float) -> int | None:
    try:
        return max(0, round(milliseconds))
    except (ValueError, OverflowError):
        return None
