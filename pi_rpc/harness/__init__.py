"""One coding session: agent, session, tools and settings in one working directory.

What applications use is exported here; a name is imported when it is first asked for, so that a
front door does not pay for what it does not need."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pi_rpc.harness.assembly import ExecutionEnv, Models, ModelSource
    from pi_rpc.harness.branching import BranchOutcome, BranchRequest
    from pi_rpc.harness.configuration import SessionConfiguration
    from pi_rpc.harness.errors import HarnessError, HarnessErrorCode
    from pi_rpc.harness.harness import AgentHarness
    from pi_rpc.harness.inputs import PromptInput
    from pi_rpc.harness.queue import QueuedMessage
    from pi_rpc.harness.resources import Resources, load_resources
    from pi_rpc.harness.runs import Limits, Run, RunOutcome

_HOME = {
    "assembly": ("ExecutionEnv", "ModelSource", "Models"),
    "branching": ("BranchOutcome", "BranchRequest"),
    "configuration": ("SessionConfiguration",),
    "errors": ("HarnessError", "HarnessErrorCode"),
    "harness": ("AgentHarness",),
    "inputs": ("PromptInput",),
    "queue": ("QueuedMessage",),
    "resources": ("Resources", "load_resources"),
    "runs": ("Limits", "Run", "RunOutcome"),
}
_MODULES = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AgentHarness",
    "BranchOutcome",
    "BranchRequest",
    "ExecutionEnv",
    "HarnessError",
    "HarnessErrorCode",
    "Limits",
    "ModelSource",
    "Models",
    "PromptInput",
    "QueuedMessage",
    "Resources",
    "Run",
    "RunOutcome",
    "SessionConfiguration",
    "load_resources",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
