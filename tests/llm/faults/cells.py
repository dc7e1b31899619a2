"""What a cell of the table is: what a server does, and what is expected of us then."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Literal, TypeAlias

import msgspec

from pi_rpc.llm.errors import ProviderError
from tests.llm.faults.dialects import PIECES, Dialect
from tests.llm.faults.server import Connection, Script
from tests.llm.faults.words import Answer, Impossible

KEY = "topsecret-0123456789abcdef"
PLAIN = "http://127.0.0.1:{port}/{case}"
SECURE = "https://127.0.0.1:{tls_port}/{case}"

Kept: TypeAlias = Literal[
    "nothing", "text", "a piece", "a cut call", "a whole call", "a bad call", "long text"
]


@dataclass(frozen=True, kw_only=True)
class Expect:
    """How a reply must end."""

    error: type[ProviderError] | None = None
    """None: it succeeds, or was aborted."""
    says: tuple[str, ...] = ()
    """What the message names, beside the provider."""
    retried: bool = False
    is_by_header: bool = False
    """Only a header or a detail told whether to retry: the stored message does not say it."""
    waits_ms: tuple[int, int] | None = None
    """Least and most that the provider asks to wait."""
    keeps: Kept = "nothing"
    asked: int = 1
    """How many requests the server sees."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fault in one dialect."""

    script: Script
    expect: Expect
    url: str = PLAIN
    environ: Mapping[str, str] = field(default_factory=dict)
    idle_s: float = 20.0
    abort: Literal["no", "waiting", "streaming", "leaving"] = "no"


Fault: TypeAlias = Callable[[Dialect], Cell | Impossible]
FAULTS: dict[str, Fault] = {}


def fault(name: str) -> Callable[[Fault], Fault]:
    """Add a row to the table."""

    def add(made: Fault) -> Fault:
        assert name not in FAULTS, name
        FAULTS[name] = made
        return made

    return add


def answers(answer: Answer, *lines: str) -> Script:
    """Answer with a status and a body."""

    async def script(connection: Connection) -> None:
        is_text = isinstance(answer.body, str)
        body = answer.body.encode() if is_text else msgspec.json.encode(answer.body)
        kind = "text/html" if is_text else "application/json"
        headers = [_with_moments(line) for line in (*answer.headers, *lines)]
        await connection.head(answer.status, kind, f"content-length: {len(body)}", *headers)
        await connection.send(body)

    return script


_MOMENT = re.compile(r"\{(date )?in (\d+) s\}")


def _with_moments(line: str) -> str:
    """``{in 31 s}`` and ``{date in 31 s}`` are that moment, from when it is sent."""

    def moment(found: re.Match[str]) -> str:
        when = datetime.now(UTC) + timedelta(seconds=float(found[2]))
        return format_datetime(when, usegmt=True) if found[1] else f"{when:%Y-%m-%dT%H:%M:%SZ}"

    return _MOMENT.sub(moment, line)


def streams(
    dialect: Dialect, *pieces: bytes, then: str = "end", lines: tuple[str, ...] = ()
) -> Any:
    """Answer with a stream of these bytes, which ends, is reset, or stays open."""

    async def script(connection: Connection) -> None:
        await connection.head(200, dialect.kind, *lines)
        await connection.send(*pieces)
        if then == "end":
            await connection.end()
        elif then == "reset":
            await connection.reset()

    return script


def begun(dialect: Dialect) -> bytes:
    """The frames of a reply that has said its first piece."""
    return dialect.frames(dialect.said(PIECES[0]))


def succeeds(script: Script, *, keeps: Kept = "text", **cell: Any) -> Cell:
    """A cell in which nothing fails."""
    return Cell(script=script, expect=Expect(keeps=keeps), **cell)


def fails(
    script: Script,
    error: type[ProviderError],
    *says: str,
    retried: bool = False,
    is_by_header: bool = False,
    keeps: Kept = "nothing",
    **cell: Any,
) -> Cell:
    """A cell that ends in a failure."""
    expect = Expect(error=error, says=says, retried=retried, is_by_header=is_by_header, keeps=keeps)
    return Cell(script=script, expect=expect, **cell)
