import assert from "node:assert/strict";
import { statSync } from "node:fs";
import test from "node:test";

test("the bundle of the extension host is at most 500 KB", () => {
  const size = statSync("dist/extension.js").size;
  assert.ok(size > 0 && size <= 500_000, `dist/extension.js has ${size} bytes`);
});
