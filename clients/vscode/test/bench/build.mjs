// Builds the page that shows the chat view without VS Code: test/bench/out/index.html, to be opened with #scene/theme.
import { copyFileSync, mkdirSync } from "node:fs";
import { build } from "esbuild";

mkdirSync("test/bench/out", { recursive: true });
const common = {
  bundle: true,
  platform: "browser",
  target: "chrome130",
  format: "iife",
  logLevel: "warning",
  charset: "utf8",
};
await Promise.all([
  build({ ...common, entryPoints: { page: "test/bench/page.ts" }, outdir: "test/bench/out" }),
  build({
    ...common,
    minify: true,
    entryPoints: { webview: "src/webview/main.ts", style: "src/webview/style.css" },
    entryNames: "webview",
    outdir: "test/bench/out",
  }),
]);
for (const name of ["index.html", "defaults.css"])
  copyFileSync(`test/bench/${name}`, `test/bench/out/${name}`);
