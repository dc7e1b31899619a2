/**
 * Whether a project's own settings, skills, prompts and extensions are loaded: as VS Code's workspace trust says.
 *
 * They may run code, as tasks and extensions of a workspace may, so it is the same question and is not asked twice.
 * Where a person has turned workspace trust off VS Code asks nobody: then we ask, once for each window.
 */
import * as vscode from "vscode";
import type { App } from "./app";
import { folders } from "./settings";
import type { Wire } from "./wire";

/** Keeps the daemon's trust and that of the window the same. */
export class Trust implements vscode.Disposable {
  readonly #app: App;
  readonly #listeners: vscode.Disposable[];
  #asked = false;

  constructor(app: App) {
    this.#app = app;
    this.#listeners = [
      vscode.workspace.onDidGrantWorkspaceTrust(() => void app.attempt((wire) => this.settle(wire))),
      app.daemon.onStart(({ wire }) => void this.settle(wire).catch((error) => app.report(error))),
    ];
  }

  /** Look at the folders of the window, and decide where something waits for it. */
  async settle(wire: Wire): Promise<void> {
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
    if (
      vscode.workspace.getConfiguration("security.workspace.trust").get("enabled", true) ||
      (await this.#isWanted(waiting))
    ) {
      for (const { cwd } of waiting) await wire.call("trust/set", { cwd, trusted: true });
    }
  }

  dispose(): void {
    for (const each of this.#listeners) each.dispose();
  }

  async #isWanted(waiting: { needed: string[] }[]): Promise<boolean> {
    if (this.#asked) return false;
    this.#asked = true;
    const files = waiting.flatMap(({ needed }) => needed);
    const yes = "Load them";
    const more = files.length > 3 ? ` and ${files.length - 3} more` : "";
    const chosen = await vscode.window.showInformationMessage(
      `This project has settings, skills or extensions for pi (${files.slice(0, 3).join(", ")}${more}), ` +
        "which may run code. Load them?",
      yes,
      "Not now",
    );
    return chosen === yes;
  }
}
