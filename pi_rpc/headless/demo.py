"""``pi-rpc demo``: the main job, seen from outside.

Owns the show: it starts the real daemon, speaks the real protocol to it like any client, asks for a
file to be read, and draws what comes. Without a model of the person's own it uses the embedded one,
and where that cannot be had a script.
"""

import json
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec import Raw

from pi_rpc.harness.model_registry import ModelRegistry
from pi_rpc.harness.settings import Settings
from pi_rpc.headless._table import in_a_shell
from pi_rpc.headless.daemon import DaemonProcess
from pi_rpc.headless.local import install_local
from pi_rpc.headless.render import RunRenderer
from pi_rpc.jsonrpc.errors import PeerClosedError, RpcError
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.llm import local

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_demo"]


def run_demo(arguments: "Namespace") -> int:
    """Show it; 0 when the model read the file and answered."""
    if problem := _unreadable(Path(arguments.file)):
        sys.stderr.write(f"pi-rpc demo: {problem}; name another file with --file\n")
        return 1
    say(f"pi-rpc demo: a model reads {arguments.file} with a tool and says what it found.")
    model, script = arguments.model, None
    if model is None:
        _mention_key()
        model, script = _free_model(arguments)
    with tempfile.TemporaryDirectory(prefix="pi-rpc-demo-") as scratch:
        environ = {**os.environ, "PI_CODING_AGENT_DIR": scratch}
        if script is not None:
            path = Path(scratch) / "script.json"
            path.write_text(json.dumps(script), encoding="utf-8")
            environ["PI_RPC_SCRIPT"] = str(path)
        return anyio.run(_show, model, arguments.file, environ)


def say(text: str) -> None:
    """A line for the person."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _unreadable(file: Path) -> str | None:
    """Why nothing can be read in ``file``, which the tool would tell to the model only."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            return f"{file} is not a file"
    except OSError as error:
        return f"{file} cannot be read: {error.strerror or error}"
    return None if os.access(file, os.R_OK) else f"{file} cannot be read: Permission denied"


def _mention_key() -> None:
    """Say what a key in the environment would be used for, if the person wanted that."""
    with tempfile.TemporaryDirectory() as nothing:
        model = ModelRegistry(Path(nothing)).default(Settings())
    if model is None or model.provider in {local.LOCAL_MODEL.provider, "scripted"}:
        return
    say(f"There is a key for {model.provider}: its model {model.ref} could be used, and would")
    say(f"cost money. For that: pi-rpc demo --model {model.ref}")


def _free_model(arguments: "Namespace") -> tuple[str, dict[str, Any] | None]:
    fix = "`pi-rpc local install` installs the embedded one"
    if arguments.install and install_local() != 0:
        fix = "the embedded one could not be installed"
    if local.installed():
        say(f"Model: {local.LOCAL_MODEL.ref}, on this machine, free of charge.")
        return local.LOCAL_MODEL.ref, None
    say(f"Model: none; {fix}. So this is a scripted demo.")
    return "scripted/scripted", _script(arguments.file)


def _script(file: str) -> dict[str, Any]:
    return {
        "replies": [
            {"steps": [{"toolCall": {"name": "read", "arguments": {"path": file}}}]},
            {"steps": [{"text": f"This is a script; what read said of {file} is real."}]},
        ]
    }


async def _show(model: str, file: str, environ: Mapping[str, str]) -> int:
    renderer = RunRenderer(sys.stdout, sys.stdout)
    argv = [sys.executable, "-P", "-m", "pi_rpc", "--stdio"]

    was_read = False

    def draw(method: str, params: Raw) -> None:
        nonlocal was_read
        if method == "agent/event":
            event = msgspec.json.decode(params)["event"]
            was_read = was_read or (event["type"] == "tool_execution_end" and not event["isError"])
            renderer.draw(event)

    async with DaemonProcess(argv, environ, draw) as peer:
        try:
            answered = await _ask(peer, model, f"Read the file {file} please.")
        except (RpcError, PeerClosedError) as error:
            say(f"it failed: {in_a_shell(str(error))}")
            return 1
    if answered and not was_read:
        say(f"it failed: {file} was not read")
    return 0 if answered and was_read else 1


async def _ask(peer: Peer, model: str, question: str) -> bool:
    """Do what any client does; True when the model came to an end of its own."""
    await peer.request("initialize", {"processId": os.getpid(), "cwd": str(Path.cwd())})
    session = {
        "model": model,
        "tools": ["read"],
        "ephemeral": True,
        "permissionMode": "readonly",
    }
    state = msgspec.json.decode(await peer.request("session/new", session))
    say(f"> {question}")
    prompt = {"sessionId": state["sessionId"], "message": question}
    result = msgspec.json.decode(await peer.request("prompt", prompt))
    await peer.request("shutdown", None)
    return bool(result.get("stopReason") == "stop")
