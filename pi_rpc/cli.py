"""The ``pi-rpc`` command. Imports a front door only when it is asked for."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from pi_rpc import __version__

__all__ = ["main", "parse"]

_PERMISSION_MODES = ("ask", "edits", "full", "readonly")
_INTERRUPTED = 130
_LOG_LEVELS = ("debug", "info", "warn", "error")


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "run":
            from pi_rpc.headless.run import run_prompt

            return run_prompt(arguments)
        case "demo":
            from pi_rpc.headless.demo import run_demo

            return run_demo(arguments)
        case "schema":
            from pi_rpc.headless.schema import run_schema

            return run_schema(arguments)
        case "local":
            from pi_rpc.headless.local import run_local

            return run_local(arguments)
        case _:
            from pi_rpc.server.stdio import run_stdio

            return run_stdio(arguments)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; prints help or what is wrong and exits (2) as ``argparse`` does."""
    parser = argparse.ArgumentParser(
        prog="pi-rpc",
        description="A coding agent as a long-running process that speaks JSON-RPC 2.0 over stdio.",
    )
    parser.add_argument("--version", action="version", version=f"pi-rpc {__version__}")
    parser.add_argument("--stdio", action="store_true", help="serve a client on stdin and stdout")
    parser.add_argument(
        "--drain",
        action="store_true",
        help="at the end of input finish what was accepted instead of aborting it",
    )
    _add_session_options(parser)
    parser.add_argument("--log-level", choices=_LOG_LEVELS, default="warn")
    parser.add_argument("--log-file", metavar="FILE", help="log here instead of on stderr")
    _add_commands(parser)
    arguments = parser.parse_args(argv)
    if arguments.command is None and not arguments.stdio:
        parser.error("say --stdio to serve a client, or name a command")
    return arguments


def _add_session_options(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """``default`` suppressed: what was said before the command holds."""
    parser.add_argument(
        "--permission-mode",
        default=default,
        choices=_PERMISSION_MODES,
        help="what sessions may do (default: ask)",
    )
    parser.add_argument(
        "--tools",
        default=default,
        type=lambda text: [name.strip() for name in text.split(",") if name.strip()],
        metavar="NAMES",
        help="tools to offer the model, with commas between them",
    )
    parser.add_argument(
        "--model", default=default, metavar="MODEL", help="for instance anthropic/claude-sonnet-4-5"
    )


def _add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    run = commands.add_parser("run", help="run one prompt and print the answer")
    run.add_argument("prompt", nargs="+")
    run.add_argument("--json", action="store_true", help="print every event as a line of JSON")
    run.add_argument("--ephemeral", action="store_true", help="keep no session file")
    _add_session_options(run, argparse.SUPPRESS)
    demo = commands.add_parser("demo", help="see it work: a model reads a file with a tool")
    demo.add_argument("--install", action="store_true", help="install the embedded model first")
    demo.add_argument(
        "--model",
        default=argparse.SUPPRESS,
        metavar="MODEL",
        help="a model of yours; it may cost money",
    )
    demo.add_argument("--file", default="README.md", help="what to read (default: README.md)")
    schema = commands.add_parser("schema", help="print the protocol's schema")
    kind = schema.add_mutually_exclusive_group()
    kind.add_argument("--json", dest="kind", action="store_const", const="json")
    kind.add_argument("--markdown", dest="kind", action="store_const", const="markdown")
    kind.add_argument("--write", dest="kind", action="store_const", const="write")
    kind.add_argument("--check", dest="kind", action="store_const", const="check")
    schema.set_defaults(kind="json")
    local = commands.add_parser("local", help="the embedded model")
    local.add_argument("action", choices=("install", "status"))
