"""A working directory and a way to call file tools in it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pi_rpc.agent.ports import FileSystem, Shell, ToolContext
from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.llm.abort import AbortController, AbortSignal
from pi_rpc.tools._local_files import LocalFiles

Call = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def file_context(workdir: Path) -> Callable[..., ToolContext]:
    """Makes a tool context of the working directory that has no shell."""

    def make(files: FileSystem | None = None, **fields: Any) -> ToolContext:
        shell = cast(Shell, None)
        return ToolContext(cwd=workdir, files=files or LocalFiles(), shell=shell, **fields)

    return make


@pytest.fixture
def call(file_context: Callable[..., ToolContext]) -> Call:
    """Calls a tool as the agent does, with prepared arguments."""

    async def run(
        tool: AgentTool,
        *,
        files: FileSystem | None = None,
        signal: AbortSignal | None = None,
        supports_images: bool = True,
        **params: Any,
    ) -> ToolResult:
        if tool.prepare_arguments:
            params = tool.prepare_arguments(params)
        context = file_context(files, supports_images=supports_images)
        return await tool.run(
            "call-1", params, signal or AbortController().signal, lambda _: None, context
        )

    return run
