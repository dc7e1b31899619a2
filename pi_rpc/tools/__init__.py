"""The tools that come with the agent, and the local files and shell they work on.

Owns the list of them. Importing this package imports none of them: each is loaded when it is asked
for by name, or all at once by ``builtin_tools``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pi_rpc.agent.tool import AgentTool
    from pi_rpc.tools._local_files import LocalFiles
    from pi_rpc.tools._local_shell import LocalShell
    from pi_rpc.tools.bash import bash_tool
    from pi_rpc.tools.edit import edit_tool
    from pi_rpc.tools.find import find_tool
    from pi_rpc.tools.grep import grep_tool
    from pi_rpc.tools.ls import ls_tool
    from pi_rpc.tools.read import read_tool
    from pi_rpc.tools.write import write_tool

__all__ = [
    "LocalFiles",
    "LocalShell",
    "bash_tool",
    "builtin_tools",
    "edit_tool",
    "find_tool",
    "grep_tool",
    "ls_tool",
    "read_tool",
    "write_tool",
]

_HOMES = {
    "LocalFiles": "pi_rpc.tools._local_files",
    "LocalShell": "pi_rpc.tools._local_shell",
    "bash_tool": "pi_rpc.tools.bash",
    "edit_tool": "pi_rpc.tools.edit",
    "find_tool": "pi_rpc.tools.find",
    "grep_tool": "pi_rpc.tools.grep",
    "ls_tool": "pi_rpc.tools.ls",
    "read_tool": "pi_rpc.tools.read",
    "write_tool": "pi_rpc.tools.write",
}


def builtin_tools() -> "dict[str, AgentTool]":
    """All tools of this package by name, in the order in which models are told of them."""
    from pi_rpc.tools.bash import bash_tool
    from pi_rpc.tools.edit import edit_tool
    from pi_rpc.tools.find import find_tool
    from pi_rpc.tools.grep import grep_tool
    from pi_rpc.tools.ls import ls_tool
    from pi_rpc.tools.read import read_tool
    from pi_rpc.tools.write import write_tool

    tools = (
        read_tool(),
        bash_tool(),
        edit_tool(),
        write_tool(),
        grep_tool(),
        find_tool(),
        ls_tool(),
    )
    return {tool.name: tool for tool in tools}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
