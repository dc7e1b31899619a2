/** An extension that does nothing, to see what the editor itself takes to activate one. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVSIX } from "@vscode/vsce";

/** How it is called among the running extensions. */
export const PROBE = "does-nothing";

/** Its package, which is activated when ours is. The folder is the caller's to remove. */
export async function packProbe(): Promise<{ folder: string; path: string }> {
  const folder = mkdtempSync(join(tmpdir(), "pi-vscode-probe-"));
  const manifest = {
    name: PROBE,
    publisher: "pi-rpc",
    version: "0.0.1",
    engines: { vscode: "^1.100.0" },
    main: "./extension.js",
    activationEvents: ["onStartupFinished"],
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "extension.js"), "exports.activate = () => {};\n");
  writeFileSync(join(folder, "README.md"), "Nothing.\n");
  const path = join(folder, "probe.vsix");
  await createVSIX({
    cwd: folder,
    packagePath: path,
    dependencies: false,
    allowMissingRepository: true,
    skipLicense: true,
  });
  return { folder, path };
}
