"""A client of ours with a daemon that has an agent directory and a scripted model of its own."""

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from pi_rpc.client import Events, PiRpc, SessionEvent
from tests.e2e.editor import DEADLINE_S, Step


def environment(home: Path, replies: Sequence[Sequence[Step]] = ()) -> dict[str, str]:
    """Variables for a daemon whose model gives these replies."""
    home.mkdir(parents=True, exist_ok=True)
    script = home / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": list(steps)} for steps in replies]}))
    return {
        **os.environ,
        "PI_CODING_AGENT_DIR": str(home),
        "PI_RPC_SCRIPT": str(script),
    }


@asynccontextmanager
async def connected(
    home: Path, replies: Sequence[Sequence[Step]] = (), **options: Any
) -> AsyncIterator[PiRpc]:
    """A client; ``options`` are those of ``PiRpc.spawn``."""
    options = {"cwd": home, "env": environment(home, replies), **options}
    with anyio.fail_after(2 * DEADLINE_S):
        async with PiRpc.spawn(**options) as client:
            yield client


async def until(events: Events, kind: type[Any]) -> list[SessionEvent]:
    """The events up to the first of this type, which is the last of them."""
    found: list[SessionEvent] = []
    with anyio.fail_after(DEADLINE_S):
        async for event in events:
            found.append(event)
            if isinstance(event, kind):
                return found
    raise AssertionError(f"no {kind.__name__} among {found}")
