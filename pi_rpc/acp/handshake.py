"""``initialize`` of the Agent Client Protocol: what client and agent tell each other first.

Owns the params, the result and what this door can do. Light enough to be imported before the
answer; all other shapes are in ``pi_rpc.acp.shapes``.
"""

from typing import Any

from msgspec import UNSET, Raw, UnsetType, field

from pi_rpc import __version__
from pi_rpc.protocol.decode import decode_params
from pi_rpc.wire import Wire

__all__ = [
    "EXTRAS",
    "KEYS",
    "PROTOCOL_VERSION",
    "ClientCapabilities",
    "InitializeParams",
    "Meta",
    "greet",
]

PROTOCOL_VERSION = 1

Meta = dict[str, Any]
"""``_meta``: what the protocol does not know. Ours is under the key ``pi``."""

EXTRAS = ("_pi/steer", "_pi/followUp", "_pi/compact", "_pi/branch")
"""Methods of ours that the protocol lacks."""

_TERMINAL_PROVIDERS = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "google": "Google",
    "openrouter": "OpenRouter",
}
KEYS = "keys"
"""The method to authenticate that every client can use."""


class FileSystemCapabilities(Wire, frozen=True, kw_only=True):
    """Which files the client reads and writes for us."""

    read_text_file: bool = False
    write_text_file: bool = False


class SessionCapabilities(Wire, frozen=True, kw_only=True):
    """What the client draws beside the stable updates; null and absent: it does not."""

    compaction: Any = None
    notices: Any = None


class AuthCapabilities(Wire, frozen=True, kw_only=True):
    """How the client can have the person authenticate."""

    terminal: bool = False


class ElicitationCapabilities(Wire, frozen=True, kw_only=True):
    """How the client asks the person; null and absent: it does not."""

    form: Any = None


class ClientCapabilities(Wire, frozen=True, kw_only=True):
    """What the client can do for us. What is absent it cannot."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    session: SessionCapabilities = SessionCapabilities()
    auth: AuthCapabilities = AuthCapabilities()
    elicitation: ElicitationCapabilities = ElicitationCapabilities()


class InitializeParams(Wire, frozen=True, kw_only=True):
    """The params of ``initialize``."""

    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()


class AuthMethod(Wire, frozen=True, kw_only=True):
    """A way to authenticate."""

    id: str
    name: str
    description: str
    type: str | UnsetType = UNSET
    args: list[str] | UnsetType = UNSET


class Implementation(Wire, frozen=True, kw_only=True):
    """Who we are."""

    name: str
    title: str
    version: str


class InitializeResult(Wire, frozen=True, kw_only=True):
    """The result of ``initialize``."""

    protocol_version: int
    agent_capabilities: dict[str, Any]
    auth_methods: list[AuthMethod]
    agent_info: Implementation
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


def greet(params: Raw | None) -> tuple[InitializeParams, InitializeResult]:
    """The params and the answer to them. Raises ``msgspec.MsgspecError``.

    Whatever version the client names, ours is the answer: it is the newest we know, and a client
    that does not know it says so by leaving.
    """
    said = decode_params(InitializeParams, params)
    return said, InitializeResult(
        protocol_version=PROTOCOL_VERSION,
        agent_capabilities=_capabilities(),
        auth_methods=_auth_methods(said.client_capabilities),
        agent_info=Implementation(name="pi-rpc", title="pi", version=__version__),
    )


def _capabilities() -> dict[str, Any]:
    return {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": False, "sse": False},
        "sessionCapabilities": {
            "list": {},
            "delete": {},
            "additionalDirectories": {},
            "resume": {},
            "close": {},
        },
        "auth": {"logout": {}},
        "_meta": {"pi": {"methods": list(EXTRAS)}},
    }


def _auth_methods(client: ClientCapabilities) -> list[AuthMethod]:
    methods = [
        AuthMethod(
            id=KEYS,
            name="Keys of providers",
            description=(
                "Keys from the environment, such as ANTHROPIC_API_KEY or OPENAI_API_KEY, or stored"
                " with `pi-rpc auth set PROVIDER`; the embedded model needs none."
            ),
        )
    ]
    if client.auth.terminal:
        methods += [
            AuthMethod(
                id=f"{KEYS}-{provider}",
                name=f"Key for {name}",
                description=f"Store a key for {name}; it is asked for in a terminal.",
                type="terminal",
                args=["auth", "set", provider],
            )
            for provider, name in _TERMINAL_PROVIDERS.items()
        ]
    return methods
