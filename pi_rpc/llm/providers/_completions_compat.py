"""How servers that speak ``openai-completions`` differ from each other.

Owns the flags, what is assumed of whom, and the override by a model's ``compat``. Does not own what
a flag changes in a request.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from pi_rpc.llm.http import host_of
from pi_rpc.llm.models import Model

__all__ = ["Compat", "compat_of"]


@dataclass(frozen=True, slots=True)
class Compat:
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
    requires_thinking_as_text: bool = False
    """Past thinking is sent as text, not in a field of its own."""
    requires_reasoning_content_on_assistant_messages: bool = False
    """Every past reply needs ``reasoning_content``, if only an empty one."""
    thinking_format: str = "openai"
    """How thinking is asked for; see ``thinking_parameters``."""
    cache_control_format: str | None = None
    """``anthropic``: cache markers in the style of Anthropic."""
    supports_prompt_cache_key: bool = False
    """It knows ``prompt_cache_key``."""
    supports_long_cache_retention: bool = False
    """It knows ``prompt_cache_retention``."""
    send_session_affinity_headers: bool = False
    """It routes by a session header."""


_OFFICIAL = Compat(
    supports_store=True,
    supports_developer_role=True,
    supports_strict_mode=True,
    max_tokens_field="max_completion_tokens",
    supports_prompt_cache_key=True,
    supports_long_cache_retention=True,
)
_BY_PROVIDER = {
    "openai": _OFFICIAL,
    "openrouter": Compat(thinking_format="openrouter"),
    "deepseek": Compat(
        thinking_format="deepseek", requires_reasoning_content_on_assistant_messages=True
    ),
    "zai": Compat(thinking_format="zai", supports_reasoning_effort=False),
    "qwen": Compat(thinking_format="qwen", supports_reasoning_effort=False),
    "together": Compat(thinking_format="together", supports_reasoning_effort=False),
    "xai": Compat(supports_reasoning_effort=False),
    "mistral": Compat(requires_tool_result_name=True, supports_reasoning_effort=False),
}
_BY_HOST = {
    "api.openai.com": "openai",
    "openrouter.ai": "openrouter",
    "deepseek.com": "deepseek",
    "z.ai": "zai",
    "bigmodel.cn": "zai",
    "aliyuncs.com": "qwen",
    "together.xyz": "together",
    "together.ai": "together",
    "x.ai": "xai",
    "mistral.ai": "mistral",
}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
"""A server here is somebody's own, whatever its provider is called."""
_WIRE_NAMES = {
    "".join(
        part if index == 0 else part.title() for index, part in enumerate(each.name.split("_"))
    ): each.name
    for each in fields(Compat)
}


def compat_of(model: Model) -> Compat:
    """What is assumed of the model's server by its address, else by the provider's name.

    Entries of ``model.compat`` override it one by one; entries that are not known are ignored.
    """
    host = host_of(model.base_url)
    kind = next(
        (name for end, name in _BY_HOST.items() if host == end or host.endswith(f".{end}")), None
    )
    if kind is None and host not in _LOOPBACK:
        kind = model.provider
    found = _BY_PROVIDER.get(kind or "", Compat())
    if kind == "openrouter" and model.id.startswith("anthropic/"):
        found = replace(found, cache_control_format="anthropic")
    overrides: dict[str, Any] = {
        _WIRE_NAMES[name]: value
        for name, value in (model.compat or {}).items()
        if name in _WIRE_NAMES
    }
    return replace(found, **overrides)
