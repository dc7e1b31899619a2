"""Sessions: new, open, list, state, messages, entries, configure, close.

Owns how these read from and act on a session. Paging and cutting of messages is in
``pi_rpc.server.pages``.
"""

import os
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.runs import Limits
from pi_rpc.host.host import HostedSession
from pi_rpc.host.storage import existing_directories
from pi_rpc.jsonrpc.peer import Request
from pi_rpc.llm.messages import ToolCall
from pi_rpc.protocol import requests as r
from pi_rpc.protocol.base import Empty, SessionNewParams
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.state import ModelState, SessionState
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import (
    limits_of,
    model_name,
    model_state,
    session_options,
    session_state,
    wire_text,
)
from pi_rpc.server.features.session_files import visited
from pi_rpc.server.pages import bounded, message_page, whole_or_head
from pi_rpc.session.context import transcript
from pi_rpc.session.listing import writers_of

__all__ = ["HANDLERS"]

_NO_CHANGES = r.SessionConfigureParams()


async def handle_new(connection: Connection, request: Request) -> SessionState:
    """A new session beside those that are open."""
    params = decode_params(SessionNewParams, request.params)
    hosted = await connection.host.create(session_options(params))
    return session_state(hosted, connection.last_seq(hosted))


async def handle_open(connection: Connection, request: Request) -> SessionState:
    """A session from disk."""
    params = decode_params(r.SessionOpenParams, request.params)
    hosted = await connection.host.open(
        session_id=params.session_id or None,
        path=Path(params.path) if params.path else None,
        cwd=Path(params.cwd) if params.cwd else None,
        read_only=params.read_only,
    )
    return session_state(hosted, connection.last_seq(hosted))


async def handle_list(connection: Connection, request: Request) -> r.SessionListResult:
    """Sessions on disk, newest first, with what is known of those that are open here."""
    params = decode_params(r.SessionListParams, request.params)
    page = await connection.host.stored.page(
        cwd=params.cwd or None,
        query=params.query or None,
        limit=params.limit,
        cursor=params.cursor or None,
    )
    open_here = {hosted.id: hosted for hosted in connection.host.sessions}
    written_here = {
        name for name, hosted in open_here.items() if not hosted.harness.session.read_only
    }
    elsewhere = [each.path for each in page.sessions if each.session_id not in written_here]
    writers = await run_blocking(writers_of, elsewhere)
    # One that is just being unloaded is still held by this process, which is no other.
    writers = {path: pid for path, pid in writers.items() if pid != os.getpid()}
    return r.SessionListResult(
        sessions=[
            r.SessionSummary(
                session_id=each.session_id,
                path=wire_text(each.path),
                cwd=wire_text(each.cwd),
                created=each.created,
                modified=each.modified,
                message_count=each.message_count,
                first_message=each.first_message,
                name=each.name or UNSET,
                open=True if connection.host.has(each.session_id) else UNSET,
                phase=open_here[each.session_id].harness.phase
                if each.session_id in open_here
                else "idle"
                if connection.host.has(each.session_id)
                else UNSET,
                locked_pid=writers.get(each.path, UNSET),
            )
            for each in page.sessions
        ],
        next_cursor=page.next_cursor or UNSET,
    )


async def handle_state(connection: Connection, request: Request) -> SessionState:
    """The session as it stands."""
    params = decode_params(r.SessionStateParams, request.params)
    hosted = await connection.session(params.session_id)
    live = "live" in (params.include or ())
    requests = connection.questions.live(hosted.id)
    return session_state(hosted, connection.last_seq(hosted), live=live, requests=requests)


async def handle_configure(connection: Connection, request: Request) -> SessionState:
    """Change what the next turn uses. Everything is checked before anything is changed."""
    params = decode_params(r.SessionConfigureParams, request.params)
    if params.name is UNSET or replace(params, session_id=UNSET, name=UNSET) != _NO_CHANGES:
        hosted = await connection.session(params.session_id)
        await _configure(connection, hosted, params)
        return session_state(hosted, connection.last_seq(hosted))
    # The name is in the session's file, so it can be changed there.
    async with visited(connection, params.session_id) as hosted:
        await hosted.harness.rename(params.name)
        is_open = hosted in connection.host.sessions
        return session_state(hosted, connection.last_seq(hosted) if is_open else 0)


async def handle_messages(connection: Connection, request: Request) -> r.SessionMessagesResult:
    """A page of the active branch, as a cut: it contains every event up to ``lastSeq``."""
    params = decode_params(r.SessionMessagesParams, request.params)
    hosted = await connection.session(params.session_id)
    last_seq = connection.last_seq(hosted)
    page = message_page(
        transcript(hosted.harness.session.branch()),
        limit=params.limit or None,
        before_entry_id=params.before_entry_id or None,
        max_bytes=params.max_bytes_per_message or None,
    )
    return r.SessionMessagesResult(
        messages=page.messages,
        entry_ids=page.entry_ids,
        has_more=page.has_more,
        last_seq=last_seq,
        calls=[_described(hosted, each) for each in page.calls] or UNSET,
    )


async def handle_entry(connection: Connection, request: Request) -> r.SessionEntryResult:
    """One entry, whole."""
    params = decode_params(r.SessionEntryParams, request.params)
    hosted = await connection.session(params.session_id)
    stored = hosted.harness.session.entry(params.entry_id)
    if stored is None:
        raise _no_entry(params.entry_id)
    return r.SessionEntryResult(entry=whole_or_head(stored))


async def handle_entries(connection: Connection, request: Request) -> r.SessionEntriesResult:
    """Entries of all branches in the order they were written, after ``since``."""
    params = decode_params(r.SessionEntriesParams, request.params)
    hosted = await connection.session(params.session_id)
    entries = hosted.harness.session.entries()
    first = 0
    if params.since:
        places = [place for place, each in enumerate(entries, 1) if each.id == params.since]
        if not places:
            raise _no_entry(params.since)
        first = places[0]
    last = first + params.limit if params.limit else len(entries)
    page = bounded(whole_or_head(each) for each in entries[first:last])
    return r.SessionEntriesResult(
        entries=page,
        leaf_id=hosted.harness.session.leaf_id,
        has_more=first + len(page) < len(entries),
    )


async def handle_close(connection: Connection, request: Request) -> Empty:
    """Let go of a session; the file stays. Once it has begun, cancelling it does nothing."""
    params = decode_params(r.SessionCloseParams, request.params)
    request.on_cancel(lambda: None)
    await connection.host.close(params.session_id)
    connection.statistics.forget(params.session_id)
    return Empty()


HANDLERS = {
    "session/new": handle_new,
    "session/open": handle_open,
    "session/list": handle_list,
    "session/state": handle_state,
    "session/configure": handle_configure,
    "session/messages": handle_messages,
    "session/entry": handle_entry,
    "session/entries": handle_entries,
    "session/close": handle_close,
}


def _described(hosted: HostedSession, call: ToolCall) -> r.CallDescription:
    kind, description = hosted.described(call)
    return r.CallDescription(
        tool_call_id=call.id,
        kind=kind,
        title=description.title,
        locations=list(description.locations),
    )


def _no_entry(entry_id: str) -> HarnessError:
    return HarnessError("entryNotFound", f"the session has no entry {entry_id!r}")


async def _configure(
    connection: Connection, hosted: HostedSession, params: r.SessionConfigureParams
) -> None:
    harness = hosted.harness
    choices = harness.configuration
    directories = params.additional_directories
    if directories is not UNSET:
        await run_blocking(existing_directories, directories, "additionalDirectories")
    model, level = None, params.thinking_level or None
    if name := model_name(params.model):
        await connection.host.services.look_for_model(name)
        model, named_level = connection.host.services.choose_model(name, None)
        level = level or named_level
    if params.active_tools is not UNSET:
        await harness.set_active_tools(params.active_tools)
        harness.changed(activeTools=[tool.name for tool in choices.usable_tools()])
    if model is not None:
        await harness.set_model(model)
        harness.changed(model=ModelState(**model_state(model)))
    if level is not None:
        await harness.set_thinking_level(level)
        harness.changed(thinkingLevel=choices.level)
    if params.steering_mode:
        harness.steering_mode = params.steering_mode
        harness.changed(steeringMode=params.steering_mode)
    if params.follow_up_mode:
        harness.follow_up_mode = params.follow_up_mode
        harness.changed(followUpMode=params.follow_up_mode)
    if params.permission_mode:
        choices.permission_mode = params.permission_mode
        harness.changed(
            permissionMode=params.permission_mode,
            activeTools=[tool.name for tool in choices.usable_tools()],
        )
    if params.auto_compaction is not UNSET:
        choices.auto_compaction = params.auto_compaction
        harness.changed(autoCompaction=params.auto_compaction)
    if params.auto_retry is not UNSET:
        choices.auto_retry = params.auto_retry
        harness.changed(autoRetry=params.auto_retry)
    if directories is not UNSET:
        choices.additional_directories = directories
        harness.changed(additionalDirectories=directories)
    if params.limits is not UNSET:
        choices.limits = limits_of(params.limits)
        harness.changed(limits=None if choices.limits == Limits() else params.limits)
    if params.name is not UNSET:
        await harness.rename(params.name)
