"""``pi-rpc schema``: the protocol, printed or written into the files that are made from it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pi_rpc.protocol.schema import KINDS, render, update_files

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_schema"]


def run_schema(arguments: "Namespace") -> int:
    """Print the schema, or bring the generated files of the current checkout up to date."""
    if arguments.kind in KINDS:
        sys.stdout.write(render(arguments.kind))
        return 0
    check = arguments.kind == "check"
    try:
        drifted = update_files(Path.cwd(), check=check)
    except (ValueError, OSError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        sys.stderr.write(f"pi-rpc schema: {reason}\nRun it at the root of a checkout.\n")
        return 2
    for path in drifted:
        sys.stderr.write(f"{path} {'is out of date: run `make docs`' if check else 'written'}\n")
    return 1 if check and drifted else 0
