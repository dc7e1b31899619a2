"""Rows of what is about the daemon rather than one session, and of the base protocol."""

from pi_rpc.protocol import requests as r
from pi_rpc.protocol._method import SESSION, Method
from pi_rpc.protocol.base import Empty, SessionParams
from pi_rpc.protocol.notifications import (
    AgentEventParams,
    CancelParams,
    CancelRequestParams,
    SetTraceParams,
)

__all__ = ["ROWS"]

ROWS: tuple[Method, ...] = (
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
        errors=SESSION,
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
