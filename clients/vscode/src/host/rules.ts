/** The permission rules that hold in a project, looked at and forgotten. */
import vscode = require("vscode");

import type { PermissionRule } from "../generated/protocol";
import type { App } from "./app";
import { folders } from "./settings";
import { plain, quoted } from "./words";

/** Show the rules; choosing one that was remembered forgets it. */
export async function showRules(app: App): Promise<void> {
  const cwd = app.current?.state.cwd ?? folders()[0]?.fsPath;
  const list = await app.attempt((wire) => wire.call("permission/list", cwd === undefined ? {} : { cwd }));
  if (!list) return;
  if (list.rules.length === 0) {
    await vscode.window.showInformationMessage("No rules hold here: the permission mode alone decides.");
    return;
  }
  const chosen = await vscode.window.showQuickPick(
    list.rules.map((rule) => ({ ...itemOf(rule), rule })),
    {
      title: "Permission rules of this project",
      placeHolder: "Choose an answer that was remembered to forget it",
      matchOnDescription: true,
      matchOnDetail: true,
    },
  );
  const id = chosen?.rule.id;
  if (!chosen || id === undefined) return;
  const yes = "Forget";
  const sure = await vscode.window.showWarningMessage(
    `Forget this answer? ${quoted(chosen.rule.words)}`,
    { modal: true },
    yes,
  );
  if (sure === yes) await app.attempt((wire) => wire.call("permission/forget", { id }));
}

function itemOf({ effect, rule, words, source, id }: PermissionRule): vscode.QuickPickItem {
  const icons = { allow: "check", ask: "question", deny: "circle-slash" };
  return {
    label: `$(${icons[effect]}) ${quoted(words)}`,
    description: id === undefined ? `${source} (changed in its file)` : source,
    detail: plain(rule),
  };
}
