"""Frames that no client should send, made by chance, and what may be expected of the daemon.

Owns the making of cases from a seed: bytes, JSON values, the shapes of JSON-RPC, and params as the
schema has them or almost. Does not own sending them (``fuzzing``).
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).parents[2] / "schema" / "pi-rpc.schema.json").read_text())

ODD_TEXTS = (
    "", " ", "\x00", "\ud800", "\u2028", "\u202e", "a" * 5000, "../..", "/", "~", "$HOME", "-1",
    "initialize", "__proto__", "class", "\ufeff", "é", "e\u0301", "💥", "null", "{}", "\r\n", "NaN",
)  # fmt: skip
ODD_NUMBERS = (
    0, -0.0, 1, -1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40, 1e308, 1.5, 3.0, 1e-320,
)  # fmt: skip

FORBIDDEN = {"initialize", "initialized", "shutdown", "exit"}
"""They begin and end a connection; other tests are about them."""


@dataclass(frozen=True)
class Case:
    """One line to send."""

    kind: str
    line: bytes
    """Without its end."""
    id: str | None = None
    """The id, as JSON, under which it must be answered exactly once; None: it may be answered."""


class Cases:
    """Makes cases, the same ones from the same seed."""

    def __init__(self, seed: int, places: Mapping[str, list[Any]]) -> None:
        """``places``: values for fields by name, where those of chance would do harm or nothing."""
        self._random = random.Random(seed)
        self._places = places
        self._number = 0
        self._methods = [
            name
            for name, row in SCHEMA["methods"].items()
            if row["sender"] == "client" and name not in FORBIDDEN
        ]
        self._kinds: tuple[Callable[[], Case], ...] = (
            self._bytes,
            self._value,
            self._shape,
            self._params,
            self._params,
        )

    def next(self) -> Case:
        """The next case."""
        return self._random.choice(self._kinds)()

    # --- kinds ----------------------------------------------------------------------------------

    def _bytes(self) -> Case:
        """A frame that was damaged on its way, or noise."""
        choose = self._random
        if choose.random() < 0.3:
            line = choose.randbytes(choose.randrange(1, 200))
        else:
            line = bytearray(self._params().line)
            for _ in range(choose.randrange(1, 6)):
                self._damage(line)
        # A line break would make two cases of it, and no bytes at all are no line.
        return Case("bytes", bytes(line).replace(b"\n", b" ").replace(b"\r", b" ") or b" ")

    def _damage(self, line: bytearray) -> None:
        choose = self._random
        at = choose.randrange(len(line) + 1)
        match choose.randrange(4):
            case 0:
                line[at:at] = choose.randbytes(choose.randrange(1, 4))
            case 1:
                del line[at : at + choose.randrange(1, 8)]
            case 2:
                line[at:at] = choose.choice(
                    (b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\0")
                )
            case _:
                del line[at:]

    def _value(self) -> Case:
        """Any JSON value."""
        return Case("value", _line(self._json(4)))

    def _shape(self) -> Case:
        """A JSON-RPC message, or something that is almost one."""
        choose = self._random
        message: dict[str, Any] = {"jsonrpc": choose.choice(("2.0", "2.0", "2.0", "1.0", 2, None))}
        identified = choose.random() < 0.8
        if identified:
            message["id"] = choose.choice((self._id(), self._id(), self._json(1)))
        message["method"] = choose.choice((*ODD_TEXTS, "ping", "no/such", self._json(1)))
        if choose.random() < 0.7:
            message["params"] = self._json(3)
        if choose.random() < 0.1:
            message[choose.choice(("result", "error", "extra"))] = self._json(2)
        if choose.random() < 0.1:
            del message[choose.choice(tuple(message))]
        return Case("shape", _line(message))

    def _params(self) -> Case:
        """A request with params as its schema has them, some of them exchanged for others."""
        name = self._random.choice(self._methods)
        row = SCHEMA["methods"][name]
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": name}
        identity = None
        if row["kind"] == "request" and self._random.random() < 0.97:
            message["id"] = self._id()
            identity = json.dumps(message["id"])
        if (params := row.get("params")) is not None and self._random.random() < 0.98:
            message["params"] = self._of_schema(params, "params", 6)
        return Case(name, _line(message), identity)

    def _id(self) -> int | str:
        # Of fixed length, so that no other id is made of one that is damaged.
        self._number += 1
        number = 100_000_000 + self._number
        return number if self._random.random() < 0.7 else f"n{number}"

    # --- values ---------------------------------------------------------------------------------

    def _json(self, depth: int) -> Any:
        choose = self._random
        kind = choose.randrange(8 if depth else 5)
        if kind == 5:
            return [self._json(depth - 1) for _ in range(choose.randrange(4))]
        if kind > 5:
            names = ("jsonrpc", "id", "method", "params", "type", "sessionId", "message", "class")
            return {
                choose.choice((*names, *ODD_TEXTS)): self._json(depth - 1)
                for _ in range(choose.randrange(4))
            }
        return (None, True, False, choose.choice(ODD_NUMBERS), choose.choice(ODD_TEXTS))[kind]

    def _of_schema(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        choose = self._random
        if name in self._places:
            return choose.choice(self._places[name])
        if choose.random() < 0.06 or depth == 0:
            return self._json(2)
        if "$ref" in schema:
            return self._of_schema(SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], name, depth)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._of_schema(choose.choice(schema[several]), name, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return choose.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                return self._object(schema, depth)
            case "array":
                item = schema.get("items") or {}
                return [self._of_schema(item, "", depth - 1) for _ in range(choose.randrange(3))]
            case "string":
                return choose.choice((*ODD_TEXTS, "x", "valve"))
            case "integer" | "number":
                return choose.choice((*ODD_NUMBERS, 1, 2, 3))
            case "boolean":
                return choose.random() < 0.5
            case "null":
                return None
            case _:
                return self._json(2)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        needed = set(schema.get("required", ()))
        return {
            name: self._of_schema(inner, name, depth - 1)
            for name, inner in schema.get("properties", {}).items()
            if self._random.random() < (0.95 if name in needed else 0.3)
        }


def _line(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
