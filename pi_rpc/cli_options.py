"""The command lines of ``pi-rpc run``, ``pi-rpc sessions`` and ``pi-rpc export``.

Owns their options and how values are written. Imports nothing of ours: the daemon, too, parses its
command line with it. Does not own what the options do.
"""

import argparse
import math
import re
from collections.abc import Sequence
from typing import TypeAlias

__all__ = [
    "add_export_options",
    "add_run_options",
    "add_sessions_command",
    "duration",
    "positive_number",
]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def add_run_options(run: argparse.ArgumentParser, thinking_levels: Sequence[str]) -> None:
    """What ``run`` takes beside the options about model, tools and permissions."""
    run.add_argument(
        "prompt",
        nargs="+",
        metavar="PROMPT",
        help="the words of the prompt; @FILE adds a text or an image, - is standard input",
    )
    _add_output_options(run)
    _add_session_options(run)
    run.add_argument(
        "--thinking", choices=thinking_levels, metavar="LEVEL", help=", ".join(thinking_levels)
    )
    run.add_argument("--system-prompt", metavar="TEXT", help="in place of ours")
    run.add_argument("--append-system-prompt", metavar="TEXT", help="in addition to it")
    for effect, what in (("allow", "are made unasked"), ("deny", "are refused")):
        run.add_argument(
            f"--{effect}",
            action="append",
            default=[],
            metavar="RULE",
            help=f"calls that {what}, such as 'bash(npm test)'; may be repeated",
        )
    run.add_argument("--max-turns", type=_positive_count, metavar="N", help="stop after N replies")
    run.add_argument(
        "--max-cost", type=positive_number, metavar="USD", help="stop when so much has been spent"
    )
    run.add_argument(
        "--timeout", type=duration, metavar="TIME", help="end after TIME: 90, 90s, 15m, 1h"
    )
    recording = run.add_mutually_exclusive_group()
    recording.add_argument("--record", metavar="FILE", help="keep the model's replies in FILE")
    recording.add_argument("--replay", metavar="FILE", help="ask FILE in place of a model")


def _add_output_options(run: argparse.ArgumentParser) -> None:
    form = run.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print every event as a line of JSON")
    form.add_argument(
        "--output",
        choices=("text", "json", "markdown"),
        default="text",
        help="print the answer (default), the result as JSON, or a report",
    )
    run.add_argument(
        "--output-schema", metavar="FILE", help="the answer is JSON that this JSON Schema describes"
    )
    run.add_argument(
        "--github", action="store_true", help="write summary, outputs and annotations for Actions"
    )


def _add_session_options(run: argparse.ArgumentParser) -> None:
    which = run.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID|FILE", help="go on in this session")
    which.add_argument(
        "--continue",
        dest="continue_",
        action="store_true",
        help="go on in the latest session of the working directory, if there is one",
    )
    which.add_argument("--ephemeral", action="store_true", help="keep no session file")
    run.add_argument("--cwd", metavar="DIR", help="the directory to work in")


def add_sessions_command(commands: Commands) -> None:
    """``pi-rpc sessions list|show|export|delete``."""
    sessions = commands.add_parser("sessions", help="list, show, export or delete stored sessions")
    actions = sessions.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the latest first")
    listing.add_argument("query", nargs="?", help="a part of the name or of the first message")
    listing.add_argument("--cwd", metavar="DIR", help="only those of this directory")
    listing.add_argument("--limit", type=_positive_count, default=20, metavar="N")
    listing.add_argument("--json", action="store_true", help="print a line of JSON for each")
    show = actions.add_parser("show", help="print one as Markdown")
    show.add_argument("session", help="its id, or its .jsonl file")
    show.add_argument("--json", action="store_true", help="print its entries, as they are stored")
    add_export_options(actions.add_parser("export", help="write one to a file"))
    delete = actions.add_parser("delete", help="move some to the trash")
    delete.add_argument("session", nargs="+", help="ids, or .jsonl files")


def add_export_options(export: argparse.ArgumentParser) -> None:
    """What ``export`` takes, below ``sessions`` or not."""
    export.add_argument("session", help="its id, or its .jsonl file")
    export.add_argument(
        "--format",
        choices=("html", "markdown", "jsonl"),
        help="default: what the name of the output says, else html",
    )
    export.add_argument(
        "-o", "--output", metavar="FILE", help="default: a new file in the current directory"
    )
    export.add_argument("--overwrite", action="store_true", help="replace a file that exists")


def duration(text: str) -> float:
    """Seconds, of ``90``, ``90s``, ``1.5m`` or ``1h``; raises ``ArgumentTypeError``."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2] or ""] if found else 0.0
    if not 0 < seconds <= 31_536_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90, 90s, 15m or 1h")
    return seconds


def positive_number(text: str) -> float:
    """A number above zero; raises ``ArgumentTypeError``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def _positive_count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)
