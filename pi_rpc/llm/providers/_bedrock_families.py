"""How the families of models behind Bedrock differ.

Owns what is known of a family by its model's id, or by its name where the id is an ARN that says
nothing: which cache points, signatures and results of tools it takes, and how it is told to reason.
Pure.

What AWS documents only for some families is sent only to those; a field that a family does not know
fails the whole request.
"""

import re
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import StreamOptions
from pi_rpc.llm.providers._anthropic_payload import thinking_parameters, thinks_adaptively
from pi_rpc.llm.providers._request import thinking_word

__all__ = ["Family", "Reasoning", "family_of", "reasoning_parameters"]

_INTERLEAVED = "interleaved-thinking-2025-05-14"
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:-(\d{1,2}))?(?!\d)")
_SEPARATORS = re.compile(r"[\s_.:]+")
_EFFORTS: dict[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
"""Efforts of models that know only three."""


class Family(Struct, frozen=True):
    """What a model's family takes. The defaults are what every model does."""

    name: str = ""
    known_as: str = ""
    """The id or name that says which family it is, in the form of an id."""
    caches: bool = False
    """It takes cache points, in the system prompt and in messages."""
    caches_tools: bool = False
    """It takes a cache point among the tools, too."""
    caches_long: bool = False
    """A cache point may ask for an hour."""
    looks_back: bool = False
    """A cache point finds what was cached at an earlier one, and may follow results of tools."""
    signs: bool = False
    """Its thoughts are signed, and refused without the signature; others refuse a signature."""
    has_status: bool = False
    """A result of a tool may say that it is an error."""
    errors_are_text: bool = False
    """Such a result may not show images."""
    interleaves: bool = False
    """It can be asked to think between calls of tools while it thinks within a budget."""


class Reasoning(Struct, frozen=True):
    """How a model is told to reason."""

    fields: dict[str, Any] = field(default_factory=dict)
    """For ``additionalModelRequestFields``."""
    word: str | None = None
    """The level in the provider's words."""
    max_tokens: int | None = None
    """The limit of answer and thoughts together, where it is not the usual one."""
    forbidden: tuple[str, ...] = ()
    """Fields of ``inferenceConfig`` that may not be sent with it."""


def family_of(model: Model) -> Family:
    """What is known of ``model``'s family."""
    for known in (_as_id(model.id), _as_id(model.name)):
        if "claude" in known:
            found = _CLAUDE.search(known)
            version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
            # Sonnet 3.5 has no cache, Haiku 3.5 has.
            caches = version >= (3, 7) or (version == (3, 5) and "haiku" in known)
            return Family(
                name="claude",
                known_as=known,
                caches=caches,
                caches_tools=caches,
                caches_long=version >= (4, 5),
                looks_back=True,
                signs=True,
                has_status=True,
                errors_are_text=True,
                interleaves=version >= (4, 0),
            )
        if "nova-" in known:
            return Family(name="nova", known_as=known, caches=True, has_status=True)
        if "gpt-oss" in known:
            return Family(name="gpt-oss", known_as=known)
        if "gpt-" in known:
            return Family(name="gpt", known_as=known)
    return Family()


def reasoning_parameters(
    family: Family, model: Model, options: StreamOptions, max_tokens: int, region: str
) -> Reasoning:
    """What ``model`` is told of reasoning; nothing where its family documents no way to say it."""
    if not model.reasoning:
        return Reasoning()
    if family.name == "claude":
        return _of_claude(family, model, options, max_tokens, region)
    level, word = thinking_word(model, options.thinking_level)
    if family.name == "gpt" and word is not None:
        word = "low" if word == "minimal" else word
        return Reasoning({"reasoning": {"effort": word}}, word)
    if level == "off":
        return Reasoning()
    effort = _EFFORTS[level]
    if family.name == "gpt-oss":
        return Reasoning({"reasoning_effort": effort}, effort)
    if family.name == "nova" and "nova-2-" in family.known_as:
        told = {"type": "enabled", "maxReasoningEffort": effort}
        forbidden = ("maxTokens", "temperature", "topP") if effort == "high" else ()
        return Reasoning({"reasoningConfig": told}, effort, forbidden=forbidden)
    return Reasoning()


def _of_claude(
    family: Family, model: Model, options: StreamOptions, max_tokens: int, region: str
) -> Reasoning:
    claude = replace(model, id=family.known_as)
    parameters, word = thinking_parameters(claude, options, max_tokens)
    total = parameters.pop("max_tokens", None)
    thinking = parameters.get("thinking")
    if thinking is None:
        return Reasoning(parameters, word, total)
    if region.startswith("us-gov-"):
        # The models there are told in an older form that does not know it.
        thinking.pop("display", None)
    is_budget = thinking.get("type") == "enabled" and not thinks_adaptively(claude)
    if is_budget and family.interleaves:
        parameters["anthropic_beta"] = [_INTERLEAVED]
    return Reasoning(parameters, word, total, forbidden=("temperature",))


def _as_id(text: str) -> str:
    return _SEPARATORS.sub("-", text.lower())
