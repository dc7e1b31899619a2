// Bundles the extension host and the webview into dist/, and with --tests each unit test into out/.
import { readdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "esbuild";

const common = { bundle: true, minify: true, legalComments: "none", logLevel: "warning", charset: "utf8" };

const host = {
  ...common,
  entryPoints: { extension: "src/extension.ts" },
  outdir: "dist",
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
};

const webview = {
  ...common,
  entryPoints: { webview: "src/webview/main.ts", style: "src/webview/style.css" },
  entryNames: "webview",
  outdir: "dist",
  platform: "browser",
  target: "chrome130",
  format: "iife",
};

// Tests run without VS Code: what they import as "vscode" is the fake. Each bundle has its own.
const tests = () => ({
  bundle: true,
  entryPoints: readdirSync("test/unit", { recursive: true })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join("test/unit", name)),
  outdir: "out/unit",
  outbase: "test/unit",
  platform: "node",
  target: "node20",
  format: "cjs",
  sourcemap: "inline",
  logLevel: "warning",
  packages: "external",
  // The fake lacks what no test comes to.
  logOverride: { "import-is-undefined": "silent" },
  alias: { vscode: resolve("test/unit/vscode.ts") },
});

rmSync("dist", { recursive: true, force: true });
const jobs = [build(host), build(webview)];
if (process.argv.includes("--tests")) {
  rmSync("out", { recursive: true, force: true });
  jobs.push(build(tests()));
}
await Promise.all(jobs);
