import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import Module from "node:module";
import { resolve } from "node:path";
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

test("loading the bundle neither copies the editor's API nor loads what only a daemon needs", () => {
  const loader = Module as unknown as { _load(name: string, ...more: unknown[]): unknown };
  const load = loader._load;
  const anything: object = new Proxy(class {}, {
    get: (own, name) => (name === "prototype" ? own.prototype : anything),
  });
  let copies = 0;
  const ownKeys = () => {
    copies += 1;
    return [];
  };
  const api = new Proxy({}, { get: () => anything, ownKeys });
  const loaded = new Set<string>();
  loader._load = (name, ...more) => {
    loaded.add(name);
    return name === "vscode" ? api : load(name, ...more);
  };
  try {
    const extension = Module.createRequire(resolve("dist/extension.js"))("./extension.js");
    assert.equal(typeof extension.activate, "function");
  } finally {
    loader._load = load;
  }
  assert.equal(copies, 0);
  // The library of the wire asks for what Node.js has by its short name.
  const library = [...loaded].filter((name) => ["net", "child_process", "crypto"].includes(name));
  assert.deepEqual(library, []);
});
