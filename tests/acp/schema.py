"""The published schema of the protocol, and holding frames of ours to it.

``schema.v1.json`` is the file of that name in the npm package ``@agentclientprotocol/sdk`` 2.4.0,
unchanged; its license is in ``schema.v1.LICENSE`` (Apache 2.0). Beyond that a field that it
does not know counts as wrong: the schema takes any, and would not notice a misspelt one.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

Frame = dict[str, Any]

_UNIONS = ("SessionUpdate", "ContentBlock", "ToolCallContent", "SessionConfigOption", "AuthMethod")


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((Path(__file__).parent / "schema.v1.json").read_text())
    for name in _UNIONS:
        schema["$defs"][name]["unevaluatedProperties"] = False
    return schema


@cache
def methods(side: str) -> dict[str, dict[str, str]]:
    """By method that ``side`` serves (``agent`` or ``client``), the names of its definitions."""
    found: dict[str, dict[str, str]] = {}
    for name, definition in _schema()["$defs"].items():
        if definition.get("x-side") == side:
            found.setdefault(definition["x-method"], {})[name.removesuffix("Response")] = name
    return found


@cache
def _validator(name: str) -> Draft202012Validator:
    definition = {"$ref": f"#/$defs/{name}", "unevaluatedProperties": False}
    return Draft202012Validator({"$defs": _schema()["$defs"], **definition})


def check(frame: Frame, asked: str | None) -> None:
    """A frame of the agent's; ``asked``: the method of the request that it answers."""
    assert frame["jsonrpc"] == "2.0"
    if "method" in frame:
        if frame["method"] == "$/cancel_request":
            _check("CancelRequestNotification", frame["params"])
            return
        names = methods("client")[frame["method"]].values()
        (name,) = [each for each in names if not each.endswith("Response")]
        _check(name, frame["params"])
        assert ("id" in frame) == (not name.endswith("Notification"))
    elif "error" in frame:
        _check("Error", frame["error"])
    elif asked is not None and not asked.startswith("_"):
        names = methods("agent")[asked].values()
        (name,) = [each for each in names if each.endswith("Response")]
        _check(name, frame["result"])


def _check(name: str, value: Any) -> None:
    errors = [
        f"{error.json_path}: {error.message[:300]}" for error in _validator(name).iter_errors(value)
    ]
    assert not errors, (name, errors, value)
