"""Rows of what the daemon asks the client, and what it tells it beside events."""

from msgspec import Struct

from pi_rpc.protocol import client_requests as c
from pi_rpc.protocol import editor as e
from pi_rpc.protocol import permissions as p
from pi_rpc.protocol._method import Method

__all__ = ["ROWS"]


def _asks(
    question: c.Question,  # type: ignore[type-arg]
    summary: str,
    exchange: str = "questions",
) -> Method:
    return Method(
        name=question.method,
        exchange=exchange,
        summary=summary,
        sender="daemon",
        params=question.params,
        result=question.result,
    )


def _tells(name: str, params: type[Struct], summary: str) -> Method:
    return Method(
        name=name,
        exchange="questions",
        summary=summary,
        sender="daemon",
        is_request=False,
        params=params,
    )


ROWS: tuple[Method, ...] = (
    _asks(
        p.PERMISSION_REQUEST,
        "Asks the person whether a tool may run, and has them review what it would write. Only"
        " clients with `permission` get it. Several may wait at once.",
        "permissions",
    ),
    _asks(
        p.SHOW_MESSAGE_REQUEST,
        "Asks the same of clients that have LSP's `window.showMessage` and no `permission`. What is"
        " asked about in more than 500 characters can only be allowed or rejected this once.",
        "messages",
    ),
    _asks(c.UI_SELECT, "Has the person choose one of several."),
    _asks(c.UI_CONFIRM, "Asks the person yes or no."),
    _asks(c.UI_INPUT, "Has the person write a line."),
    _asks(c.UI_EDITOR, "Has the person write a text, in an editor of its own."),
    _asks(
        e.READ_DOCUMENT,
        "Reads a document as the editor shows it. Asked only for what `openDocuments` has; any"
        " error counts as not open.",
        "editor",
    ),
    _asks(
        e.APPLY_EDIT,
        "Changes a document: once for each call of a tool, to be one step to undo. Afterwards the"
        " document is read again.",
        "editor",
    ),
    _asks(
        e.SAVE_DOCUMENT,
        "Saves a document that was changed and had been saved before.",
        "editor",
    ),
    _tells(
        "ui/notify", c.UiNotifyParams, "Shows the person something. Only clients with `ui` get it."
    ),
    _tells(
        "ui/status",
        c.UiStatusParams,
        "Shows the person something until it is changed. Only clients with `ui` get it.",
    ),
    _tells(
        "request/resolved",
        c.RequestResolvedParams,
        "A question to the client is moot. `$/cancelRequest` with the request's id comes right"
        " before it; an answer that is already on its way is ignored.",
    ),
)
