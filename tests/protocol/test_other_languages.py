"""The forms of the schema for other languages: whole, consistent, and what their own tools take."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import lupa
import pytest
import referencing
import referencing.jsonschema

from pi_rpc.protocol.errors import ERRORS
from pi_rpc.protocol.methods import EVENTS, METHODS
from pi_rpc.protocol.schema import build_schema, render
from tests.deadlines import DEADLINE_S
from tests.protocol.node_checks import checks, node_program

OURS = [name for name, method in METHODS.items() if method.sender == "client"]

USE_OF_TYPES = """
import { ERROR_CODES, EVENT_TYPES, METHODS } from "./protocol.js";
import type {
  AgentEvent, ClientNotifications, ClientRequests, DaemonNotifications, DaemonRequests, Message,
} from "./protocol.js";

type Equal<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
type Sent = keyof ClientRequests | keyof ClientNotifications;
const sent: Equal<Sent, (typeof METHODS)[number]> = true;
const told: Equal<AgentEvent["type"], (typeof EVENT_TYPES)[number]> = true;
const busy: 1002 = ERROR_CODES.sessionBusy;

declare function request<M extends keyof ClientRequests>(
  method: M, params: ClientRequests[M]["params"],
): Promise<ClientRequests[M]["result"]>;

export async function use(): Promise<string | undefined> {
  const run = await request("prompt", { message: "hi", wait: "accepted" });
  // @ts-expect-error: a message is needed
  await request("prompt", {});
  // @ts-expect-error: no such word
  await request("prompt", { message: "hi", wait: "later" });
  // @ts-expect-error: no such method
  await request("promt", { message: "hi" });
  const nothing: null = await request("shutdown", undefined);
  return nothing ?? run.stopReason;
}

export function draw(event: AgentEvent): string {
  switch (event.type) {
    case "message_update": {
      const news = event.assistantMessageEvent;
      return news.type === "text_delta" ? news.delta : "";
    }
    case "tool_execution_start":
      return event.title;
    default: {
      // @ts-expect-error: there are other events
      const never: never = event;
      return never;
    }
  }
}

export function text(message: Message): string {
  return message.role === "toolResult" ? message.toolName : message.role;
}

type Kinds = ClientRequests["prompt"]["errors"];
export const kind: Kinds = "sessionBusy";
export const answer: DaemonRequests["ui/confirm"]["result"] = { confirmed: true };
export const seq = (params: DaemonNotifications["agent/event"]): number => params.seq;
export const all = [sent, told, busy];
"""


@pytest.fixture(scope="module")
def openrpc() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render("openrpc"))
    return document


def test_typescript_declares_every_type_method_and_event() -> None:
    text = render("typescript")
    declared = re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE)
    assert len(set(declared)) == len(declared)
    assert set(build_schema()["$defs"]) <= set(declared)
    for name in METHODS:
        key = name if name.isidentifier() else json.dumps(name)
        assert re.search(rf"^  {re.escape(key)}: ", text, re.MULTILINE), name
    for name in [*OURS, *EVENTS]:
        assert f'\n  "{name}",\n' in text, name
    for kind, error in ERRORS.items():
        assert f"\n  {kind}: {error.code},\n" in text
    assert re.search(r"[^ ]\n[ \t]+\n", text) is None


def test_typescript_is_strictly_correct_and_tells_right_from_wrong(tmp_path: Path) -> None:
    tsc = checks() / "typescript" / "bin" / "tsc"
    (tmp_path / "protocol.ts").write_text(render("typescript"), encoding="utf-8")
    (tmp_path / "use.ts").write_text(USE_OF_TYPES, encoding="utf-8")
    options = {
        "strict": True,
        "exactOptionalPropertyTypes": True,
        "verbatimModuleSyntax": True,
        "noEmit": True,
        "module": "nodenext",
        "target": "es2022",
        "types": [],
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options}))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        [node_program(), tsc, "--project", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_lua_loads_and_names_every_method_event_and_error() -> None:
    module = lupa.LuaRuntime(unpack_returned_tuples=True).execute(render("lua"))
    sent = {*module.client_requests.values(), *module.client_notifications.values()}
    assert sent == set(OURS)
    received = {*module.daemon_requests.values(), *module.daemon_notifications.values()}
    assert received == set(METHODS) - set(OURS)
    assert list(module.event_types.values()) == list(EVENTS)
    assert dict(module.error_codes.items()) == {kind: each.code for kind, each in ERRORS.items()}


def test_lua_annotations_name_only_types_that_are_declared() -> None:
    text = render("lua")
    declared = re.findall(r"^---@(?:class|alias) (pi_rpc\.\w+)", text, re.MULTILINE)
    assert len(set(declared)) == len(declared)
    assert set(re.findall(r"\bpi_rpc\.\w+", text)) == set(declared)
    assert {f"pi_rpc.{name}" for name in build_schema()["$defs"]} <= set(declared)
    annotation = re.compile(
        r"---(@class \S+|@alias \S+|\| \S.*|@field (\w+\??|\[\"[^\"]+\"\]) \S.*|[^@|].*)"
    )
    odd = [line for line in text.splitlines() if line.startswith("---")]
    assert [line for line in odd if not annotation.fullmatch(line)] == []


def test_openrpc_has_every_method_once_with_its_params_in_callable_order(
    openrpc: dict[str, Any],
) -> None:
    assert [each["name"] for each in openrpc["methods"]] == OURS
    for method in [*openrpc["methods"], *openrpc["x-daemon-methods"]]:
        row = METHODS[method["name"]]
        assert ("result" in method) == row.is_request
        names = [param["name"] for param in method["params"]]
        assert set(names) == set(row.params.__struct_encode_fields__ if row.params else ())
        required = [param["required"] for param in method["params"]]
        assert required == sorted(required, reverse=True), "OpenRPC wants those first"
    assert set(openrpc["x-events"]) == set(EVENTS)


def test_openrpc_refers_only_to_what_it_holds(openrpc: dict[str, Any]) -> None:
    references = set(re.findall(r'"(#[^"]+)"', json.dumps(openrpc)))
    assert references
    for reference in references:
        place: Any = openrpc
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert isinstance(place, dict)


def test_openrpc_is_what_its_official_meta_schema_describes(openrpc: dict[str, Any]) -> None:
    script = "console.log(JSON.stringify(require('@open-rpc/meta-schema').openrpcDocument))"
    printed = subprocess.run(
        [node_program(), "-e", script],
        cwd=checks().parent,
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    ).stdout
    # What it takes for a JSON Schema is draft 7, under an address of its own.
    draft7 = "http://json-schema.org/draft-07/schema#"
    words = {"definitions": {"JSONSchemaObject": {"properties": {"$ref": {"type": "string"}}}}}
    resource = referencing.jsonschema.DRAFT7.create_resource({"$ref": draft7, **words})
    official = referencing.jsonschema.DRAFT7.create_resource(jsonschema.Draft7Validator.META_SCHEMA)
    registry: Any = referencing.Registry().with_resources(
        [
            ("https://meta.json-schema.tools", resource),
            ("https://meta.json-schema.tools/", resource),
            (draft7, official),
        ]
    )
    meta = {**json.loads(printed), "$schema": draft7}
    jsonschema.Draft7Validator(meta, registry=registry).validate(openrpc)
    broken = {**openrpc, "methods": [{"name": "no params"}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(meta, registry=registry).validate(broken)
