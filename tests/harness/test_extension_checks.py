"""What an extension adds is looked at when it is added, not when a request breaks."""

from pathlib import Path
from typing import Any

import pytest

from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.harness._extension_checks import check_tool
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run
from pi_rpc.llm.scripted import text
from tests.harness.hall import Hall
from tests.harness.test_extensions import loaded, written

pytestmark = pytest.mark.anyio

ADDING = """
import sys
from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.tool import AgentTool, ToolResult
from pi_rpc.harness.hook_payloads import *
from pi_rpc.llm.messages import *

class Odd(Wire, tag_field="role", tag="odd", frozen=True, kw_only=True):
    timestamp: int

def odd(_):
    return BeforeAgentStartResult(messages=[Odd(timestamp=0)])

"""


async def reply(here: Hall) -> str:
    run = here.harness.prompt(PromptInput("go"))
    assert isinstance(run, Run)
    return (await run.wait()).text


def made(**fields: Any) -> AgentTool:
    given: dict[str, Any] = {
        "name": "do",
        "label": "Do",
        "description": "Does.",
        "parameters": {"type": "object"},
        "execute": lambda *_: ToolResult.of_text("done"),
    }
    return AgentTool(**{**given, **fields})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": None}, "a tool's name is no text but None"),
        ({"name": " "}, "a tool needs a name"),
        ({"label": 3}, "a tool's label is no text"),
        ({"description": None}, "a tool's description is no text"),
        ({"snippet": None}, "a tool's snippet is no text"),
        ({"guidelines": [1]}, "a guideline is no text but 1"),
        ({"guidelines": "one"}, "its guidelines are no list"),
        ({"parameters": None}, "its parameters are no JSON"),
        ({"parameters": {"default": object()}}, "its parameters are no JSON"),
        ({"parameters": {"type": "string"}}, "its parameters describe no object"),
        ({"kind": "banana"}, "there is no kind 'banana'"),
        ({"execution_mode": "fast"}, "there is no execution_mode 'fast'"),
        ({"describe": 3}, "its describe is no function"),
    ],
)
def test_a_tool_that_no_model_could_be_offered_is_refused(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        check_tool(made(**fields))


def test_a_tool_as_people_write_it_is_taken() -> None:
    check_tool(made())
    check_tool(made(parameters={}, guidelines=["a", "b"], execution_mode="sequential"))


@pytest.mark.parametrize(
    ("setup", "told"),
    [
        ("class Base(BaseException): pass\ndef setup(api): raise Base('b')", "Base: b"),
        ("async def setup(api): raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("def __getattr__(name): raise RuntimeError(name)", "no function setup"),
        ("def setup(api): yield", "it is a generator function"),
        ("def setup(api): api.command('do', 'Does.', None)", "its handler is no function"),
        ("def setup(api): api.command('do', None, print)", "its description is no text"),
        ("def setup(api): api.command('do', '', print, time_limit_s='x')", "a time limit is"),
        ("def setup(api): api.on('context', print, time_limit_s=float('nan'))", "a time limit is"),
        ("def setup(api): api.tool(print)", "a tool is an AgentTool"),
        ("def setup(api): raise RuntimeError('x' * 10_000_000)", "more characters"),
    ],
)
async def test_an_extension_that_is_wrong_is_skipped_and_the_session_works(
    tmp_path: Path, setup: str, told: str
) -> None:
    sources = written(tmp_path, wrong=ADDING + setup)
    async with loaded(sources, [[text("fine")]]) as (here, diagnostics):
        (diagnostic,) = diagnostics
        assert told in diagnostic.message
        assert "the extension was skipped" in diagnostic.message
        assert len(diagnostic.message) < 10_000
        assert await reply(here) == "fine"


@pytest.mark.parametrize(
    "reads",
    [
        "lambda _: sys.exit(1)",
        "lambda _: ['text']",
        "lambda _: [UserMessage(content=3, timestamp=0)]",
        "lambda _: None",
    ],
)
async def test_a_message_that_its_role_cannot_read_is_told_and_left_out(
    tmp_path: Path, reads: str
) -> None:
    setup = f"def setup(api):\n    api.role(Odd, {reads})\n    api.on('before_agent_start', odd)\n"
    async with loaded(written(tmp_path, odd=ADDING + setup), [[text("fine")]]) as (here, told):
        assert told == []
        assert await reply(here) == "fine"
        messages = [each.message for each in here.of(Diagnostic)]
        assert any("a message of the role 'odd' cannot be read" in each for each in messages)


async def test_anything_can_be_told_in_moderation(tmp_path: Path) -> None:
    source = "def setup(api):\n    api.notify(None, 'fatal')\n    api.notify('x' * 10_000_000)\n"
    async with loaded(written(tmp_path, tells=source)) as (_, told):
        assert [each.severity for each in told] == ["info", "info"]
        assert told[0].message == "None"
        assert len(told[1].message) < 10_000
