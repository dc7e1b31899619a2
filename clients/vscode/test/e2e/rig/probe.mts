/** An extension that does nothing, to see what the editor itself takes to activate one. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const VSCE = join(import.meta.dirname, "../../../node_modules/@vscode/vsce/vsce");

/** How it is called among the running extensions. */
export const PROBE = "does-nothing";

/** Its package, which is activated when ours is. The folder is the caller's to remove. */
export function packProbe(): { folder: string; path: string } {
  const folder = mkdtempSync(join(tmpdir(), "pi-vscode-probe-"));
  const manifest = {
    name: PROBE,
    publisher: "pi-rpc",
    version: "0.0.1",
    engines: { vscode: "^1.100.0" },
    main: "./extension.js",
    activationEvents: ["onStartupFinished"],
    files: ["extension.js"],
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "extension.js"), "exports.activate = () => {};\n");
  writeFileSync(join(folder, "README.md"), "Nothing.\n");
  const path = join(folder, "probe.vsix");
  const pack = [
    VSCE,
    "package",
    "--no-dependencies",
    "--skip-license",
    "--allow-missing-repository",
    "--out",
    path,
  ];
  execFileSync(process.execPath, pack, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  return { folder, path };
}
