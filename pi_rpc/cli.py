"""The ``pi-rpc`` command. Imports a front door only when it is asked for."""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from pi_rpc import __version__
from pi_rpc._os.streams import guarded_streams
from pi_rpc.cli_options import add_export_options, add_run_options, add_sessions_command

__all__ = ["main", "parse"]

_PERMISSION_MODES = ("ask", "edits", "full", "readonly")
_USAGE = 2
_INTERRUPTED = 130
_GC_THRESHOLD = 20_000
"""New objects between two looks for garbage of a run; the interpreter's own is 700."""
_THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
_LOG_LEVELS = ("debug", "info", "warn", "error")
_SESSION_OPTIONS = frozenset({"permission_mode", "tools", "model"})
_LOG_OPTIONS = frozenset({"log_level", "log_file"})
_DOORS = ("stdio", "acp", "lsp")
_OF_THE_DAEMON = {*_SESSION_OPTIONS, *_LOG_OPTIONS, *_DOORS, "drain", "trace"}
_HONOURED = {"run": _SESSION_OPTIONS | _LOG_OPTIONS, "demo": {"model"}, "auth": {"acp"}}
"""Options of the daemon that a command takes as well; others take none."""
_SCHEMA_KINDS = {
    "json": "JSON Schema (default)",
    "typescript": "declarations for TypeScript",
    "lua": "annotations and names for Lua",
    "openrpc": "an OpenRPC document",
    "markdown": "the reference tables of protocol.md",
    "write": "bring the generated files of a checkout up to date",
    "check": "say which generated files of a checkout are not",
}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code."""
    try:
        with guarded_streams():
            arguments = parse(sys.argv[1:] if argv is None else argv)
            code = 0 if arguments.command is None else _run_somewhere(arguments)
        if arguments.command is None:
            code = _serve(arguments)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    if arguments.command == "run":
        # All has ended in order, and taking the interpreter apart takes longer than some runs.
        os._exit(code)
    sys.exit(code)


def _run_somewhere(arguments: argparse.Namespace) -> int:
    try:
        os.getcwd()  # noqa: PTH109 - pathlib would have to be loaded
    except OSError as error:
        sys.stderr.write(f"pi-rpc: there is no working directory ({error.strerror}): cd to one\n")
        return _USAGE
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "run":
            # What is loaded stays; looking for garbage among it is in vain.
            gc.set_threshold(_GC_THRESHOLD)
            from pi_rpc.headless.run import run_prompt

            return run_prompt(arguments)
        case "demo":
            from pi_rpc.headless.demo import run_demo

            return run_demo(arguments)
        case "schema":
            from pi_rpc.headless.schema import run_schema

            return run_schema(arguments)
        case "auth":
            from pi_rpc.headless.auth import run_auth

            return run_auth(arguments)
        case "models":
            from pi_rpc.headless.models import run_models

            return run_models(arguments)
        case "doctor":
            from pi_rpc.headless.doctor import run_doctor

            return run_doctor(arguments)
        case "export":
            from pi_rpc.headless.export import run_export

            return run_export(arguments)
        case "sessions":
            from pi_rpc.headless.sessions import run_sessions

            return run_sessions(arguments)
        case "trace":
            from pi_rpc.headless.trace import run_trace

            return run_trace(arguments)
        case "local":
            from pi_rpc.headless.local import run_local

            return run_local(arguments)
        case _:
            raise AssertionError(arguments.command)


def _serve(arguments: argparse.Namespace) -> int:
    """The streams are the wire's."""
    if arguments.acp:
        from pi_rpc.acp.stdio import run_acp

        return run_acp(arguments)
    if arguments.lsp:
        from pi_rpc.lsp.stdio import run_lsp

        return run_lsp(arguments)
    from pi_rpc.server.stdio import run_stdio

    return run_stdio(arguments)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; prints help or what is wrong and exits (2) as ``argparse`` does."""
    parser = argparse.ArgumentParser(
        prog="pi-rpc",
        description="A coding agent as a long-running process that speaks JSON-RPC 2.0 over stdio.",
    )
    parser.add_argument("--version", action="version", version=f"pi-rpc {__version__}")
    door = parser.add_mutually_exclusive_group()
    door.add_argument("--stdio", action="store_true", help="serve a client on stdin and stdout")
    door.add_argument(
        "--acp", action="store_true", help="the same in the Agent Client Protocol, for editors"
    )
    door.add_argument(
        "--lsp", action="store_true", help="the same as a language server, for any editor"
    )
    parser.add_argument(
        "--drain",
        action="store_true",
        help="at the end of input finish what was accepted instead of aborting it",
    )
    _add_session_options(parser)
    _add_log_options(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="add every frame to FILE, with credentials masked"
    )
    _add_commands(parser)
    arguments = parser.parse_args(argv)
    if arguments.command is None and not any(getattr(arguments, each) for each in _DOORS):
        parser.error("say --stdio, --acp or --lsp to serve a client, or name a command")
    if arguments.command is not None:
        honoured = _HONOURED.get(arguments.command, frozenset())
        for name in sorted(_OF_THE_DAEMON - honoured):
            said = getattr(arguments, name, None)
            if said is not None and said is not False:
                option = f"--{name.replace('_', '-')}"
                parser.error(f"{option} has no meaning for the command {arguments.command!r}")
    return arguments


def _add_session_options(
    parser: argparse.ArgumentParser, default: str | None = None, *, mode: str = "ask"
) -> None:
    """``default`` suppressed: what was said before the command holds. ``mode``: which permission
    mode there is where none is named, in words."""
    parser.add_argument(
        "--permission-mode",
        default=default,
        choices=_PERMISSION_MODES,
        help=f"what sessions may do (default: {mode})",
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


def _add_log_options(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """``default`` as in ``_add_session_options``."""
    parser.add_argument(
        "--log-level", default=default, choices=_LOG_LEVELS, help="how much to log (default: warn)"
    )
    parser.add_argument(
        "--log-file", default=default, metavar="FILE", help="log here instead of on stderr"
    )


def _add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    run = commands.add_parser("run", help="run one prompt and print the answer")
    add_run_options(run, _THINKING_LEVELS)
    unnamed = "readonly where there is no terminal, else ask"
    _add_session_options(run, argparse.SUPPRESS, mode=unnamed)
    _add_log_options(run, argparse.SUPPRESS)
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
    for name, text in _SCHEMA_KINDS.items():
        kind.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=text)
    schema.set_defaults(kind="json")
    _add_model_commands(commands)
    _add_looking_commands(commands)
    local = commands.add_parser("local", help="the embedded model")
    local.add_argument("action", choices=("install", "status"))


def _add_looking_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    export = commands.add_parser("export", help="write a session to a file, to read or pass on")
    add_export_options(export)
    add_sessions_command(commands)
    trace = commands.add_parser("trace", help="look at what --trace has recorded")
    actions = trace.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="print it as a timeline")
    show.add_argument("file", help="- is standard input")
    show.add_argument("--session", metavar="ID", help="only what is about this session")
    show.add_argument("--method", metavar="NAME", help="only this method, or type of event")
    show.add_argument("--json", action="store_true", help="a line of JSON for each line")


def _add_model_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    auth = commands.add_parser("auth", help="the keys of providers")
    actions = auth.add_subparsers(dest="action", metavar="ACTION", required=True)
    status = actions.add_parser("status", help="where keys come from, and whether they can be used")
    status.add_argument("provider", nargs="?")
    status.add_argument("--all", action="store_true", help="providers without a key, too")
    status.add_argument("--json", action="store_true", help="print one object of JSON")
    store = actions.add_parser(
        "set", help="store a key in auth.json; it is read from standard input, or asked for"
    )
    store.add_argument("provider")
    other = store.add_mutually_exclusive_group()
    other.add_argument(
        "--env", metavar="NAME", dest="key_variable", help="an environment variable has the key"
    )
    other.add_argument(
        "--from-command", metavar="LINE", dest="key_command", help="a shell command prints the key"
    )
    remove = actions.add_parser("remove", help="forget what auth.json has of a provider")
    remove.add_argument("provider")
    models = commands.add_parser("models", help="list models, or check that one answers")
    models.add_argument(
        "pattern", nargs="?", help="what to look for, as --model takes it: sonnet, openai/gpt-5"
    )
    models.add_argument("--json", action="store_true", help="print one object of JSON")
    models.add_argument("--usable", action="store_true", help="only those that can be asked")
    models.add_argument(
        "--check",
        metavar="PROVIDER",
        help="ask its default model, or the one named as provider/id, one tiny question",
    )
    doctor = commands.add_parser("doctor", help="what is configured, what is missing")
    doctor.add_argument("--json", action="store_true", help="print one object of JSON")
