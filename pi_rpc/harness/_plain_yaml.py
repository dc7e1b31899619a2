"""YAML as people write it by hand: no aliases, shallow, of few values.

Owns the bounds within which YAML of strangers costs next to nothing to read. Imports ``yaml``, so
import this only where there is some to read."""

from typing import Any

import yaml

__all__ = ["RefusedError", "load"]

_MAX_DEPTH = 32
_MAX_VALUES = 2000
"""Keys count as well."""


class RefusedError(yaml.MarkedYAMLError):
    """It is YAML, but of a kind that is not read."""


def load(text: str) -> Any:
    """What ``text`` says.

    Raises ``RefusedError`` for aliases, anchors, and what is nested too deeply or holds too much;
    ``yaml.YAMLError`` for what is no YAML; and for a value that is not what its tag or looks say,
    whatever its constructor runs into.
    """
    loader = _PlainLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


class _PlainLoader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        # Aliases make a few lines stand for more than any memory holds. The bounds are looked at
        # here because the scanner reads only a little ahead of it.
        peek: Any = self.peek_event  # its stubs say no types
        event = peek()
        self._values += 1
        refusal = None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            refusal = "aliases and anchors are not supported"
        elif self._depth >= _MAX_DEPTH:
            refusal = f"nested more than {_MAX_DEPTH} levels deep"
        elif self._values > _MAX_VALUES:
            refusal = f"more than {_MAX_VALUES} values"
        if refusal is not None:
            raise RefusedError(problem=refusal, problem_mark=event.start_mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1
