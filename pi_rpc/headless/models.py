"""``pi-rpc models``: the models there are, which one a name means, and whether one answers.

Owns the output. Exit codes: 0 found, or the check passed; 1 nothing found, or it failed; 2 usage.
Which models there are and what a name means is the registry's (``pi_rpc.harness.model_registry``);
the check itself is in ``pi_rpc.headless._model_check``.
"""

import sys
from typing import TYPE_CHECKING

import anyio

from pi_rpc.harness.model_registry import ModelChoice, ModelRegistry, UnknownModelError
from pi_rpc.headless._table import in_a_shell, in_columns, printable
from pi_rpc.host.services import Services
from pi_rpc.llm.messages import Wire
from pi_rpc.llm.models import THINKING_LEVELS, Model, thinking_levels
from pi_rpc.protocol.encode import encode
from pi_rpc.protocol.requests import ModelEntry

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run_models"]

_DONE, _FAILED, _USAGE = 0, 1, 2
_HEADER = ("", "MODEL", "WINDOW", "OUTPUT", "THINKS", "SEES", "$ IN", "$ OUT")


class _Listing(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What ``--json`` prints."""

    models: list[ModelEntry]
    choice: str = ""
    """The model that the pattern means."""
    thinking_level: str = ""
    """The level that the pattern names."""
    problem: str = ""
    """Why the pattern means no model."""


def run_models(arguments: "Namespace") -> int:
    """List, or check; returns the exit code."""
    services = Services()
    if arguments.check is not None:
        if arguments.pattern is not None:
            sys.stderr.write("pi-rpc models: name what to check behind --check, and nothing else\n")
            return _USAGE
        return _check(services, arguments.check, as_json=arguments.json)
    anyio.run(services.look_for_local_servers)
    return _list(services.models, arguments)


def _list(registry: ModelRegistry, arguments: "Namespace") -> int:
    choice, problem = _chosen(registry, arguments.pattern)
    usable: dict[str, bool] = {}
    for model in (models := registry.models()):
        if model.provider not in usable:
            usable[model.provider] = registry.authenticated(model)
    shown = [
        model
        for model in models
        if _fits(model, arguments.pattern, choice)
        and (usable[model.provider] or not arguments.usable)
    ]
    if arguments.json:
        listing = _Listing(
            models=[_entry(model, authenticated=usable[model.provider]) for model in shown],
            choice=choice.model.ref if choice else "",
            thinking_level=(choice.thinking_level or "") if choice else "",
            problem=problem,
        )
        sys.stdout.buffer.write(encode(listing) + b"\n")
    else:
        _print(shown, usable, registry)
        if choice is not None:
            level = f", thinking {choice.thinking_level}" if choice.thinking_level else ""
            sys.stdout.write(f"{arguments.pattern} means {choice.model.ref}{level}\n")
        elif problem:
            sys.stderr.write(f"pi-rpc models: {printable(problem)}\n")
    return _FAILED if problem or not shown else _DONE


def _chosen(registry: ModelRegistry, pattern: str | None) -> tuple[ModelChoice | None, str]:
    if pattern is None:
        return None, ""
    try:
        return registry.choose(pattern), ""
    except UnknownModelError as error:
        return None, in_a_shell(error.message)


def _fits(model: Model, pattern: str | None, choice: ModelChoice | None) -> bool:
    """Whether to list it: what the pattern means, and whatever else has its words in the name."""
    if pattern is None or (choice is not None and model.ref == choice.model.ref):
        return True
    name, _, level = pattern.rpartition(":")
    text = f"{model.ref} {model.name}".casefold()
    wanted = name if name and level in THINKING_LEVELS else pattern
    return all(word in text for word in wanted.casefold().split())


def _print(models: list[Model], usable: dict[str, bool], registry: ModelRegistry) -> None:
    if models:
        rows = [_HEADER, *(_row(model, usable=usable[model.provider]) for model in models)]
        sys.stdout.writelines(f"{line}\n" for line in in_columns(rows))
    if models and not any(usable[model.provider] for model in models):
        hints = {model.provider: registry.unusable(model) for model in models}
        sys.stdout.write("none of them can be asked:\n")
        sys.stdout.writelines(f"  {printable(each)}\n" for each in hints.values())
    elif models:
        sys.stdout.write("* can be asked: there is a key, or none is needed\n")


def _row(model: Model, *, usable: bool) -> tuple[str, ...]:
    levels = [level for level in thinking_levels(model) if level != "off"]
    return (
        "*" if usable else " ",
        model.ref,
        _tokens(model.context_window),
        _tokens(model.max_tokens),
        f"{levels[0]}-{levels[-1]}" if len(levels) > 1 else (levels[0] if levels else "-"),
        "images" if "image" in model.input else "-",
        f"{model.cost.input:g}",
        f"{model.cost.output:g}",
    )


def _tokens(count: int) -> str:
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{count / 1000:.3g}k"


def _entry(model: Model, *, authenticated: bool) -> ModelEntry:
    return ModelEntry(
        provider=model.provider,
        id=model.id,
        name=model.name,
        context_window=model.context_window,
        max_tokens=model.max_tokens,
        input=model.input,
        thinking_levels=thinking_levels(model),
        cost=model.cost,
        authenticated=authenticated,
    )


# --- checking -----------------------------------------------------------------------------------


def _check(services: Services, named: str, *, as_json: bool) -> int:
    from pi_rpc.headless._model_check import CheckedModel, checked

    anyio.run(services.look_for_local_servers)
    of_provider = services.models.models_of(named)
    try:
        model = of_provider[0] if of_provider else services.models.find(named)
    except UnknownModelError as error:
        sys.stderr.write(f"pi-rpc models: {printable(in_a_shell(error.message))}\n")
        return _USAGE

    async def ask() -> CheckedModel:
        try:
            return await checked(services, model)
        finally:
            await services.aclose()

    result = anyio.run(ask)
    if as_json:
        sys.stdout.buffer.write(encode(result) + b"\n")
    else:
        sys.stdout.write(f"{result.model}\n")
        rows = [(f"  {each.name}", each.state, each.note) for each in result.checks]
        sys.stdout.writelines(f"{printable(line)}\n" for line in in_columns(rows))
    return _DONE if result.passed else _FAILED
