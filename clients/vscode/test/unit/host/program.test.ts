import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { METHODS } from "../../../src/generated/protocol";
import { checkVersion, findProgram, isOlder } from "../../../src/host/program";

test("the program is found by path, on the PATH, and in ~/.local/bin", (t) => {
  const home = mkdtempSync(join(tmpdir(), "pi-vscode-unit-"));
  t.after(() => rmSync(home, { recursive: true }));
  const [bin, local] = [join(home, "bin"), join(home, ".local", "bin")];
  for (const folder of [bin, local]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(local, "pi-rpc"), "", { mode: 0o755 });
  assert.equal(findProgram("", { PATH: "/nowhere" }, home), join(local, "pi-rpc"));
  assert.equal(findProgram("~/.local/bin/pi-rpc", {}, home), join(local, "pi-rpc"));
  writeFileSync(join(bin, "pi-rpc"), "", { mode: 0o644 });
  assert.equal(
    findProgram("", { PATH: bin }, home),
    join(local, "pi-rpc"),
    "one that cannot be run is passed over",
  );
  writeFileSync(join(bin, "other"), "", { mode: 0o755 });
  assert.equal(findProgram("other", { PATH: bin }, home), join(bin, "other"));
});

test("a folder of the PATH that is not absolute is passed over: it would be the project's", () => {
  assert.throws(() => findProgram("pi-rpc-of-nobody", { PATH: ".:bin" }, "/nowhere"), {
    name: "ProgramMissing",
  });
  assert.throws(() => findProgram("./pi-rpc", {}, "/nowhere"), { name: "ProgramMissing" });
});

test("versions compare by their numbers", () => {
  assert.ok(isOlder("0.9.0", "0.10.0"));
  assert.ok(isOlder("0.1", "0.1.1"));
  assert.ok(!isOlder("1.0.0", "0.10.0"));
  assert.ok(!isOlder("0.1.0", "0.1.0"));
});

test("a daemon that lacks a method of ours is too old, whatever its version", () => {
  const answer = (methods: readonly string[], version = "9.9.9") => ({
    protocolVersion: 1,
    serverInfo: { name: "pi-rpc", version },
    capabilities: {
      positionEncoding: "utf-16" as const,
      pi: { methods: [...methods], events: [], permissionModes: [], thinkingLevels: [] },
    },
  });
  checkVersion(answer(METHODS));
  assert.throws(() => checkVersion(answer(METHODS.filter((name) => name !== "prompt"))), /lacks prompt/);
  assert.throws(() => checkVersion(answer(METHODS, "0.0.1")), /0\.0\.1 is too old/);
});
