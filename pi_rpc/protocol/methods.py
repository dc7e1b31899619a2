"""The tables of the wire: every method and every event there is.

Owns ``METHODS`` and ``EVENTS``. They list what is implemented and nothing else: ``initialize``
announces them, the server dispatches by them, schema and documentation are made from them. A new
method is a pair of structs and a row in one of the ``_rows_*`` modules."""

from typing import Any, get_args

from msgspec import Struct

from pi_rpc.protocol import (
    _rows_daemon,
    _rows_lifecycle,
    _rows_rest,
    _rows_runs,
    _rows_sessions,
)
from pi_rpc.protocol._method import Method, Order
from pi_rpc.protocol.events import WireEvent

__all__ = ["EVENTS", "METHODS", "Event", "Method", "Order"]


class Event(Struct, frozen=True, kw_only=True):
    """A type of event that ``agent/event`` carries."""

    struct: type[Struct]
    since: str = "1"
    """Protocol version that has it."""


_ROWS = (
    *_rows_lifecycle.ROWS,
    *_rows_runs.ROWS,
    *_rows_sessions.ROWS,
    *_rows_rest.ROWS,
    *_rows_daemon.ROWS,
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
"""Every method by name, in the order of the documentation."""


def _tag(struct: type[Any]) -> str:
    return str(struct.__struct_config__.tag)


EVENTS: dict[str, Event] = {_tag(struct): Event(struct=struct) for struct in get_args(WireEvent)}
"""Every event by type, in the order of the documentation."""
