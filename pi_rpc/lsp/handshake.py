"""``initialize`` of the Language Server Protocol: what editor and server tell each other first.

Owns what is read of the editor's capabilities and what this server says that it can do. Light
enough to be imported before the answer.
"""

from typing import Any, NamedTuple

from msgspec import Raw, ValidationError, field, json

from pi_rpc import __version__
from pi_rpc._os.running import is_running
from pi_rpc.protocol.decode import decode_params
from pi_rpc.protocol.handshake import (
    InitializeParams,
    PositionEncoding,
    ServerInfo,
    default_session_params,
    position_encoding,
)
from pi_rpc.wire import Wire

__all__ = ["COMMANDS", "EditorAbilities", "Greeting", "InitializeResult", "Options", "greet"]

COMMANDS = (
    *("pi.prompt", "pi.fix", "pi.explain", "pi.ask", "pi.send", "pi.steer", "pi.stop"),
    *("pi.compact", "pi.newSession", "pi.pickModel"),
)
"""What ``workspace/executeCommand`` knows."""


class Options(Wire, frozen=True, kw_only=True):
    """What of ``initializationOptions`` is read beside ``session``."""

    agent_events: bool = False
    """Send every event of every session as ``agent/event``."""


class _Declared(Wire, frozen=True, kw_only=True):
    capabilities: dict[str, Any] = field(default_factory=dict)


class EditorAbilities(NamedTuple):
    """What the editor can do for us, as far as it has said. What is absent it cannot."""

    code_action_literals: bool = False
    """It takes code actions, not only commands."""
    apply_edit: bool = False
    """It answers ``workspace/applyEdit``."""
    versioned_edits: bool = False
    """Edits may name the version they are made for."""
    show_document: bool = False
    """It answers ``window/showDocument``."""
    progress: bool = False
    """It shows progress that the server begins."""


class Greeting(NamedTuple):
    """An ``initialize`` that was accepted."""

    params: InitializeParams
    options: Options
    editor: EditorAbilities
    client_was_there: bool
    """The process that the client named ran at that moment."""

    @property
    def encoding(self) -> PositionEncoding:
        """The unit of every ``character``."""
        return position_encoding(self.params)


class InitializeResult(Wire, frozen=True, kw_only=True):
    """The result of ``initialize``."""

    capabilities: dict[str, Any]
    server_info: ServerInfo


def greet(params: Raw | None) -> tuple[Greeting, InitializeResult]:
    """The params and the answer to them. Raises ``msgspec.MsgspecError``."""
    said = decode_params(InitializeParams, params)
    default_session_params(said)
    declared = decode_params(_Declared, params).capabilities
    was_there = is_running(said.process_id or None)
    greeting = Greeting(said, _options(said), _abilities(declared), was_there)
    capabilities = _capabilities(greeting.encoding)
    server = ServerInfo(name="pi-rpc", version=__version__)
    return greeting, InitializeResult(capabilities=capabilities, server_info=server)


def _options(params: InitializeParams) -> Options:
    options = params.initialization_options
    if not isinstance(options, dict):
        return Options()
    try:
        return decode_params(Options, json.encode(options))
    except ValidationError as error:
        raise ValidationError(str(error).replace("at `$", "at `$.initializationOptions")) from None


def _abilities(declared: dict[str, Any]) -> EditorAbilities:
    def has(*path: str) -> bool:
        at: Any = declared
        for name in path:
            at = at.get(name) if isinstance(at, dict) else None
        return at not in (None, False)

    return EditorAbilities(
        code_action_literals=has("textDocument", "codeAction", "codeActionLiteralSupport"),
        apply_edit=has("workspace", "applyEdit"),
        versioned_edits=has("workspace", "workspaceEdit", "documentChanges"),
        show_document=has("window", "showDocument", "support"),
        progress=has("window", "workDoneProgress"),
    )


def _capabilities(encoding: PositionEncoding) -> dict[str, Any]:
    incremental = 2
    return {
        "positionEncoding": encoding,
        "textDocumentSync": {
            "openClose": True,
            "change": incremental,
            "save": {"includeText": False},
        },
        "codeActionProvider": {
            "codeActionKinds": ["quickfix", "refactor.rewrite", "source"],
            "workDoneProgress": False,
        },
        "executeCommandProvider": {"commands": list(COMMANDS), "workDoneProgress": True},
        "hoverProvider": True,
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
        "experimental": {"pi": {"agentEvents": True}},
    }
