"""A tool may do what it wants: only its own call ends."""

import sys
from typing import Any

import pytest

from pi_rpc.agent import ToolFailure, ToolResult
from pi_rpc.agent.events import ToolExecutionStart
from pi_rpc.agent.tool import fault_of
from pi_rpc.llm.messages import TextBlock
from tests.agent.stage import results, said, tool
from tests.agent.test_tool_calls import end_of, run

pytestmark = pytest.mark.anyio

ANY: Any = object()


class Base(BaseException):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (SystemExit(3), "3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (Base("b"), "b"),
        (Mute(), "Mute"),
        (ToolFailure("failed", ANY), "failed"),
        (ToolFailure(3), "3"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("plain", [True, False])
async def test_whatever_a_tool_raises_fails_its_call_and_the_run_goes_on(
    failure: BaseException, told: str, plain: bool
) -> None:
    def raises(*_: Any) -> ToolResult:
        raise failure

    async def raises_later(*_: Any) -> ToolResult:
        raise failure

    events = await run(tool("do", raises if plain else raises_later))
    assert said(results(events)["a"]) == told
    assert end_of(events).is_error


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content="text"),  # type: ignore[arg-type]
        ToolResult(content=["text"]),  # type: ignore[list-item]
        ToolResult(content=None),  # type: ignore[arg-type]
        ToolResult(content=[TextBlock(text=3)]),  # type: ignore[arg-type]
        ToolResult(content=[], details=ANY),
        ToolResult(content=[], structured_content=ANY),
        ToolResult(content=[], is_error="yes"),  # type: ignore[arg-type]
    ],
)
async def test_a_result_that_could_not_be_stored_is_an_error_that_says_so(
    result: ToolResult,
) -> None:
    async def gives(*_: Any) -> ToolResult:
        return result

    async def updates(_id: str, _params: Any, _signal: Any, update: Any) -> ToolResult:
        update(result)
        return ToolResult.of_text("whole")

    told = said(results(await run(tool("do", gives)))["a"])
    assert told.startswith("Tool do returned a ToolResult that cannot be written: ")
    told = said(results(await run(tool("do", updates)))["a"])
    assert told.startswith("on_update was given a ToolResult that cannot be written: ")


def test_a_result_in_a_circle_has_a_fault_and_file_names_that_are_not_utf8_have_none() -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    assert fault_of(ToolResult(content=[], details=circle)) is not None
    assert fault_of(ToolResult.of_text("\udcff", details={"\ud800": float("nan")})) is None


@pytest.mark.parametrize("describe", [lambda *_: 3, lambda *_: sys.exit(1)])
async def test_a_tool_that_cannot_describe_a_call_is_shown_by_its_label(describe: Any) -> None:
    events = await run(tool("do", describe=describe))
    start = next(each for each in events if isinstance(each, ToolExecutionStart))
    assert start.title == "Do"
    assert not end_of(events).is_error


async def test_a_tool_that_exits_while_it_prepares_arguments_fails_its_call() -> None:
    events = await run(tool("do", prepare_arguments=lambda _: sys.exit(1)))
    assert "could not be prepared" in said(results(events)["a"])
