"""The reference tables of ``protocol.md``, from the schema.

Owns what they look like. Works on the schema alone, so that what the document says and what the
schema says cannot differ."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["render_sections"]

_ORDERS = {
    ("request", "none"): "Starts at once.",
    ("request", "session"): "Starts in order with the other requests of its session.",
    ("request", "barrier"): "What was sent after it starts once it has been answered.",
    ("notification", "none"): "Taken as soon as it is read.",
    ("notification", "in_turn"): "Taken as it is read, after the answer to a barrier before it.",
}


def render_sections(schema: dict[str, Any]) -> dict[str, str]:
    """The generated parts by the names of their markers."""
    sections = {
        "methods": _methods(schema),
        "events": _events(schema),
        "errors": _errors(schema),
        "types": _types(schema),
    }
    text = {name: "\n".join(lines) for name, lines in sections.items()}
    # Events are described under their type, not under the name of their definition.
    for kind, event in schema["events"].items():
        here = f"(#{_name(event['event']).lower()}-type)"
        text = {name: each.replace(here, f"(#{_anchor(kind)})") for name, each in text.items()}
    return text


def _methods(schema: dict[str, Any]) -> Iterator[str]:
    methods = schema["methods"]
    yield from _table(
        ("method", "kind", "from", "order", "errors of its own", "since"),
        (
            (
                f"[`{name}`](#{_anchor(name)})",
                method["kind"],
                method["sender"],
                method["order"].replace("_", " ") if method["sender"] == "client" else "",
                ", ".join(method.get("errors", ())),
                method["since"],
            )
            for name, method in methods.items()
        ),
    )
    for name, method in methods.items():
        yield from _method(schema, name, method)


def _method(schema: dict[str, Any], name: str, method: dict[str, Any]) -> Iterator[str]:
    kind, sender = method["kind"], method["sender"]
    order = f" {_ORDERS[kind, method['order']]}" if sender == "client" else ""
    yield f"#### `{name}`"
    yield ""
    yield f"{kind.capitalize()} from the {sender}.{order}"
    yield ""
    yield method["summary"]
    yield ""
    yield from _shape(schema, "Params", method.get("params"))
    if kind == "request":
        yield from _shape(schema, "Result", method["result"])
        own = ", ".join(f"`{each}`" for each in method["errors"])
        common = "[those of any request](#errors)"
        if sender == "daemon":
            yield "An error counts as no answer; after `methodNotFound` it is not sent again."
        else:
            yield f"Errors: {own}, and {common}." if own else f"Errors: {common}."
        yield ""
    exchange = f"Recorded: {method['exchange']}"
    yield f"Exchange: [{method['exchange']}](#{_anchor(exchange)})."
    yield ""


def _events(schema: dict[str, Any]) -> Iterator[str]:
    for name, event in schema["events"].items():
        definition = _definition(schema, event["event"])
        yield f"#### `{name}`"
        yield ""
        yield f"{definition['description']} Since {event['since']}."
        yield ""
        yield from _fields(definition, leave_out="type")


def _errors(schema: dict[str, Any]) -> Iterator[str]:
    errors = schema["errors"]
    used = {kind for method in schema["methods"].values() for kind in method.get("errors", ())}
    answered = {kind for kind, error in errors.items() if error["common"]} | used
    yield from _table(
        ("code", "`data.kind`", "of", "when", "more in `data`"),
        (
            (
                str(error["code"]),
                f"`{kind}`",
                "any request" if error["common"] else "where it is named",
                error["description"],
                "; ".join(f"`{name}`: {text}" for name, text in error["data"].items()),
            )
            for kind, error in errors.items()
            if kind in answered
        ),
    )
    reserved = [f"{e['code']} `{kind}`" for kind, e in errors.items() if kind not in answered]
    if reserved:
        yield f"Reserved for later versions: {', '.join(reserved)}."
        yield ""


def _types(schema: dict[str, Any]) -> Iterator[str]:
    shown = {_name(event["event"]) for event in schema["events"].values()}
    for name, definition in schema["$defs"].items():
        if name in shown or _is_inlined(name):
            continue
        yield f"#### {name} (type)"
        yield ""
        yield definition["description"]
        yield ""
        if "anyOf" in definition:
            yield f"One of {_type_text(definition)}."
            yield ""
        else:
            yield from _fields(definition)


def _shape(schema: dict[str, Any], title: str, ref: dict[str, Any] | None) -> Iterator[str]:
    if ref is None:
        yield f"{title}: none are read."
    elif "$ref" not in ref:
        yield f"{title}: `null`."
    elif not _definition(schema, ref)["properties"]:
        yield f"{title}: `{{}}`."
    elif _is_inlined(_name(ref)):
        yield f"{title}:"
        yield ""
        yield from _fields(_definition(schema, ref))
        return
    else:
        yield f"{title}: {_type_text(ref)}."
    yield ""


def _fields(definition: dict[str, Any], leave_out: str = "") -> Iterator[str]:
    required = set(definition.get("required", ()))
    rows = [
        (
            f"`{name}`" if name in required else f"`{name}?`",
            _type_text(field),
            field.get("description", "") + _default_text(field),
        )
        for name, field in definition["properties"].items()
        if name != leave_out
    ]
    if not rows:
        yield "No fields."
        yield ""
        return
    yield from _table(("field", "type", "meaning"), rows)


def _default_text(field: dict[str, Any]) -> str:
    default = field.get("default")
    if default is None or isinstance(default, dict | list):
        return ""
    return f" Default: `{json.dumps(default)}`."


def _type_text(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = _name(schema)
        return f"[{name}](#{name.lower()}-type)"
    if "anyOf" in schema:
        return " or ".join(_type_text(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    match schema.get("type"):
        case "array":
            return _array_text(schema.get("items"))
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {_type_text(values)}" if values else "object"
        case str(name):
            return name
        case _:
            return "any"


def _array_text(items: dict[str, Any] | None) -> str:
    if not items:
        return "array"
    item = _type_text(items)
    return f"array of ({item})" if " or " in item else f"array of {item}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _definition(schema: dict[str, Any], ref: dict[str, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = schema["$defs"][_name(ref)]
    return definition


def _name(ref: dict[str, Any]) -> str:
    return str(ref["$ref"]).rpartition("/")[2]


def _is_inlined(name: str) -> bool:
    """Params and results are shown where their method is; so is what has no fields."""
    return (name.endswith(("Params", "Result")) and name != "ToolResult") or name == "Empty"


def _anchor(heading: str) -> str:
    kept = (char for char in heading.lower() if char.isalnum() or char in "-_ ")
    return "".join(kept).replace(" ", "-")
