"""A session to be prompted, in memory, with a scripted model: what the harness tests share."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from pi_rpc.agent.events import AgentEvent
from pi_rpc.agent.messages import role_of
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.harness import AgentHarness
from pi_rpc.llm.messages import text_of
from pi_rpc.llm.scripted import ScriptedReply, scripted_model, scripted_stream_fn
from pi_rpc.session.memory import MemorySession
from pi_rpc.session.storage import SessionStorage
from pi_rpc.tools import LocalFiles, LocalShell
from tests.deadlines import DEADLINE_S


class Hall:
    """A harness and everything that was heard of it."""

    def __init__(self, harness: AgentHarness) -> None:
        self.harness = harness
        self.heard: list[AgentEvent] = []
        self.stop_hearing = harness.subscribe(self.heard.extend)

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one type, in order."""
        return [each for each in self.heard if type(each) is kind]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return once it is so."""
        with anyio.fail_after(DEADLINE_S):
            while not condition():
                await anyio.sleep(0.001)


@asynccontextmanager
async def hall(
    replies: Iterable[ScriptedReply],
    *,
    session: SessionStorage | None = None,
    tools: Sequence[AgentTool] = (),
    task_group: TaskGroup | None = None,
    pressure: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[Hall]:
    """A harness whose runs end with the block, and whose tools may do anything."""
    cwd = Path.cwd()
    configuration = SessionConfiguration(
        cwd=cwd,
        tools={each.name: each for each in tools},
        named_tools=[each.name for each in tools],
        model=scripted_model(),
        permission_mode="full",
    )
    async with anyio.create_task_group() as own:
        harness = AgentHarness(
            session=session if session is not None else MemorySession(cwd),
            configuration=configuration,
            stream_fn=scripted_stream_fn(list(replies)),
            tool_context=ToolContext(cwd=cwd, files=LocalFiles(), shell=LocalShell()),
            task_group=task_group or own,
            pressure=pressure,
        )
        yield Hall(harness)
        with anyio.fail_after(DEADLINE_S):
            await harness.aclose()


def said(messages: Iterable[Any]) -> list[str]:
    """Messages in a few words."""
    return [f"{role_of(each)}: {text_of(each.content)}" for each in messages]
