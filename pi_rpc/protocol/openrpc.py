"""The wire as an OpenRPC 1.3 document, from the schema.

Owns its shape. OpenRPC describes what a server answers: methods and notifications of the client are
its ``methods``. What it has no word for stands in extensions: what the daemon sends by itself, in
the same form, in ``x-daemon-methods``, and the types of events in ``x-events``."""

import json
from typing import Any

__all__ = ["build_openrpc"]

_OPENRPC_VERSION = "1.3.2"
_SCHEMAS = "#/components/schemas/"


def build_openrpc(schema: dict[str, Any]) -> dict[str, Any]:
    """The document. Params are by name; every reference is within it."""
    schema = json.loads(json.dumps(schema).replace('"#/$defs/', f'"{_SCHEMAS}'))
    methods = schema["methods"].items()
    return {
        "openrpc": _OPENRPC_VERSION,
        "info": {
            "title": "pi-rpc",
            "version": str(schema["version"]),
            "description": schema["description"],
            "license": {"name": "MIT"},
        },
        "methods": [_method(schema, *row) for row in methods if row[1]["sender"] == "client"],
        "components": {
            "schemas": schema["$defs"],
            "errors": {
                kind: {
                    "code": error["code"],
                    "message": error["description"],
                    "data": {"kind": kind},
                }
                for kind, error in schema["errors"].items()
            },
        },
        "x-daemon-methods": [
            _method(schema, *row) for row in methods if row[1]["sender"] == "daemon"
        ],
        "x-events": {name: event["event"] for name, event in schema["events"].items()},
    }


def _method(schema: dict[str, Any], name: str, method: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": name,
        "description": method["summary"],
        "paramStructure": "by-name",
        "params": _params(schema, method.get("params")),
        "x-since": method["since"],
    }
    if method["kind"] == "request":
        entry["result"] = {"name": "result", "required": True, "schema": method["result"]}
        common = [kind for kind, error in schema["errors"].items() if error["common"]]
        kinds = [*method["errors"], *common] if method["sender"] == "client" else []
        entry["errors"] = [{"$ref": f"#/components/errors/{kind}"} for kind in kinds]
    return entry


def _params(schema: dict[str, Any], ref: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Each field of the params, those that are required first."""
    if ref is None:
        return []
    definition = schema["$defs"][str(ref["$ref"]).rpartition("/")[2]]
    required = set(definition.get("required", ()))
    fields = [
        {
            "name": name,
            "description": field["description"],
            "required": name in required,
            "schema": field,
        }
        for name, field in definition["properties"].items()
    ]
    return sorted(fields, key=lambda field: not field["required"])
