"""How servers that speak ``anthropic-messages`` differ from each other.

Owns the flags, what is assumed of whom, and the override by a model's ``compat``. Does not own what
a flag changes in a request.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pi_rpc.llm.http import host_of
from pi_rpc.llm.models import Model

__all__ = ["FLAGS", "AnthropicCompat", "anthropic_compat_of"]


class AnthropicCompat(Struct, frozen=True):
    """What a server understands. The names in ``models.json`` are the same in camelCase."""

    force_adaptive_thinking: bool | None = None
    """The model decides how long to think and is told an effort; None goes by its name."""
    supports_temperature: bool = True
    """The model takes ``temperature`` while it does not think."""
    supports_eager_tool_input_streaming: bool = True
    """Its tools take ``eager_input_streaming``; else the beta header of old is sent."""
    supports_cache_control_on_tools: bool = True
    """Tools may carry a cache marker."""
    supports_long_cache_retention: bool = True
    """A cache marker may ask for an hour."""
    allow_empty_signature: bool = False
    """Past thinking without a signature is sent as thinking; else it is sent as text."""
    send_session_affinity_headers: bool = False
    """It routes by a session header."""
    session_affinity_format: str | None = None
    """``openrouter``: that header is ``x-session-id``; else it is ``x-session-affinity``."""


_BY_HOST = {
    "openrouter.ai": AnthropicCompat(
        send_session_affinity_headers=True, session_affinity_format="openrouter"
    ),
    "fireworks.ai": AnthropicCompat(
        supports_eager_tool_input_streaming=False,
        supports_cache_control_on_tools=False,
        supports_long_cache_retention=False,
        allow_empty_signature=True,
        send_session_affinity_headers=True,
    ),
}


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


_FIELDS = {_wire_name(name): name for name in AnthropicCompat.__struct_fields__}

FLAGS = frozenset(_FIELDS)
"""The names that count in a model's ``compat``."""


def anthropic_compat_of(model: Model) -> AnthropicCompat:
    """What is assumed of the model's server by its address.

    Entries of ``model.compat`` override it one by one; entries that are not known or of the wrong
    kind are ignored.
    """
    host = host_of(model.base_url)
    found = next(
        (compat for end, compat in _BY_HOST.items() if host == end or host.endswith(f".{end}")),
        AnthropicCompat(),
    )
    overrides: dict[str, Any] = {
        _FIELDS[name]: value
        for name, value in (model.compat or {}).items()
        if name in _FIELDS and isinstance(value, str if name.endswith("Format") else bool)
    }
    return replace(found, **overrides)
