/**
 * Whether a project's own settings, skills, prompts and extensions are loaded.
 *
 * They may run code. In a workspace that VS Code does not trust they are not; when a person grants it trust while we
 * look, that is the answer. A workspace that was trusted before may be so for other reasons, or because trust is
 * turned off: there we ask once. The daemon keeps the answer, for pi as well.
 */
import vscode = require("vscode");

import type { App } from "./app";
import { folders } from "./settings";
import type { Wire } from "./wire";
import { line } from "./words";

/** Where it is remembered that a person does not want to be asked again. */
const DECLINED = "pi.trust.declined";

/** Keeps the daemon's trust and that of the window the same. */
export class Trust implements vscode.Disposable {
  readonly #app: App;
  readonly #listeners: vscode.Disposable[];

  constructor(app: App) {
    this.#app = app;
    this.#listeners = [
      vscode.workspace.onDidGrantWorkspaceTrust(() => {
        // Without a daemon there is nothing to decide yet.
        if (app.daemon.pid !== undefined) void app.attempt((wire) => this.settle(wire, true));
      }),
      app.daemon.onStart(({ wire }) => void this.settle(wire, false).catch((error) => app.report(error))),
    ];
  }

  /** Look at the folders of the window, and decide where something waits for it. `granted`: a person just did. */
  async settle(wire: Wire, granted: boolean): Promise<void> {
    const waiting: { cwd: string; needed: string[] }[] = [];
    for (const { fsPath: cwd } of folders()) {
      const { trusted, needed } = await wire.call("trust/get", { cwd });
      if (!trusted && needed.length > 0) waiting.push({ cwd, needed });
    }
    this.#app.chats.banner("trust", undefined);
    if (waiting.length === 0) return;
    if (!vscode.workspace.isTrusted) {
      this.#app.chats.banner("trust", {
        severity: "info",
        text: "This folder is in restricted mode: its own settings, skills and extensions for pi are not loaded.",
        actions: [{ id: "manageTrust", label: "Manage trust…" }],
      });
      return;
    }
    if (!granted && !(await this.#isWanted(waiting))) return;
    for (const { cwd } of waiting) await wire.call("trust/set", { cwd, trusted: true });
  }

  dispose(): void {
    for (const each of this.#listeners) each.dispose();
  }

  async #isWanted(waiting: { needed: string[] }[]): Promise<boolean> {
    const { workspaceState } = this.#app.context;
    if (workspaceState.get(DECLINED)) return false;
    const files = waiting.flatMap(({ needed }) =>
      needed.map((path) => line(vscode.workspace.asRelativePath(path))),
    );
    const [yes, never] = ["Load Them", "Never Here"];
    const more = files.length > 3 ? ` and ${files.length - 3} more` : "";
    const chosen = await vscode.window.showWarningMessage(
      `This project has settings, skills or extensions for pi of its own (${files.slice(0, 3).join(", ")}${more}). ` +
        "They can run code. Load them?",
      yes,
      "Not Now",
      never,
    );
    if (chosen === never) await workspaceState.update(DECLINED, true);
    return chosen === yes;
  }
}
