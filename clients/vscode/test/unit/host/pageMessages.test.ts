import assert from "node:assert/strict";
import test from "node:test";
import { isOfPage } from "../../../src/host/pageMessages";

const SEND = { type: "send", how: "prompt", clientMessageId: "m", text: "Hello" };

test("what a page says is understood, with and without what may be left out", () => {
  const place = { line: 1, character: 0 };
  for (const message of [
    { type: "ready" },
    { type: "ready", sessionId: "s" },
    SEND,
    {
      ...SEND,
      images: [{ type: "image", data: "", mimeType: "image/png" }],
      attachments: [{ type: "file" }],
    },
    { type: "openFile", uri: "a.py", range: { start: place, end: place } },
    { type: "checkpoint", action: "restore", checkpointId: "cp" },
    { type: "stop" },
  ]) {
    assert.ok(isOfPage(message), JSON.stringify(message));
  }
});

test("a method of the daemon cannot be named by a page", () => {
  for (const how of ["auth/set", "trust/set", "session/delete", "", null, ["prompt"]]) {
    assert.equal(isOfPage({ ...SEND, how }), false, JSON.stringify(how));
  }
});

test("what has another shape is not taken", () => {
  for (const message of [
    undefined,
    null,
    "ready",
    7,
    [],
    {},
    { type: "constructor" },
    { type: "toString" },
    { type: "__proto__" },
    { type: ["ready"] },
    { type: "ready", sessionId: { toString: "s" } },
    { ...SEND, text: undefined },
    { ...SEND, images: [{ type: "image", data: 1, mimeType: "image/png" }] },
    { ...SEND, attachments: { length: 1 } },
    { type: "openFile", uri: "a", range: { start: { line: -1, character: 0 }, end: {} } },
    { type: "dropped", uris: ["file:///a", 1] },
    { type: "checkpoint", action: "delete", checkpointId: "cp" },
    { type: "bash", command: ["rm"], token: "t", excludeFromContext: false },
  ]) {
    assert.equal(isOfPage(message), false, JSON.stringify(message));
  }
});
