// Runs the bundled unit tests with node:test, whatever their folder.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";

const only = process.argv[2] ?? "";
const files = readdirSync("out/unit", { recursive: true })
  .filter((name) => name.endsWith(".test.js") && name.includes(only))
  .map((name) => join("out/unit", name));
if (files.length === 0) {
  console.error(`no unit test fits ${JSON.stringify(only)}`);
  process.exit(1);
}
const run = spawnSync(
  process.execPath,
  ["--enable-source-maps", "--test", "--test-concurrency=2", ...files],
  { stdio: "inherit" },
);
process.exit(run.status ?? 1);
