"""The wire as JSON Schema, and the files that are made from the tables.

Owns the schema, from which every other form is rendered, and the list of generated files:
``update_files`` writes them or says which have drifted. What each form looks like is the business
of ``render`` (Markdown), ``render_typescript``, ``render_lua`` and ``openrpc``."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pi_rpc.protocol._docs import field_docs, struct_doc
from pi_rpc.protocol.base import PROTOCOL_VERSION
from pi_rpc.protocol.errors import COMMON_ERRORS, ERRORS
from pi_rpc.protocol.messages import MESSAGE_TYPES
from pi_rpc.protocol.methods import EVENTS, METHODS, Method
from pi_rpc.protocol.openrpc import build_openrpc
from pi_rpc.protocol.render import render_sections
from pi_rpc.protocol.render_lua import render_lua
from pi_rpc.protocol.render_typescript import render_typescript
from pi_rpc.session.entries import ENTRY_TYPES

__all__ = ["GENERATED_FILES", "KINDS", "build_schema", "render", "update_files", "wire_types"]

DOCUMENT_PATH = "protocol.md"

_REF = "#/$defs/"

_OPEN_FIELDS = {
    ("EntryAppended", "entry"): "SessionEntry",
    ("MessageEntry", "message"): "Message",
}
"""Fields that in process hold anything, and what they hold on the wire."""

_EVENT_FIELDS = (("AgentEventParams", "event"), ("RepeatedEvent", "event"))
"""Fields that hold an event of any type."""


def wire_types() -> dict[str, type[Struct]]:
    """Every struct of the wire, by name: params, results, events, messages and all within."""
    found: dict[str, type[Struct]] = {}
    for struct in _structs_in(*(msgspec.inspect.type_info(root) for root in _roots())):
        if found.setdefault(struct.__name__, struct) is not struct:
            raise ValueError(f"two wire types are named {struct.__name__}")
    return dict(sorted(found.items()))


def build_schema() -> dict[str, Any]:
    """The whole wire as one JSON value: methods, events, errors and their definitions."""
    types = wire_types()
    _, definitions = msgspec.json.schema_components(
        list(types.values()), ref_template=_REF + "{name}"
    )
    for name, definition in definitions.items():
        _describe(definition, types[name])
    definitions["Message"] = {
        "title": "Message",
        "description": "A message of any role. Ignore roles you do not know. One that"
        " `session/messages` had to cut has `truncated: true` beside its own fields, and its"
        " longest texts end in a mark that says so.",
        "anyOf": [{"$ref": _REF + each.__name__} for each in MESSAGE_TYPES],
    }
    definitions["SessionEntry"] = {
        "title": "SessionEntry",
        "description": "An entry of a session file. Ignore types you do not know.",
        "anyOf": [{"$ref": _REF + each.__name__} for each in ENTRY_TYPES.values()],
    }
    for (name, field), definition in _OPEN_FIELDS.items():
        definitions[name]["properties"][field]["$ref"] = _REF + definition
    for name, field in _EVENT_FIELDS:
        described = definitions[name]["properties"][field]
        union = {key: described.pop(key) for key in ("anyOf", "discriminator")}
        described["$ref"] = _REF + "AgentEvent"
        definitions["AgentEvent"] = {
            "title": "AgentEvent",
            "description": "An event of a session. Ignore types you do not know.",
            **union,
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pi-rpc protocol",
        "description": "Methods, events and errors of the native protocol; see protocol.md.",
        "version": PROTOCOL_VERSION,
        "methods": {name: _method(method) for name, method in METHODS.items()},
        "events": {
            name: {"since": event.since, "event": {"$ref": _REF + event.struct.__name__}}
            for name, event in EVENTS.items()
        },
        "errors": {
            kind: {
                "code": error.code,
                "description": error.description,
                "data": error.fields,
                "common": kind in COMMON_ERRORS,
            }
            for kind, error in ERRORS.items()
        },
        "$defs": dict(sorted(definitions.items())),
    }


def _json_text(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _markdown(schema: dict[str, Any]) -> str:
    return "\n".join(render_sections(schema).values())


_RENDERERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "json": _json_text,
    "markdown": _markdown,
    "typescript": render_typescript,
    "lua": render_lua,
    "openrpc": lambda schema: _json_text(build_openrpc(schema)),
}

KINDS: tuple[str, ...] = tuple(_RENDERERS)
"""The forms that the schema can be printed in."""

GENERATED_FILES: dict[str, str] = {
    "schema/pi-rpc.schema.json": "json",
    "clients/neovim/lua/pi/generated/protocol.lua": "lua",
    "clients/vscode/src/generated/protocol.ts": "typescript",
}
"""Files of a checkout that are wholly generated, and the kind of each. A client in another language
joins with a row."""


def render(kind: str) -> str:
    """The schema as one of ``KINDS``: JSON Schema, the reference tables as Markdown, declarations
    for TypeScript or Lua, or an OpenRPC document."""
    return _RENDERERS[kind](build_schema())


def update_files(root: Path, *, check: bool) -> list[str]:
    """Bring the generated files under ``root`` up to date; with ``check`` only look.

    Returns the paths, relative to ``root``, of those that were not. Raises ``ValueError`` when
    ``protocol.md`` lacks a marker and ``FileNotFoundError`` when it is missing."""
    schema = build_schema()
    document = root / DOCUMENT_PATH
    text = document.read_text(encoding="utf-8")
    for name, section in render_sections(schema).items():
        text = _with_section(text, name, section)
    files = {root / path: _RENDERERS[kind](schema) for path, kind in GENERATED_FILES.items()}
    files[document] = text
    drifted = []
    for path, wanted in files.items():
        if path.is_file() and path.read_text(encoding="utf-8") == wanted:
            continue
        drifted.append(path.relative_to(root).as_posix())
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
    return drifted


def _with_section(text: str, name: str, section: str) -> str:
    begin, end = f"<!-- generated:{name} -->", "<!-- /generated -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{DOCUMENT_PATH} has no section between `{begin}` and `{end}`")
    return f"{before}{begin}\n\n{section}\n{end}{after}"


def _roots() -> Iterable[type[Struct]]:
    for method in METHODS.values():
        yield from (each for each in (method.params, method.result) if each is not None)
    yield from (event.struct for event in EVENTS.values())
    yield from MESSAGE_TYPES
    yield from ENTRY_TYPES.values()


def _structs_in(*infos: Any) -> Iterable[type[Struct]]:
    """The structs that types mention directly or within containers and other structs."""
    todo, seen = list(infos), set()
    while todo:
        each = todo.pop()
        if isinstance(each, msgspec.inspect.StructType):
            if each.cls in seen:
                continue
            seen.add(each.cls)
            yield each.cls
            todo += [field.type for field in each.fields]
        elif isinstance(each, msgspec.inspect.UnionType):
            todo += each.types
        elif isinstance(each, msgspec.inspect.DictType):
            todo += [each.key_type, each.value_type]
        elif isinstance(each, msgspec.inspect.Metadata):
            todo.append(each.type)
        elif isinstance(each, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
            todo.append(each.item_type)


def _describe(definition: dict[str, Any], struct: type[Struct]) -> None:
    """Put our descriptions in, under the fields they belong to."""
    definition["description"] = struct_doc(struct)
    docs = field_docs(struct)
    if tag_field := struct.__struct_config__.tag_field:
        docs[tag_field] = "Tells what this is."
    for name, schema in definition["properties"].items():
        if name in docs:
            schema["description"] = docs[name]


def _method(method: Method) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": "request" if method.is_request else "notification",
        "sender": method.sender,
        "summary": method.summary,
        "order": method.order,
        "exchange": method.exchange,
        "since": method.since,
    }
    if method.params is not None:
        entry["params"] = {"$ref": _REF + method.params.__name__}
    if method.is_request:
        result = method.result
        entry["result"] = {"type": "null"} if result is None else {"$ref": _REF + result.__name__}
        entry["errors"] = list(method.errors)
    return entry
