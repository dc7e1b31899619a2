"""``initialize``: what client and daemon tell each other first.

Owns the params, the result, and the names the result announces. The names stand here as plain
tuples because the tables they come from (``methods``) are too heavy to import before the reply; a
test holds the two together."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, ValidationError, field, json

from pi_rpc.protocol.base import (
    PERMISSION_MODES,
    PROTOCOL_VERSION,
    THINKING_LEVELS,
    SessionNewParams,
    file_path,
)
from pi_rpc.protocol.decode import decode_params
from pi_rpc.wire import Wire

__all__ = [
    "EVENT_NAMES",
    "METHOD_NAMES",
    "POSITION_ENCODINGS",
    "ClientCapabilities",
    "ClientFeatures",
    "ClientInfo",
    "EditorFeatures",
    "EventPreferences",
    "GeneralCapabilities",
    "InitializeParams",
    "InitializeResult",
    "PiCapabilities",
    "PositionEncoding",
    "ServerCapabilities",
    "ServerInfo",
    "WindowCapabilities",
    "WorkspaceFolder",
    "client_features",
    "default_session_params",
    "initialize_result",
    "position_encoding",
    "shows_messages",
    "working_directory",
]

PositionEncoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
POSITION_ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")

METHOD_NAMES: tuple[str, ...] = (
    "initialize",
    "initialized",
    "shutdown",
    "exit",
    "prompt",
    "steer",
    "followUp",
    "continue",
    "abort",
    "compact",
    "branch",
    "queue/clear",
    "queue/remove",
    "session/new",
    "session/open",
    "session/list",
    "session/state",
    "session/configure",
    "session/messages",
    "session/entry",
    "session/entries",
    "session/tree",
    "session/stats",
    "session/label",
    "session/fork",
    "session/export",
    "session/events",
    "session/close",
    "session/delete",
    "checkpoint/list",
    "checkpoint/diff",
    "checkpoint/restore",
    "model/list",
    "tool/list",
    "command/list",
    "file/search",
    "bash",
    "permission/list",
    "permission/forget",
    "trust/get",
    "trust/set",
    "auth/status",
    "auth/set",
    "auth/remove",
    "server/stats",
    "ping",
    "editor/didChange",
    "$/cancelRequest",
    "$/cancel_request",
    "$/setTrace",
)
"""What a client may send, in the order of the documentation."""

EVENT_NAMES: tuple[str, ...] = (
    "agent_start",
    "agent_end",
    "agent_settled",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "compaction_start",
    "compaction_end",
    "auto_retry_start",
    "auto_retry_end",
    "queue_update",
    "save_point",
    "session_changed",
    "entry_appended",
    "files_changed",
    "bash_output",
    "commands_changed",
    "diagnostic",
)
"""The event types that ``agent/event`` can carry."""


class ClientInfo(Wire, frozen=True, kw_only=True):
    """The client, for the log."""

    name: str
    """Its name."""
    version: str | UnsetType = UNSET
    """Its version."""


class WorkspaceFolder(Wire, frozen=True, kw_only=True):
    """A folder that the client has open, as LSP has it."""

    uri: str
    """Its URI."""
    name: str | UnsetType = UNSET
    """Its name in the client."""


class EventPreferences(Wire, frozen=True, kw_only=True):
    """Which events the client wants, and how."""

    message_update: Literal["delta", "snapshot"] = "delta"
    """`snapshot` adds the message so far to every `message_update`; it costs time and bytes that
    grow with the square of the message."""
    opt_out: list[str] = field(default_factory=list)
    """Event types not to send."""
    full: bool = False
    """Whole messages in `turn_end` and `agent_end`."""
    min_interval_ms: Annotated[float, Meta(ge=0)] = 16
    """Deltas of one block, and updates of one tool call, that are closer than this come as one; 0
    sends each as it came."""


class EditorFeatures(Wire, frozen=True, kw_only=True):
    """What an editor can be asked about its documents."""

    read_document: bool = False
    """Answers `editor/readDocument`."""
    apply_edit: bool = False
    """Answers `workspace/applyEdit`."""
    save_document: bool = False
    """Answers `editor/saveDocument`."""


class ClientFeatures(Wire, frozen=True, kw_only=True):
    """What the client can do beyond LSP. What is absent it cannot."""

    permission: bool = False
    """Answers `permission/request`."""
    ui: bool = False
    """Answers `ui/*`."""
    editor: EditorFeatures = EditorFeatures()
    """What can be asked about buffers."""
    events: EventPreferences = EventPreferences()
    """Which events it wants."""


class GeneralCapabilities(Wire, frozen=True, kw_only=True):
    """The part of LSP's `general` capabilities that is read."""

    position_encodings: list[str] | UnsetType | None = UNSET
    """Position encodings the client knows, the preferred first."""


class WindowCapabilities(Wire, frozen=True, kw_only=True):
    """The part of LSP's `window` capabilities that is read."""

    show_message: Any | UnsetType = UNSET
    """An object: the client answers `window/showMessageRequest`, and is asked for permission so
    where it does not answer `permission/request`."""


class ClientCapabilities(ClientFeatures, frozen=True, kw_only=True):
    """LSP's client capabilities, and ours beside them."""

    general: GeneralCapabilities | UnsetType | None = UNSET
    """LSP's."""
    window: WindowCapabilities | UnsetType | None = UNSET
    """LSP's."""
    pi: ClientFeatures | UnsetType = UNSET
    """Ours, for clients that keep them apart from LSP's; when given, those outside are ignored."""
    experimental: Any | UnsetType = UNSET
    """LSP's place for what it does not know. Its field `pi` is read where the one beside it is
    absent, for client libraries that send nothing that LSP does not know."""


class InitializeParams(Wire, frozen=True, kw_only=True):
    """The first request's params. The `InitializeParams` of any LSP client are accepted."""

    process_id: int | UnsetType | None = UNSET
    """The client's process; when it dies the daemon ends."""
    client_info: ClientInfo | UnsetType | None = UNSET
    """Who is asking."""
    protocol_version: int = PROTOCOL_VERSION
    """The version the client was written for."""
    cwd: str | UnsetType = UNSET
    """Working directory, absolute. Absent: the first `file:` workspace folder, else `rootUri`,
    else the directory the daemon was started in."""
    root_uri: str | UnsetType | None = UNSET
    """LSP's root."""
    workspace_folders: list[WorkspaceFolder] | UnsetType | None = UNSET
    """LSP's workspace folders."""
    capabilities: ClientCapabilities = ClientCapabilities()
    """What the client can do."""
    trace: Any | UnsetType = UNSET
    """LSP's: what `$/setTrace` would be sent at once; anything else is ignored."""
    initialization_options: Any | UnsetType = UNSET
    """An object whose `session` holds `session/new` params for the default session; anything else
    is ignored."""


class ServerInfo(Wire, frozen=True, kw_only=True):
    """The daemon."""

    name: str
    """`pi-rpc`."""
    version: str
    """Its version."""


class PiCapabilities(Wire, frozen=True, kw_only=True):
    """What this daemon has. A client asks here instead of comparing versions."""

    methods: tuple[str, ...]
    """Methods that the client may send, notifications included."""
    events: tuple[str, ...]
    """Event types that `agent/event` may carry."""
    permission_modes: tuple[str, ...]
    """Values of `permissionMode`."""
    thinking_levels: tuple[str, ...]
    """Values of `thinkingLevel`, lowest first; which a model offers says `model/list`."""


class ServerCapabilities(Wire, frozen=True, kw_only=True):
    """The daemon's capabilities. No language feature of LSP is among them."""

    position_encoding: PositionEncoding
    """The unit of every `character` in a position: the first the client named that is known."""
    pi: PiCapabilities
    """What this daemon has."""


class InitializeResult(Wire, frozen=True, kw_only=True):
    """The answer to `initialize`."""

    protocol_version: int
    """The version that is spoken: 1."""
    server_info: ServerInfo
    """Who answers."""
    capabilities: ServerCapabilities
    """What it can do."""


def client_features(params: InitializeParams) -> ClientFeatures:
    """What the client can do beyond LSP. Raises ``msgspec.ValidationError`` with the path."""
    capabilities = params.capabilities
    experimental = capabilities.experimental
    if capabilities.pi or not isinstance(experimental, dict) or "pi" not in experimental:
        return capabilities.pi or capabilities
    try:
        return decode_params(ClientFeatures, json.encode(experimental["pi"]))
    except ValidationError as error:
        here = str(error).replace("at `$", "at `$.capabilities.experimental.pi")
        raise ValidationError(here) from None


def shows_messages(params: InitializeParams) -> bool:
    """The client answers LSP's ``window/showMessageRequest``."""
    window = params.capabilities.window
    # Lua cannot tell an empty object from an empty array.
    return isinstance(window, WindowCapabilities) and isinstance(window.show_message, dict | list)


def position_encoding(params: InitializeParams) -> PositionEncoding:
    """The first encoding the client named that we know, else LSP's default."""
    general = params.capabilities.general
    for wanted in (general.position_encodings if general else None) or ():
        for known in POSITION_ENCODINGS:
            if wanted == known:
                return known
    return "utf-16"


def working_directory(params: InitializeParams) -> str | None:
    """The directory the client works in; None: the process's own."""
    if params.cwd:
        return params.cwd
    for folder in params.workspace_folders or ():
        if (path := file_path(folder.uri)) is not None:
            return path
    return file_path(params.root_uri) if params.root_uri else None


def default_session_params(params: InitializeParams) -> SessionNewParams:
    """How to begin the default session. Raises ``msgspec.ValidationError`` with the path."""
    options = params.initialization_options
    if not isinstance(options, dict):
        return SessionNewParams()
    try:
        return decode_params(SessionNewParams, json.encode(options.get("session")))
    except ValidationError as error:
        here = str(error).replace("at `$", "at `$.initializationOptions.session")
        raise ValidationError(here) from None


def initialize_result(params: InitializeParams, version: str) -> InitializeResult:
    """The answer to ``initialize``. ``version`` is the daemon's."""
    return InitializeResult(
        protocol_version=PROTOCOL_VERSION,
        server_info=ServerInfo(name="pi-rpc", version=version),
        capabilities=ServerCapabilities(
            position_encoding=position_encoding(params),
            pi=PiCapabilities(
                methods=METHOD_NAMES,
                events=EVENT_NAMES,
                permission_modes=PERMISSION_MODES,
                thinking_levels=THINKING_LEVELS,
            ),
        ),
    )
