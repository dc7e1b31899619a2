/** The checkpoints of a session: what each run changed, shown and taken back. */
import { basename } from "node:path";

import vscode = require("vscode");

import type { CheckpointSummary } from "../generated/protocol";
import type { App } from "./app";
import { line, plain } from "./words";

/** Choose a checkpoint of the current session, and what to do with it. */
export async function chooseCheckpoint(app: App): Promise<void> {
  const { current } = app;
  if (!current) return;
  const list = await app.attempt((wire) => wire.call("checkpoint/list", { sessionId: current.id }));
  if (!list) return;
  if (list.checkpoints.length === 0) {
    await vscode.window.showInformationMessage("pi has changed no files in this session.");
    return;
  }
  const diff = { iconPath: new vscode.ThemeIcon("diff"), tooltip: "Show what it changed" };
  const restore = { iconPath: new vscode.ThemeIcon("discard"), tooltip: "Put the files back" };
  const pick = vscode.window.createQuickPick<vscode.QuickPickItem & { checkpoint: CheckpointSummary }>();
  pick.title = "Checkpoints";
  pick.placeholder = "Enter shows what a run changed; the arrow puts the files back as they were before it";
  pick.items = list.checkpoints.map((checkpoint) => ({
    ...itemOf(checkpoint),
    checkpoint,
    buttons: [diff, restore],
  }));
  pick.onDidAccept(() => {
    const [item] = pick.activeItems;
    if (item) void checkpointDiff(app, current.id, item.checkpoint.checkpointId);
    pick.hide();
  });
  pick.onDidTriggerItemButton(({ item, button }) => {
    const { checkpointId } = item.checkpoint;
    if (button === diff) void checkpointDiff(app, current.id, checkpointId);
    else void checkpointRestore(app, current.id, checkpointId);
    pick.hide();
  });
  pick.onDidHide(() => pick.dispose());
  pick.show();
}

/** Show what a run changed. */
export async function checkpointDiff(
  app: App,
  sessionId: string | undefined,
  checkpointId: string,
): Promise<void> {
  if (!sessionId) return;
  const shown = await app.attempt((wire) => wire.call("checkpoint/diff", { sessionId, checkpointId }));
  if (shown) await app.texts.show("Changes of the run.diff", shown.diff, "diff");
}

/** Put files back as they were before a run, once the person has said yes. */
export async function checkpointRestore(
  app: App,
  sessionId: string | undefined,
  checkpointId: string,
): Promise<void> {
  if (!sessionId) return;
  const yes = "Restore";
  const chosen = await vscode.window.showWarningMessage(
    "Put the files back as they were before this run?",
    { modal: true, detail: "Files that were changed since stay as they are. This can be taken back." },
    yes,
  );
  if (chosen === yes) await restore(app, sessionId, checkpointId);
}

async function restore(app: App, sessionId: string, checkpointId: string): Promise<void> {
  app.truth.tell();
  const done = await app.attempt((wire) => wire.call("checkpoint/restore", { sessionId, checkpointId }));
  if (!done) return;
  const checkpoints = await app.attempt((wire) => app.sessions.checkpoints(wire, sessionId));
  if (checkpoints) app.chats.post(sessionId, { type: "checkpoints", checkpoints });
  const { restored, conflicts } = done;
  const undo = done.checkpointId === undefined ? [] : ["Take it back"];
  const names = restored.map(({ path }) => basename(path)).join(", ");
  const text = restored.length > 0 ? `Restored: ${names}.` : "No file was changed.";
  const kept = conflicts.map(({ path, message }) => `${basename(path)}: ${message}`).join(" ");
  const chosen =
    conflicts.length > 0
      ? await vscode.window.showWarningMessage(plain(`${text} Left as they are: ${kept}`), ...undo)
      : await vscode.window.showInformationMessage(plain(text), ...undo);
  if (chosen && done.checkpointId) await restore(app, sessionId, done.checkpointId);
}

function itemOf({ text, time, files, notRestorable, kind }: CheckpointSummary): vscode.QuickPickItem {
  const names = [...files, ...notRestorable].map(({ path }) => basename(path));
  return {
    label: kind === "restore" ? `Restored: ${line(text)}` : line(text) || "(no text)",
    description: new Date(time).toLocaleString(),
    detail: names.slice(0, 6).join(", ") + (names.length > 6 ? `, ${names.length - 6} more` : ""),
  };
}
