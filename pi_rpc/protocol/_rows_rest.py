"""Rows of what is about the daemon rather than one session, and of the base protocol."""

from pi_rpc.protocol import auth as a
from pi_rpc.protocol import commands as c
from pi_rpc.protocol import files as f
from pi_rpc.protocol import permissions as p
from pi_rpc.protocol import requests as r
from pi_rpc.protocol._method import SESSION, Method
from pi_rpc.protocol.base import Empty, SessionParams
from pi_rpc.protocol.editor import EditorDidChangeParams
from pi_rpc.protocol.notifications import (
    AgentEventParams,
    CancelParams,
    CancelRequestParams,
    LogTraceParams,
    SetTraceParams,
)
from pi_rpc.protocol.statistics import ServerStatsResult

__all__ = ["ROWS"]

ROWS: tuple[Method, ...] = (
    Method(
        name="model/list",
        exchange="settings",
        summary="The models that are known, and whether there is a credential for each. There are"
        " more than a thousand; `query`, `provider`, `authenticated` and `limit` ask for fewer.",
        params=r.ModelListParams,
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
        name="command/list",
        exchange="commands",
        summary="What `/name` in a prompt calls up: prompt templates, skills and commands of"
        " extensions. `commands_changed` tells when to ask again.",
        params=SessionParams,
        result=c.CommandListResult,
        errors=SESSION,
        order="session",
    ),
    Method(
        name="file/search",
        exchange="files",
        summary="Files and directories below the session's working directory whose path fits, the"
        " best first, to offer where a person mentions one. Files that ignore files exclude are"
        " left out, hidden ones are not. It answers from a list that may be some seconds old; of a"
        " large directory, at first, from what is known so far.",
        params=f.FileSearchParams,
        result=f.FileSearchResult,
        errors=(*SESSION, "unsupported"),
        order="session",
    ),
    Method(
        name="bash",
        exchange="bash",
        summary="Runs a command that the person typed, with the session's shell and without a time"
        " limit, beside whatever else goes on; several may run at once. Its output is told as"
        " `bash_output` while it comes. It becomes a `bashExecution` message of the session: at"
        " once when the session is idle, otherwise at the end of the turn or of what goes on; the"
        " model reads it from the next turn on. Cancelling answers `cancelled: true` with what"
        " there is; `abort` leaves commands alone.",
        params=c.BashParams,
        result=c.BashResult,
        errors=(*SESSION, "permissionDenied", "unsupported", "storage"),
        order="session",
    ),
    Method(
        name="permission/list",
        exchange="permissions",
        summary="The rules that hold in a project: of settings, of answers that were to hold"
        " always, and of those that were to hold for a session that is open.",
        params=p.PermissionListParams,
        result=p.PermissionListResult,
    ),
    Method(
        name="permission/forget",
        exchange="permissions",
        summary="Forgets an answer that was to hold for longer; it counts at once. Rules of"
        " settings are changed in their file.",
        params=p.PermissionForgetParams,
        result=Empty,
        errors=("storage",),
    ),
    Method(
        name="trust/get",
        exchange="trust",
        summary="Whether a project's own settings, skills, prompts and extensions are loaded, and"
        " what of it waits for that.",
        params=c.TrustParams,
        result=c.TrustResult,
    ),
    Method(
        name="trust/set",
        exchange="trust",
        summary="Decides about a project and what is below it, for pi as well. Open sessions in it"
        " load what they may now before it answers, and use it from their next turn on. What is"
        " asked of the default session after it waits for its answer.",
        params=c.TrustSetParams,
        result=c.TrustResult,
        errors=("storage",),
    ),
    Method(
        name="auth/status",
        exchange="auth",
        summary="Where each provider's key comes from and whether it can be used; no command is"
        " run, nobody is asked, and no answer holds a key.",
        params=a.AuthStatusParams,
        result=a.AuthStatusResult,
    ),
    Method(
        name="auth/set",
        exchange="auth",
        summary="Stores a key, or where to find it, in pi's `auth.json`, in place of what was there"
        " for the provider. It counts at once, also in sessions that are open; what is asked of the"
        " default session after it waits for its answer.",
        params=a.AuthSetParams,
        result=a.AuthSetResult,
        errors=("storage",),
    ),
    Method(
        name="auth/remove",
        exchange="auth",
        summary="Forgets the key or login of a provider in `auth.json`. Other sources, such as the"
        " environment, then count.",
        params=a.AuthRemoveParams,
        result=a.AuthRemoveResult,
        errors=("storage",),
    ),
    Method(
        name="server/stats",
        exchange="observe",
        summary="What the daemon has done so far: by method, by session, and what it takes up.",
        result=ServerStatsResult,
    ),
    Method(
        name="ping",
        exchange="end",
        summary="Answers `{}`, whatever the params.",
        result=Empty,
    ),
    Method(
        name="editor/didChange",
        exchange="editor",
        summary="Tells what the editor shows: where documents are open, so that they are read and"
        " changed there. It never reaches the model.",
        is_request=False,
        order="in_turn",
        params=EditorDidChangeParams,
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
        exchange="observe",
        summary="Whether `$/logTrace` tells of what passes, as in LSP; `off` at first, or what"
        " `trace` of `initialize` says. Another value is ignored.",
        is_request=False,
        order="in_turn",
        params=SetTraceParams,
    ),
    Method(
        name="$/logTrace",
        exchange="observe",
        summary="A message passed: a request, its answer with how long it took, a notification."
        " Events are not told of. Credentials are masked.",
        sender="daemon",
        is_request=False,
        params=LogTraceParams,
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
