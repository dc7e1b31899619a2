"""The package of tools: cheap to import, and every tool complete."""

import subprocess
import sys

import jsonschema
import pytest

import pi_rpc.tools
from pi_rpc.agent.tool import AgentTool
from pi_rpc.tools import builtin_tools


def test_importing_the_package_imports_no_tool_and_nothing_heavy() -> None:
    program = (
        "import sys, pi_rpc.tools\n"
        "loaded = [name for name in sys.modules if name.startswith('pi_rpc.tools.')]\n"
        "heavy = {'anyio', 'msgspec', 'httpx', 'pydantic', 'jsonschema'} & set(sys.modules)\n"
        "print(loaded, heavy)\n"
        "from pi_rpc.tools import read_tool\n"
        "print('pi_rpc.tools.bash' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout == "[] set()\nFalse\n"


def test_every_exported_name_is_there_and_no_other() -> None:
    for name in pi_rpc.tools.__all__:
        assert callable(getattr(pi_rpc.tools, name))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = pi_rpc.tools.nonsense


def test_the_tools_come_in_the_order_in_which_models_hear_of_them() -> None:
    tools = builtin_tools()
    assert list(tools) == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    kinds = ["read", "execute", "edit", "edit", "read", "read", "read"]
    assert [tool.kind for tool in tools.values()] == kinds


def test_models_are_told_of_the_searching_tools_only_where_somebody_names_them() -> None:
    on_request = [tool.name for tool in builtin_tools().values() if tool.on_request]
    assert on_request == ["grep", "find", "ls"]


@pytest.mark.parametrize("name", list(builtin_tools()))
def test_every_tool_says_what_a_model_and_a_person_need(name: str) -> None:
    tool: AgentTool = builtin_tools()[name]
    jsonschema.Draft202012Validator.check_schema(dict(tool.parameters))
    assert tool.parameters["type"] == "object"
    assert tool.parameters["additionalProperties"] is False
    for parameter in tool.parameters["properties"].values():
        assert parameter["description"]
    assert tool.wants_context
    assert tool.describe is not None
    assert tool.describe({}, None).title
    for text in (tool.label, tool.description, tool.snippet):
        assert text
