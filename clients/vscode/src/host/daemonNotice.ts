/** What a person is told of a daemon that does not answer yet, or is not there, with what they can do. */
import vscode = require("vscode");

import type { Banner } from "../shared/messages";
import { type Chats, VIEW } from "./chats";
import type { Failure } from "./daemon";
import { ProgramMissing, ProgramTooOld } from "./program";
import { plain } from "./words";

/** After so long without an answer something may be wrong. */
const LATE_MS = 5_000;

const LATE: Omit<Banner, "id"> = {
  severity: "info",
  text: "pi-rpc was started and has not answered yet.",
  actions: [
    { id: "restart", label: "Start it again" },
    { id: "showLog", label: "Show log" },
    { id: "openSettings", label: "Open settings" },
  ],
};

/** Show that the daemon is being started, and offer something else when that takes long. */
export async function watchBeginning(chats: Chats, answer: Promise<unknown>): Promise<void> {
  chats.banner("daemon", undefined);
  const late = setTimeout(() => chats.banner("daemon", LATE), LATE_MS);
  const end = () => clearTimeout(late);
  // What became of it is told elsewhere.
  const over = answer.then(end, end);
  await vscode.window.withProgress({ location: { viewId: VIEW } }, () => over);
}

/** What stands above the chats while there is no daemon. */
export function goneBanner(failure: Failure): Omit<Banner, "id"> {
  return { severity: "error", text: failure.error.message, actions: actionsOf(failure) };
}

/** Tell a person why the daemon is not there, with what they can do. */
export async function explain(failure: Failure): Promise<void> {
  const choices = actionsOf(failure);
  const chosen = await vscode.window.showErrorMessage(
    plain(failure.error.message),
    ...choices.map(({ label }) => label),
  );
  const action = choices.find(({ label }) => label === chosen);
  if (action) await vscode.commands.executeCommand(`pi.${action.id}`);
}

/** Ids are those of commands. */
function actionsOf({ error, crashed }: Failure): { id: string; label: string }[] {
  const log = { id: "showLog", label: "Show log" };
  const settings = { id: "openSettings", label: "Open settings" };
  if (error instanceof ProgramMissing || error instanceof ProgramTooOld) {
    return [
      { id: "install", label: error instanceof ProgramMissing ? "Install pi-rpc…" : "Update pi-rpc…" },
      settings,
      { id: "restart", label: "Try again" },
    ];
  }
  // What never answered may be another program than the one that was meant.
  return crashed
    ? [{ id: "restart", label: "Restart pi" }, log]
    : [{ id: "restart", label: "Try again" }, log, settings];
}
