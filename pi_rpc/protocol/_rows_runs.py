"""Rows of the verbs and of the queue."""

from pi_rpc.protocol import conversation as c
from pi_rpc.protocol import requests as r
from pi_rpc.protocol._method import RESHAPING, RUN, SESSION, Method
from pi_rpc.protocol.base import SessionParams

__all__ = ["ROWS"]

ROWS: tuple[Method, ...] = (
    Method(
        name="prompt",
        exchange="tool",
        summary="Starts a run with a message, and answers once the run has settled: with how the"
        " whole run ended, follow-ups included. Cancelling the request cancels the run.",
        params=r.PromptParams,
        result=r.PromptResult,
        errors=(*RUN, "sessionBusy"),
        order="session",
    ),
    Method(
        name="steer",
        exchange="queue",
        summary="Adds a message before the model's next request, and answers at once. Starts a run"
        " when none is going on.",
        params=r.QueueMessageParams,
        result=r.QueueMessageResult,
        errors=RUN,
        order="session",
    ),
    Method(
        name="followUp",
        exchange="queue",
        summary="Adds a message for when the run would end, and answers at once. Starts a run when"
        " none is going on.",
        params=r.QueueMessageParams,
        result=r.QueueMessageResult,
        errors=RUN,
        order="session",
    ),
    Method(
        name="continue",
        exchange="cancel",
        summary="Starts a run without a new message: takes what waits in the queue, or goes on"
        " after an interrupted, failed or limited run. Answers as `prompt` does.",
        params=r.ContinueParams,
        result=r.PromptResult,
        errors=(*RUN, "sessionBusy", "nothingToContinue"),
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
        errors=SESSION,
        order="session",
    ),
    Method(
        name="compact",
        exchange="compact",
        summary="Has the conversation so far summarised, and puts the summary in its place; the"
        " newest messages stay. Cancelling the request, or `abort`, answers `cancelled: true`.",
        params=c.CompactParams,
        result=c.CompactResult,
        errors=(*RESHAPING, "nothingToCompact"),
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
        errors=(*RESHAPING, "entryNotFound"),
        order="session",
    ),
    Method(
        name="queue/clear",
        exchange="queue",
        summary="Takes out what waits and gives it back; a run that is going on goes on.",
        params=SessionParams,
        result=r.AbortResult,
        errors=SESSION,
        order="session",
    ),
    Method(
        name="queue/remove",
        exchange="queue",
        summary="Takes out one message that waits, by the `id` of its item, and gives it back;"
        " gives nothing back when it does not wait any more.",
        params=r.QueueRemoveParams,
        result=r.AbortResult,
        errors=SESSION,
        order="session",
    ),
)
