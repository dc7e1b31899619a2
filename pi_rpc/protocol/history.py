"""Params and result of ``session/events``, which repeats events that a client missed.

Owns the structs only; what is kept, and for how long, is ``pi_rpc.host.history``'s."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from pi_rpc.llm.messages import Wire
from pi_rpc.protocol.base import Count, SessionParams
from pi_rpc.protocol.events import WireEvent

__all__ = ["RepeatedEvent", "SessionEventsParams", "SessionEventsResult"]


class SessionEventsParams(SessionParams, frozen=True, kw_only=True):
    """Which events."""

    since_seq: Annotated[int, Meta(ge=0)]
    """The last number the client has; 0 when it has none."""
    epoch: str | UnsetType = UNSET
    """The epoch that number is from. When it is no longer the session's, nothing is repeated."""
    limit: Count | UnsetType = UNSET
    """At most so many."""


class RepeatedEvent(Wire, frozen=True, kw_only=True):
    """An event that was sent before."""

    seq: int
    """Its number; of deltas that were made one, the number of the last."""
    event: WireEvent
    """The event. Ignore types you do not know."""


class SessionEventsResult(Wire, frozen=True, kw_only=True):
    """A page of events, the oldest first."""

    events: list[RepeatedEvent]
    """Events after `sinceSeq`. Numbers are left out where a later event takes the place of
    earlier ones."""
    complete: bool
    """True: with these events, and those of further pages, nothing is missing. False: some are no
    longer kept, or `sinceSeq` is not of this epoch; draw the session anew."""
    epoch: str
    """The session's epoch. Another one than the client's: its numbers mean nothing here."""
    last_seq: int
    """`seq` of the last event sent."""
    has_more: bool
    """There are later ones: ask again with the last `seq` of this page."""
