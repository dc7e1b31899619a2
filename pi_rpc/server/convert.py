"""Between the native protocol's shapes and the host's.

Owns the conversions that more than one feature needs. Pure.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from pi_rpc.harness.runs import Limits
from pi_rpc.host.host import HostedSession, SessionOptions
from pi_rpc.llm.models import Model, thinking_levels
from pi_rpc.protocol import base
from pi_rpc.protocol.client_requests import LiveRequest
from pi_rpc.protocol.state import (
    ContextUsage,
    LiveState,
    LiveTool,
    ModelState,
    SessionState,
    TokenTotals,
)

__all__ = [
    "limits_of",
    "model_name",
    "model_state",
    "session_options",
    "session_state",
    "wire_text",
]


def session_options(params: base.SessionNewParams) -> SessionOptions:
    """What a new session is to be like."""
    return SessionOptions(
        cwd=Path(params.cwd) if params.cwd else None,
        additional_directories=tuple(params.additional_directories or ()),
        name=params.name or None,
        model=model_name(params.model),
        thinking_level=params.thinking_level or None,
        permission_mode=params.permission_mode or None,
        tools=None if params.tools is UNSET else tuple(params.tools),
        system_prompt=None if params.system_prompt is UNSET else params.system_prompt,
        append_system_prompt=params.append_system_prompt or "",
        ephemeral=params.ephemeral,
        parent_session=params.parent_session or None,
        limits=limits_of(params.limits),
    )


def wire_text(path: object) -> str:
    """A path as JSON can carry it: what is no Unicode in its name is replaced."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def model_name(name: base.ModelName | UnsetType) -> str | None:
    """A model as the registry looks it up."""
    if not name:
        return None
    return name if isinstance(name, str) else f"{name.provider}/{name.id}"


def limits_of(limits: base.Limits | UnsetType) -> Limits:
    """A run's limits."""
    if limits is UNSET:
        return Limits()
    return Limits(
        turns=limits.turns or None, cost_usd=limits.cost_usd or None, seconds=limits.seconds or None
    )


def model_state(model: Model) -> dict[str, Any]:
    """The fields of ``ModelState``."""
    return {
        "provider": model.provider,
        "id": model.id,
        "name": model.name,
        "context_window": model.context_window,
        "max_tokens": model.max_tokens,
        "input": model.input,
        "thinking_levels": thinking_levels(model),
    }


def session_state(
    hosted: HostedSession,
    last_seq: int,
    *,
    live: bool = False,
    requests: Sequence[LiveRequest] = (),
) -> SessionState:
    """A session as it stands; with ``live`` also what goes on, and the open ``requests``."""
    harness = hosted.harness
    session, choices, usage = harness.session, harness.configuration, harness.usage_fields()
    limits = choices.limits
    return SessionState(
        session_id=session.session_id,
        cwd=wire_text(choices.cwd),
        additional_directories=choices.additional_directories,
        thinking_level=choices.level,
        phase=harness.phase,
        is_streaming=harness.is_streaming,
        steering_mode=harness.steering_mode,
        follow_up_mode=harness.follow_up_mode,
        auto_compaction=choices.auto_compaction,
        auto_retry=choices.auto_retry,
        permission_mode=choices.permission_mode,
        active_tools=[tool.name for tool in choices.usable_tools()],
        message_count=harness.message_count,
        queue=harness.queue.snapshot(),
        last_seq=last_seq,
        epoch=hosted.epoch,
        tokens=msgspec.convert(usage["tokens"], TokenTotals),
        cost=usage["cost"],
        path=wire_text(session.path) if session.path is not None else UNSET,
        name=choices.name or UNSET,
        model=ModelState(**model_state(choices.model)) if choices.model else UNSET,
        interrupted=harness.interrupted or UNSET,
        leaf_id=session.leaf_id,
        context_usage=msgspec.convert(usage["contextUsage"], ContextUsage)
        if "contextUsage" in usage
        else UNSET,
        limits=base.Limits(
            turns=limits.turns or UNSET,
            cost_usd=limits.cost_usd or UNSET,
            seconds=limits.seconds or UNSET,
        )
        if limits != Limits()
        else UNSET,
        live=_live(hosted, requests) if live else UNSET,
    )


def _live(hosted: HostedSession, requests: Sequence[LiveRequest]) -> LiveState:
    live = hosted.harness.live
    return LiveState(
        tools=[
            LiveTool(
                tool_call_id=tool.tool_call_id,
                tool_name=tool.tool_name,
                args=tool.args,
                output=tool.output,
                kind=tool.kind,
                title=tool.title,
                locations=list(tool.locations),
            )
            for tool in live.tools.values()
        ],
        requests=list(requests),
        message=live.message or UNSET,
    )
