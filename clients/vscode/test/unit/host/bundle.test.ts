import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import test from "node:test";

test("the bundle of the extension host is at most 500 KB", () => {
  const size = statSync("dist/extension.js").size;
  assert.ok(size > 0 && size <= 500_000, `dist/extension.js has ${size} bytes`);
});

test("the licences of what is bundled go along", () => {
  const notices = readFileSync("dist/NOTICES.txt", "utf8");
  for (const name of ["vscode-jsonrpc", "markdown-it", "highlight.js"])
    assert.match(notices, new RegExp(`^${name} `, "m"));
  assert.match(readFileSync(".vscodeignore", "utf8"), /^!dist\/NOTICES\.txt$/m);
});
