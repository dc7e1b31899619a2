"""The wire as JSON Schema, and the files that are made from the tables.

Owns ``schema/pi-rpc.schema.json`` and the generated parts of ``protocol.md``: ``update_files``
writes them or says which have drifted. What the Markdown looks like is ``render``'s."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pi_rpc.protocol._docs import field_docs, struct_doc
from pi_rpc.protocol.base import PROTOCOL_VERSION
from pi_rpc.protocol.errors import COMMON_ERRORS, ERRORS
from pi_rpc.protocol.messages import MESSAGE_TYPES
from pi_rpc.protocol.methods import EVENTS, METHODS, Method
from pi_rpc.protocol.render import render_sections
from pi_rpc.session.entries import ENTRY_TYPES

__all__ = ["build_schema", "render", "render_json", "render_markdown", "update_files", "wire_types"]

SCHEMA_PATH = "schema/pi-rpc.schema.json"
DOCUMENT_PATH = "protocol.md"

_REF = "#/$defs/"

_OPEN_FIELDS = {
    ("EntryAppended", "entry"): "SessionEntry",
    ("MessageEntry", "message"): "Message",
}
"""Fields that in process hold anything, and what they hold on the wire."""


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


def render_json() -> str:
    """The text of ``schema/pi-rpc.schema.json``."""
    return json.dumps(build_schema(), indent=2, ensure_ascii=False) + "\n"


def render_markdown() -> str:
    """The generated parts of ``protocol.md``, one after the other."""
    return "\n".join(render_sections(build_schema()).values())


def render(kind: Literal["json", "markdown"]) -> str:
    """The schema as ``json``, or the reference tables as ``markdown``."""
    return render_json() if kind == "json" else render_markdown()


def update_files(root: Path, *, check: bool) -> list[str]:
    """Bring the generated files under ``root`` up to date; with ``check`` only look.

    Returns the paths, relative to ``root``, of those that were not. Raises ``ValueError`` when
    ``protocol.md`` lacks a marker and ``FileNotFoundError`` when it is missing."""
    document = root / DOCUMENT_PATH
    text = document.read_text(encoding="utf-8")
    for name, section in render_sections(build_schema()).items():
        text = _with_section(text, name, section)
    drifted = []
    for path, wanted in ((root / SCHEMA_PATH, render_json()), (document, text)):
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
