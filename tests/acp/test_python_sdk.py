"""The official Python SDK (``agent-client-protocol``) drives the agent as a client.

One process for all of it: the SDK alone takes most of a second to import.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import spawn_agent_process, text_block
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from tests.acp.client import DEADLINE_S, call, say

pytestmark = pytest.mark.anyio


class Person:
    """A client that answers questions and remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.answer: str | None = "allow"
        self.asked: list[Any] = []
        self.came = asyncio.Condition()

    def on_connect(self, conn: Any) -> None:
        """As the SDK wants it."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self.came:
            self.heard.append((session_id, update))
            self.came.notify_all()

    async def request_permission(self, options: Any, tool_call: Any, **_: Any) -> Any:
        self.asked.append((tool_call, options))
        if self.answer is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=self.answer)
        return RequestPermissionResponse(outcome=chosen)

    async def until(self, status: str) -> None:
        async with self.came:
            await self.came.wait_for(
                lambda: any(getattr(each, "status", "") == status for _, each in self.heard)
            )

    def said(self, session_id: str, kind: str = "agent_message_chunk") -> str:
        return "".join(
            each.content.text
            for session, each in self.heard
            if session == session_id and each.session_update == kind
        )


async def test_the_python_sdk_prompts_permits_cancels_loads_and_has_several_sessions(
    tmp_path: Path,
) -> None:
    project = str(tmp_path)
    replies = [
        [say("I run it. "), call("bash", command="echo ran")],
        [say("It ran.")],
        [call("bash", command="sleep 7102")],
    ]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [{"steps": each} for each in replies]}))
    person = Person()
    command = (sys.executable, "-m", "pi_rpc", "--acp")
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PI_CODING_AGENT_DIR": str(tmp_path / "agent"),
        "PI_RPC_LOCAL_SERVERS": "off",
        "PI_RPC_SCRIPT": str(script),
    }
    with anyio.fail_after(DEADLINE_S):
        async with spawn_agent_process(
            person,  # type: ignore[arg-type]  # what is not offered is not there
            *command,
            env=environment,
            cwd=project,
        ) as (agent, _):
            hello = await agent.initialize(protocol_version=1)
            assert hello.agent_info is not None
            assert hello.agent_info.name == "pi-rpc"
            first = (await agent.new_session(cwd=project)).session_id
            second = (await agent.new_session(cwd=project)).session_id
            prompt = [text_block("run it")]

            answer = await agent.prompt(prompt=prompt, session_id=first)
            assert answer.stop_reason == "end_turn"
            assert person.said(first) == "I run it. It ran."
            assert person.asked[0][1][0].kind == "allow_once"

            person.answer = None
            ended = await agent.prompt(prompt=prompt, session_id=second)
            assert ended.stop_reason == "end_turn"
            assert person.said(first) == "I run it. It ran."

            person.answer = "allow"
            person.heard.clear()
            turn = asyncio.ensure_future(agent.prompt(prompt=prompt, session_id=first))
            await person.until("in_progress")
            await agent.cancel(session_id=first)
            assert (await turn).stop_reason == "cancelled"

            listed = await agent.list_sessions(cwd=project)
            assert {each.session_id for each in listed.sessions} == {first, second}
            await agent.close_session(session_id=first)
            person.heard.clear()
            loaded = await agent.load_session(cwd=project, session_id=first)
            assert loaded.config_options
            assert person.said(first).startswith("I run it. It ran.")
            assert person.said(first, "user_message_chunk") == "run it" * 2
            await agent.set_session_mode(mode_id="readonly", session_id=first)
            with pytest.raises(Exception, match="no session"):
                await agent.prompt(prompt=prompt, session_id="never-was")
