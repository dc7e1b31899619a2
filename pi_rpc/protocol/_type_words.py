"""What the rendered languages have in common: which types a schema speaks of, and which methods.

Owns the walk through a type of the schema. How a language writes one is its renderer's.
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

__all__ = ["TypeWords", "methods_of"]


class TypeWords(Struct, frozen=True):
    """How a language writes a type."""

    unknown: str
    either: str
    """Stands between alternatives."""
    table: str
    """A table from texts to ``{}``."""
    prefix: str = ""
    """Stands before the names of our types."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Types that are called otherwise than in JSON Schema."""

    def of(self, schema: Mapping[str, Any]) -> str:
        """The type that ``schema`` describes."""
        if "$ref" in schema:
            return self.prefix + str(schema["$ref"]).rpartition("/")[2]
        if "anyOf" in schema:
            return self.either.join(self.of(each) for each in schema["anyOf"])
        if "enum" in schema:
            return self.either.join(json.dumps(each) for each in schema["enum"])
        match schema.get("type"):
            case "array":
                item = self._inner(schema.get("items"))
                return f"({item})[]" if self.either in item else f"{item}[]"
            case "object":
                return self.table.format(self._inner(schema.get("additionalProperties")))
            case str(name):
                return self.names.get(name, name)
            case _:
                return self.unknown

    def _inner(self, schema: Mapping[str, Any] | None) -> str:
        return self.of(schema) if schema else self.unknown


def methods_of(schema: Mapping[str, Any], sender: str, kind: str) -> dict[str, dict[str, Any]]:
    """The methods of one sender and kind, by name."""
    return {
        name: method
        for name, method in schema["methods"].items()
        if (method["sender"], method["kind"]) == (sender, kind)
    }
