// Bundles the extension host and the webview into dist/, and with --tests each unit test into out/.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "esbuild";

const common = {
  bundle: true,
  minify: true,
  legalComments: "none",
  logLevel: "warning",
  charset: "utf8",
  metafile: true,
};

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

/** The licences of what the bundles hold, which go along with it. */
function notices(results) {
  const inputs = results.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  return [...new Set(folders)].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    if (!file) throw new Error(`${name} has no licence file`);
    return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
}

rmSync("dist", { recursive: true, force: true });
const jobs = [build(host), build(webview)];
if (process.argv.includes("--tests")) {
  rmSync("out", { recursive: true, force: true });
  jobs.push(build(tests()));
}
const results = await Promise.all(jobs);
writeFileSync("dist/NOTICES.txt", notices(results.slice(0, 2)).join(`\n${"-".repeat(80)}\n\n`));
