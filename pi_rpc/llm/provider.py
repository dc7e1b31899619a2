"""The interface between a caller and a provider: what is asked, and how the answer is streamed.

Owns the request side (``Context``, ``ToolSpec``, ``StreamOptions``), the signatures a provider
implements, and ``stream_simple``, which picks the provider by the model's dialect. The answer side
is ``pi_rpc.llm.stream``."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct, field

from pi_rpc.llm.abort import AbortController, AbortSignal
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.messages import Message, ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder

__all__ = [
    "APIS",
    "CACHE_VARIABLE",
    "CacheRetention",
    "Context",
    "EventBatches",
    "Provider",
    "StreamFn",
    "StreamOptions",
    "ToolSpec",
    "cache_retention_of",
    "provider_for",
    "stream_simple",
]

CacheRetention: TypeAlias = Literal["none", "short", "long"]

CACHE_VARIABLE = "PI_CACHE_RETENTION"
"""The environment variable that says how long prompts are cached where nobody else does."""

EventBatches: TypeAlias = AsyncGenerator[list[AssistantMessageEvent], None]
"""Block events, one batch per network read; ``start``, ``done`` and ``error`` are the stream's."""


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments, an object."""


class Context(Struct, frozen=True):
    """What a model is asked to continue."""

    messages: Sequence[Message]
    system_prompt: str = ""
    tools: Sequence[ToolSpec] = ()


class StreamOptions(Struct, frozen=True):
    """How a model is asked. Every field has a working default."""

    api_key: str | None = None
    signal: AbortSignal = field(default_factory=lambda: AbortController().signal)
    thinking_level: ThinkingLevel = "off"
    max_tokens: int | None = None
    """Most output tokens; None means the model's own limit."""
    temperature: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """What no error text may show, beside the key and what headers called after keys hold."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of this provider, in place of the process's own of the same names: regions,
    profiles, addresses."""
    session_id: str | None = None
    """Lets a provider route to a warm prompt cache."""
    cache_retention: CacheRetention = "short"
    idle_timeout_s: float = 300.0
    """A provider that sends nothing for this long is given up, and so is one that sends only signs
    of life (comments, pings) for four times as long; 0 waits for ever."""
    read_pause_s: float = 0.0
    """How long events that follow each other quickly may wait to be read together, which takes far
    less of the processor than one by one. 0: each is read as soon as it comes."""
    ca_file: str | None = None
    """A PEM file of authorities that are trusted beside those of the environment."""
    on_payload: Callable[[dict[str, Any], Model], Awaitable[dict[str, Any] | None]] | None = None
    """Sees the request body; what it returns, unless None, is sent instead."""
    on_response: Callable[[int, Mapping[str, str]], Awaitable[None]] | None = None
    """Sees the status and headers of the answer."""

    def __repr__(self) -> str:
        """Without the key, and without what may hold one: headers, the environment."""
        return (
            f"StreamOptions(thinking_level={self.thinking_level!r}, "
            f"max_tokens={self.max_tokens!r}, temperature={self.temperature!r}, "
            f"session_id={self.session_id!r})"
        )


def cache_retention_of(environ: Mapping[str, str]) -> CacheRetention:
    """What ``PI_CACHE_RETENTION`` says: ``none``, ``short`` or ``long``; else ``short``."""
    said = environ.get(CACHE_VARIABLE, "").strip().lower()
    retentions: tuple[CacheRetention, ...] = ("none", "short", "long")
    return next((each for each in retentions if each == said), "short")


class Provider(Protocol):
    """What a module of ``pi_rpc.llm.providers`` exports as ``stream``."""

    def __call__(
        self, model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
    ) -> EventBatches:
        """Ask, and yield the answer's block events, each made by ``builder``.

        The generator ends when the reply is complete, with ``builder.stop_reason`` and
        ``builder.usage`` set; it raises ``ProviderError`` when something failed; it must let a
        cancellation through and close its connection in ``finally``.
        """
        ...


class StreamFn(Protocol):
    """How the agent loop asks a model; ``stream_simple`` is the usual one."""

    def __call__(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Start a reply. Never raises: failures are part of the stream."""
        ...


_PROVIDERS: dict[str, str] = {
    "anthropic-messages": "pi_rpc.llm.providers.anthropic_messages",
    "bedrock-converse-stream": "pi_rpc.llm.providers.bedrock_converse_stream",
    "google-generative-ai": "pi_rpc.llm.providers.google_generative_ai",
    "mistral-conversations": "pi_rpc.llm.providers.mistral_conversations",
    "azure-openai-responses": "pi_rpc.llm.providers.azure_openai_responses",
    "openai-completions": "pi_rpc.llm.providers.openai_completions",
    "openai-responses": "pi_rpc.llm.providers.openai_responses",
    "scripted": "pi_rpc.llm.scripted",
}
APIS: tuple[str, ...] = tuple(sorted(_PROVIDERS.keys() - {"scripted"}))
"""The dialects that are spoken with servers."""


def stream_simple(
    model: Model, context: Context, options: StreamOptions | None = None, /
) -> AssistantMessageStream:
    """Ask ``model`` to continue ``context``.

    Returns at once; nothing is sent before the stream is first read. Never raises: an unknown
    dialect, too, is a final message with ``stopReason`` ``error``.
    """
    options = options or StreamOptions()

    def produce(builder: MessageBuilder) -> EventBatches:
        return provider_for(model.api)(model, context, options, builder)

    return AssistantMessageStream(model, produce, options.signal)


def provider_for(api: str) -> Provider:
    """The provider that speaks the dialect ``api``; raises ``BadRequestError`` if none does."""
    import importlib

    from pi_rpc.llm.errors import BadRequestError

    if api not in _PROVIDERS:
        known = ", ".join(sorted(_PROVIDERS))
        raise BadRequestError(f"no provider speaks the api {api!r}; known are: {known}")
    provider: Provider = importlib.import_module(_PROVIDERS[api]).stream
    return provider
