"""The tables of the wire: every method and every event there is.

Owns ``METHODS`` and ``EVENTS``. They list what is implemented and nothing else: ``initialize``
announces them, the server dispatches by them, schema and documentation are made from them. A new
method is a pair of structs and a row here."""

from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from pi_rpc.protocol import conversation as c
from pi_rpc.protocol import requests as r
from pi_rpc.protocol import tree as t
from pi_rpc.protocol.base import Empty, SessionNewParams, SessionParams
from pi_rpc.protocol.events import WireEvent
from pi_rpc.protocol.handshake import InitializeParams, InitializeResult
from pi_rpc.protocol.notifications import (
    AgentEventParams,
    CancelParams,
    CancelRequestParams,
    SetTraceParams,
)
from pi_rpc.protocol.state import SessionState

__all__ = ["EVENTS", "METHODS", "Event", "Method", "Order"]

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


class Event(Struct, frozen=True, kw_only=True):
    """A type of event that ``agent/event`` carries."""

    struct: type[Struct]
    since: str = "1"
    """Protocol version that has it."""


_SESSION = ("sessionNotFound",)
_RUN = ("sessionNotFound", "modelRequired", "authRequired", "storage")
_RESHAPING = ("sessionNotFound", "sessionBusy", "modelRequired", "providerError", "storage")
_CHOICE = ("modelNotFound", "storage")

_ROWS: tuple[Method, ...] = (
    Method(
        name="initialize",
        exchange="initialize",
        summary="Begins the conversation. Answered before anything that was sent after it is begun;"
        " a second one is an `invalidRequest`.",
        params=InitializeParams,
        result=InitializeResult,
        order="barrier",
    ),
    Method(
        name="initialized",
        exchange="initialize",
        summary="The client has read the answer. Optional, and without effect.",
        is_request=False,
        order="in_turn",
    ),
    Method(
        name="shutdown",
        exchange="end",
        summary="Cancels all work and answers within 200 ms. Events and answers of what was"
        " cancelled may come after it: read on to the end of the output. Further requests are"
        " `invalidRequest`; `exit` may be sent right behind it.",
        order="barrier",
    ),
    Method(
        name="exit",
        exchange="end",
        summary="Ends the process: exit code 0 after `shutdown`, else 1.",
        is_request=False,
        order="in_turn",
    ),
    Method(
        name="prompt",
        exchange="tool",
        summary="Starts a run with a message, and answers once the run has settled: with how the"
        " whole run ended, follow-ups included. Cancelling the request cancels the run.",
        params=r.PromptParams,
        result=r.PromptResult,
        errors=(*_RUN, "sessionBusy"),
        order="session",
    ),
    Method(
        name="steer",
        exchange="queue",
        summary="Adds a message before the model's next request, and answers at once. Starts a run"
        " when none is going on.",
        params=r.QueueMessageParams,
        result=r.QueueMessageResult,
        errors=_RUN,
        order="session",
    ),
    Method(
        name="followUp",
        exchange="queue",
        summary="Adds a message for when the run would end, and answers at once. Starts a run when"
        " none is going on.",
        params=r.QueueMessageParams,
        result=r.QueueMessageResult,
        errors=_RUN,
        order="session",
    ),
    Method(
        name="continue",
        exchange="cancel",
        summary="Starts a run without a new message: takes what waits in the queue, or goes on"
        " after an interrupted, failed or limited run. Answers as `prompt` does.",
        params=r.ContinueParams,
        result=r.PromptResult,
        errors=(*_RUN, "sessionBusy", "nothingToContinue"),
        order="session",
    ),
    Method(
        name="abort",
        exchange="abort",
        summary="Ends what is going on, and answers when the session is idle and `agent_settled`"
        " has been sent, with what had been waiting. Wait for this answer before the next"
        " `prompt`, which may otherwise be `sessionBusy`.",
        params=r.AbortParams,
        result=r.AbortResult,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="compact",
        exchange="compact",
        summary="Has the conversation so far summarised, and puts the summary in its place; the"
        " newest messages stay. Cancelling the request, or `abort`, answers `cancelled: true`.",
        params=c.CompactParams,
        result=c.CompactResult,
        errors=(*_RESHAPING, "nothingToCompact"),
        order="session",
    ),
    Method(
        name="branch",
        exchange="branch",
        summary="Goes on from another entry: back to a user message, which is given back to be"
        " changed and sent again, or to any other entry. What is left behind stays in the file."
        " Cancelling the request, or `abort`, answers `cancelled: true`.",
        params=c.BranchParams,
        result=c.BranchResult,
        errors=(*_RESHAPING, "entryNotFound"),
        order="session",
    ),
    Method(
        name="session/new",
        exchange="sessions",
        summary="Begins a session. Its file appears with its first entry.",
        params=SessionNewParams,
        result=SessionState,
        errors=_CHOICE,
    ),
    Method(
        name="session/open",
        exchange="reopen",
        summary="Opens a stored session, by id or by file; one that is open here is answered as it"
        " is. An empty `.jsonl` file opens as a new session.",
        params=r.SessionOpenParams,
        result=SessionState,
        errors=("sessionNotFound", "sessionLocked", "sessionCorrupt", "storage"),
        order="session",
    ),
    Method(
        name="session/list",
        exchange="reopen",
        summary="Lists stored sessions, the last used first, a page at a time.",
        params=r.SessionListParams,
        result=r.SessionListResult,
    ),
    Method(
        name="session/state",
        exchange="reopen",
        summary="The session as it stands.",
        params=r.SessionStateParams,
        result=SessionState,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="session/configure",
        exchange="settings",
        summary="Changes settings of the session. A model or thinking level changed during a run"
        " takes effect with the next turn.",
        params=r.SessionConfigureParams,
        result=SessionState,
        errors=(*_SESSION, *_CHOICE, "unsupported"),
        order="session",
    ),
    Method(
        name="session/messages",
        exchange="reopen",
        summary="The active branch from its root to its leaf, summaries in their place, the newest"
        " page first. The answer is a cut: it contains every event up to `lastSeq` and none later.",
        params=r.SessionMessagesParams,
        result=r.SessionMessagesResult,
        errors=(*_SESSION, "entryNotFound"),
        order="session",
    ),
    Method(
        name="session/entry",
        exchange="reopen",
        summary="One entry, whole.",
        params=r.SessionEntryParams,
        result=r.SessionEntryResult,
        errors=(*_SESSION, "entryNotFound"),
        order="session",
    ),
    Method(
        name="session/entries",
        exchange="reopen",
        summary="The entries of the session file, in the order they were stored.",
        params=r.SessionEntriesParams,
        result=r.SessionEntriesResult,
        errors=(*_SESSION, "entryNotFound"),
        order="session",
    ),
    Method(
        name="session/tree",
        exchange="branch",
        summary="The entries of all branches in brief, a page at a time: flat, each with its"
        " parent.",
        params=t.SessionTreeParams,
        result=t.SessionTreeResult,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="session/stats",
        exchange="branch",
        summary="How many messages and tool calls are in all branches, and what they used.",
        params=SessionParams,
        result=t.SessionStatsResult,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="session/label",
        exchange="branch",
        summary="Labels an entry, or takes its label off; during a run at the end of the turn.",
        params=t.SessionLabelParams,
        result=Empty,
        errors=(*_SESSION, "entryNotFound", "storage"),
        order="session",
    ),
    Method(
        name="session/close",
        exchange="sessions",
        summary="Ends the session's run and its background commands, discards its queue, and"
        " forgets it here. The file stays. Once the default session was closed, the next request"
        " that names none begins another one, with another id.",
        params=r.SessionCloseParams,
        result=Empty,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="queue/clear",
        exchange="queue",
        summary="Takes out what waits and gives it back; a run that is going on goes on.",
        params=SessionParams,
        result=r.AbortResult,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="queue/remove",
        exchange="queue",
        summary="Takes out one message that waits, by the `id` of its item, and gives it back;"
        " gives nothing back when it does not wait any more.",
        params=r.QueueRemoveParams,
        result=r.AbortResult,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="model/list",
        exchange="settings",
        summary="The models that are known, and whether there is a credential for each.",
        params=Empty,
        result=r.ModelListResult,
    ),
    Method(
        name="tool/list",
        exchange="settings",
        summary="The tools of the session, and which of them the model is offered.",
        params=SessionParams,
        result=r.ToolListResult,
        errors=_SESSION,
        order="session",
    ),
    Method(
        name="ping",
        exchange="end",
        summary="Answers `{}`, whatever the params.",
        result=Empty,
    ),
    Method(
        name="$/cancelRequest",
        exchange="cancel",
        summary="Cancels a request of the client's own, also one that still waits for its turn.",
        is_request=False,
        params=CancelParams,
    ),
    Method(
        name="$/cancel_request",
        exchange="cancel",
        summary="The same, as clients of the Agent Client Protocol write it.",
        is_request=False,
        params=CancelRequestParams,
    ),
    Method(
        name="$/setTrace",
        exchange="initialize",
        summary="Accepted for LSP clients; without effect.",
        is_request=False,
        order="in_turn",
        params=SetTraceParams,
    ),
    Method(
        name="agent/event",
        exchange="tool",
        summary="Something happened in a session.",
        sender="daemon",
        is_request=False,
        params=AgentEventParams,
    ),
)

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
"""Every method by name, in the order of the documentation."""


def _tag(struct: type[Any]) -> str:
    return str(struct.__struct_config__.tag)


EVENTS: dict[str, Event] = {_tag(struct): Event(struct=struct) for struct in get_args(WireEvent)}
"""Every event by type, in the order of the documentation."""
