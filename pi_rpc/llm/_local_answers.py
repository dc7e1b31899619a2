"""What the answers of model servers on this machine say about models.

Owns the reading of them: Ollama's, llama.cpp's and LM Studio's. Whatever is missing or of another
kind counts as not said. Pure. Does not own asking (``local_servers``).
"""

import re
from typing import Any

from msgspec import UNSET

from pi_rpc.llm.models import InputKind, Model, ModelCost

__all__ = ["llama_models", "lmstudio_models", "ollama_model", "ollama_names"]

_FREE = ModelCost(input=0, output=0, cache_read=0, cache_write=0)
_WINDOW = 8192
"""Where a server does not say."""
_MOST_OUTPUT = 16_384
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)
_THINKS_ON_DEMAND = "enable_thinking"
"""What templates call the switch for thinking, if they have one."""


def ollama_names(tags: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and digests of ``/api/tags``."""
    return [
        (name, str(each.get("digest", "")))
        for each in _objects(tags.get("models"))
        if (name := _text(each.get("model")) or _text(each.get("name")))
    ]


def ollama_model(
    name: str, shown: dict[str, Any] | None, running: Any, told: int | None, address: str
) -> Model | None:
    """A model as ``/api/show`` describes it; None for one that answers nothing or takes no tools.

    ``running`` is the answer of ``/api/ps``, ``told`` what the environment says of windows. What a
    model was loaded with is its window, else its own setting, else that of the environment, else
    the longest it was made for.
    """
    shown = shown or {}
    abilities = shown.get("capabilities")
    known = isinstance(abilities, list)
    can = set(map(str, abilities)) if isinstance(abilities, list) else set()
    if known and not {"completion", "tools"} <= can:
        # Every request of an agent has tools, and it would be refused.
        return None
    info = shown.get("model_info")
    longest = None
    for key, value in info.items() if isinstance(info, dict) else ():
        if str(key).endswith(".context_length"):
            longest = _count(value)
    loaded = (running or {}).get("models") if isinstance(running, dict) else None
    in_use = next(
        (
            _count(each.get("context_length"))
            for each in _objects(loaded)
            if name in {each.get("model"), each.get("name")}
        ),
        None,
    )
    setting = _NUM_CTX.search(_text(shown.get("parameters")))
    own = int(setting[1]) if setting else None
    thinks = "thinking" in can
    return _model(
        "ollama",
        name,
        address,
        window=in_use or own or told or longest,
        sees="vision" in can,
        thinking=_ollama_levels(shown.get("thinking")) if thinks else None,
    )


def _ollama_levels(thinking: Any) -> dict[str, str | None]:
    """The words for levels; a model that can only think or not takes any of the usual ones."""
    values = thinking.get("values") if isinstance(thinking, dict) else None
    named = [each for each in values if isinstance(each, str)] if isinstance(values, list) else []
    levels: dict[str, str | None] = {"minimal": None}
    for level in ("low", "medium", "high", "max"):
        if level in named or (not named and level != "max"):
            levels[level] = level
        elif level != "max":
            levels[level] = None
    off = not isinstance(values, list) or False in values or "none" in values
    levels["off"] = "none" if off else None
    return levels


def llama_models(
    listed: dict[str, Any], properties: dict[str, Any] | None, address: str
) -> list[Model]:
    """The models of llama.cpp's ``/v1/models``; none if another server answered.

    ``properties`` (``/props``) are those of the only model there is.
    """
    entries = [each for each in _objects(listed.get("data")) if each.get("owned_by") == "llamacpp"]
    only = properties if properties and len(entries) == 1 else {}
    settings = only.get("default_generation_settings")
    modalities = only.get("modalities")
    switch = _THINKS_ON_DEMAND in _text(only.get("chat_template"))
    found = []
    for each in entries:
        meta = each.get("meta")
        made_for = _count(meta.get("n_ctx_train")) if isinstance(meta, dict) else None
        in_use = _count(settings.get("n_ctx")) if isinstance(settings, dict) else None
        if model_id := _text(each.get("id")):
            found.append(
                _model(
                    "llama.cpp",
                    model_id,
                    address,
                    window=in_use or made_for,
                    sees=isinstance(modalities, dict) and modalities.get("vision") is True,
                    thinking=_SWITCH if switch else None,
                )
            )
    return found


_SWITCH: dict[str, str | None] = {"minimal": None, "low": None, "medium": None}
"""A model that thinks or does not, without degrees."""


def lmstudio_models(listed: dict[str, Any], address: str) -> list[Model]:
    """The models of LM Studio's ``/api/v0/models``, or of the plainer ``/v1/models``."""
    found = []
    for each in _objects(listed.get("data")):
        model_id = _text(each.get("id"))
        kind = each.get("type", "llm")
        if not model_id or kind not in {"llm", "vlm"} or "text-embedding" in model_id:
            continue
        loaded, longest = each.get("loaded_context_length"), each.get("max_context_length")
        found.append(
            _model(
                "lmstudio",
                model_id,
                address,
                window=_count(loaded) or _count(longest),
                sees=kind == "vlm",
                thinking=None,
            )
        )
    return found


def _model(
    provider: str,
    model_id: str,
    address: str,
    *,
    window: int | None,
    sees: bool,
    thinking: dict[str, str | None] | None,
) -> Model:
    window = window or _WINDOW
    kinds: list[InputKind] = ["text", "image"] if sees else ["text"]
    return Model(
        id=model_id,
        name=re.split(r"[/\\]", model_id)[-1] if provider == "llama.cpp" else model_id,
        api="openai-completions",
        provider=provider,
        base_url=f"{address}/v1",
        reasoning=thinking is not None,
        input=kinds,
        cost=_FREE,
        context_window=window,
        max_tokens=min(window, _MOST_OUTPUT),
        thinking_level_map=thinking or UNSET,
    )


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
