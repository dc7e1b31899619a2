"""How servers that speak ``openai-completions`` differ from each other.

Owns the flags, what is assumed of whom, and the override by a model's ``compat``. Does not own what
a flag changes in a request.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from pi_rpc.llm.http import host_of
from pi_rpc.llm.models import Model

__all__ = ["FLAGS", "Compat", "compat_of"]


class Compat(Struct, frozen=True):
    """What a server understands. The names in ``models.json`` are the same in camelCase."""

    supports_store: bool = False
    """It knows ``store``."""
    supports_developer_role: bool = False
    """Reasoning models take their instructions from the role ``developer``."""
    supports_reasoning_effort: bool = True
    """It knows ``reasoning_effort``."""
    supports_usage_in_streaming: bool = True
    """It knows ``stream_options.include_usage``."""
    supports_finish_reason: bool = True
    """Its streams end with a ``finish_reason``; without it a closed stream is a complete one."""
    supports_strict_mode: bool = False
    """Its tools take ``strict``."""
    max_tokens_field: str = "max_tokens"
    """``max_tokens`` or ``max_completion_tokens``."""
    requires_tool_result_name: bool = False
    """A tool result must repeat the tool's name."""
    requires_assistant_after_tool_result: bool = False
    """A user message may not follow a tool result directly."""
    requires_non_null_assistant_content: bool = False
    """A reply without text has ``""`` as its content, not null."""
    requires_tools_with_tool_history: bool = False
    """A request without tools needs an empty list of them once the conversation had calls."""
    requires_thinking_as_text: bool = False
    """Past thinking is sent as text, not in a field of its own."""
    requires_reasoning_content_on_assistant_messages: bool = False
    """Every past reply needs ``reasoning_content``, if only an empty one."""
    thinking_format: str = "openai"
    """How thinking is asked for: as ``openai``, ``openrouter``, ``deepseek``, ``together``,
    ``baseten``, ``zai``, ``qwen``, ``chat-template``, ``qwen-chat-template``, ``string-thinking``
    or ``ant-ling`` do."""
    thinking_token_budget_field: str | None = None
    """The parameter that limits the tokens of thinking: ``thinking_token_budget`` (vLLM),
    ``thinking_budget`` (Qwen, SGLang) or ``thinking_budget_tokens``."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """What ``chat_template_kwargs`` holds with the format ``chat-template``; ``{"$var": ...}``
    stands for ``thinking.enabled``, ``thinking.effort`` or ``thinking.budget``."""
    chat_template_args: Mapping[str, Any] = field(default_factory=dict)
    """The same for ``chat_template_args`` of the format ``baseten``."""
    zai_tool_stream: bool = False
    """It streams arguments of calls only when told to (``tool_stream``)."""
    cache_control_format: str | None = None
    """``anthropic``: cache markers in the style of Anthropic."""
    prompt_cache_key_mode: str = "auto"
    """``prompt_cache_key`` is sent: ``enabled``, ``disabled``, or ``auto``: with long retention."""
    supports_long_cache_retention: bool = False
    """It knows ``prompt_cache_retention``, or ``ttl`` of a cache marker."""
    send_session_affinity_headers: bool = False
    """It routes by a session header."""
    session_affinity_format: str = "openai"
    """Which headers those are: ``openai``, ``openai-nosession`` or ``openrouter``."""
    open_router_routing: Mapping[str, Any] = field(default_factory=dict)
    """Whom OpenRouter may ask (``provider``)."""
    vercel_gateway_routing: Mapping[str, Any] = field(default_factory=dict)
    """Whom the Vercel AI Gateway may ask (``providerOptions.gateway``)."""
    vllm_priority: int | None = None
    """The request's ``priority`` in vLLM's queue."""


_NEWER_LIMIT = Compat(max_tokens_field="max_completion_tokens")
_NO_EFFORT = Compat(supports_reasoning_effort=False)
_ZAI = Compat(thinking_format="zai", supports_reasoning_effort=False)
_TEMPLATE = Compat(thinking_format="chat-template", supports_reasoning_effort=False)
_BY_PROVIDER = {
    "openai": Compat(
        supports_store=True,
        supports_developer_role=True,
        supports_strict_mode=True,
        max_tokens_field="max_completion_tokens",
        prompt_cache_key_mode="enabled",
        supports_long_cache_retention=True,
    ),
    "openrouter": Compat(
        thinking_format="openrouter",
        send_session_affinity_headers=True,
        session_affinity_format="openrouter",
    ),
    "deepseek": Compat(
        thinking_format="deepseek", requires_reasoning_content_on_assistant_messages=True
    ),
    "groq": _NEWER_LIMIT,
    "cerebras": _NEWER_LIMIT,
    "xai": replace(_NEWER_LIMIT, supports_reasoning_effort=False),
    "together": Compat(thinking_format="together", supports_reasoning_effort=False),
    "fireworks": Compat(send_session_affinity_headers=True),
    "huggingface": Compat(),
    "baseten": Compat(send_session_affinity_headers=True),
    "moonshotai": _NO_EFFORT,
    "moonshotai-cn": _NO_EFFORT,
    "nvidia": _NO_EFFORT,
    "ant-ling": Compat(thinking_format="ant-ling", supports_reasoning_effort=False),
    "zai": _ZAI,
    "zai-coding-cn": _ZAI,
    "qwen": Compat(thinking_format="qwen", supports_reasoning_effort=False),
    "mistral": Compat(requires_tool_result_name=True, supports_reasoning_effort=False),
    "ollama": Compat(),
    "lmstudio": _NO_EFFORT,
    "llama.cpp": _TEMPLATE,
    "vllm": _TEMPLATE,
}
_BY_HOST = {
    "api.openai.com": "openai",
    "openrouter.ai": "openrouter",
    "deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "cerebras.ai": "cerebras",
    "x.ai": "xai",
    "together.xyz": "together",
    "together.ai": "together",
    "fireworks.ai": "fireworks",
    "router.huggingface.co": "huggingface",
    "baseten.co": "baseten",
    "moonshot.ai": "moonshotai",
    "moonshot.cn": "moonshotai",
    "integrate.api.nvidia.com": "nvidia",
    "ant-ling.com": "ant-ling",
    "z.ai": "zai",
    "bigmodel.cn": "zai",
    "aliyuncs.com": "qwen",
    "mistral.ai": "mistral",
}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
"""A server here is somebody's own, whatever its provider is called."""
_ON_LOOPBACK = {"ollama", "lmstudio", "llama.cpp", "vllm"}
_BY_PORT = {11434: "ollama", 1234: "lmstudio"}
"""The ports that servers on one's own machine have unless told otherwise; others are shared."""


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


_FIELDS = {_wire_name(name): name for name in Compat.__struct_fields__}
_ALIASES = {"supportsThinkingTokenBudget"}

FLAGS = frozenset(_FIELDS) | _ALIASES
"""The names that count in a model's ``compat``."""


def compat_of(model: Model) -> Compat:
    """What is assumed of the model's server by its address, else by the provider's name.

    Entries of ``model.compat`` override it one by one; entries that are not known or of the wrong
    kind are ignored.
    """
    kind = _kind_of(model)
    found = _BY_PROVIDER.get(kind, Compat())
    if kind == "openrouter" and model.id.startswith("anthropic/"):
        found = replace(found, cache_control_format="anthropic", supports_long_cache_retention=True)
    told = model.compat or {}
    overrides: dict[str, Any] = {
        _FIELDS[name]: value
        for name, value in told.items()
        if name in _FIELDS and _fits(value, getattr(found, _FIELDS[name]))
    }
    if told.get("supportsThinkingTokenBudget") is True:
        overrides.setdefault("thinking_token_budget_field", "thinking_token_budget")
    return replace(found, **overrides)


def _fits(value: object, default: object) -> bool:
    kinds = (bool, str, Mapping)
    return default is None or any(isinstance(value, k) and isinstance(default, k) for k in kinds)


def _kind_of(model: Model) -> str:
    """Which server it is, by a name of ``_BY_PROVIDER`` where it has one."""
    host = host_of(model.base_url)
    for end, name in _BY_HOST.items():
        if host == end or host.endswith(f".{end}"):
            return name
    if host not in _LOOPBACK or model.provider in _ON_LOOPBACK:
        return model.provider
    try:
        port = urlsplit(model.base_url).port
    except ValueError:
        return ""
    return _BY_PORT.get(port or 0, "")
