"""What a row of the table of methods says.

Owns ``Method`` and the kinds of error that rows share. The rows are in ``_rows_*.py``, the table in
``methods.py``."""

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["RESHAPING", "RUN", "SESSION", "Method", "Order"]

Order: TypeAlias = Literal["none", "session", "barrier", "in_turn"]
"""``barrier``: what was sent after it starts after it ended. ``session``: starts after every
earlier request of the same session has started. ``in_turn``, of notifications: waits for a barrier
before it. ``none``: starts at once; of requests, in turn as well."""


class Method(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    summary: str
    """What it does, in a sentence or two, for client authors."""
    sender: Literal["client", "daemon"] = "client"
    is_request: bool = True
    """False for a notification."""
    params: type[Struct] | None = None
    """None: params are not read."""
    result: type[Struct] | None = None
    """None: the result is ``null``."""
    errors: tuple[str, ...] = ()
    """Kinds of error, beside ``errors.COMMON_ERRORS``."""
    order: Order = "none"
    exchange: str
    """The recorded exchange of ``protocol.md`` that shows it."""
    since: str = "1"
    """Protocol version that has it."""


SESSION = ("sessionNotFound", "modelNotFound")
"""Of what needs a session: the default one begins with the first request that is about it."""
RUN = (*SESSION, "modelRequired", "authRequired", "storage")
RESHAPING = (*SESSION, "sessionBusy", "modelRequired", "providerError", "storage")
