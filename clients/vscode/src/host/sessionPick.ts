/** Stored sessions, chosen, searched, named and deleted. */
import vscode = require("vscode");

import type { SessionSummary } from "../generated/protocol";
import type { App } from "./app";
import { folders } from "./settings";
import { line } from "./words";

type SessionItem = vscode.QuickPickItem & { session: SessionSummary };

const TYPING_MS = 150;

/** Have the person choose a session; the daemon searches. Buttons rename and delete. */
export function chooseSession(app: App, title: string): Promise<SessionSummary | undefined> {
  const pick = vscode.window.createQuickPick<SessionItem>();
  pick.title = title;
  pick.placeholder = "Search in names and first messages";
  // What the daemon found is shown as it is, whatever else the words are found in.
  pick.matchOnDescription = true;
  pick.matchOnDetail = true;
  const everywhere = { iconPath: new vscode.ThemeIcon("globe"), tooltip: "Sessions of all folders" };
  pick.buttons = [everywhere];
  let [all, asked] = [folders().length === 0, 0];
  let later: NodeJS.Timeout | undefined;
  const search = async () => {
    const mine = ++asked;
    pick.busy = true;
    const found = await listed(app, pick.value, all);
    if (mine !== asked) return;
    pick.items = found.map((session) => itemOf(session, pick.value, all));
    pick.busy = false;
  };
  return new Promise((resolve) => {
    pick.onDidChangeValue(() => {
      clearTimeout(later);
      later = setTimeout(() => void search(), TYPING_MS);
    });
    pick.onDidTriggerButton(() => {
      all = !all;
      void search();
    });
    pick.onDidTriggerItemButton(async ({ item, button }) => {
      const act = button.tooltip === RENAME.tooltip ? renameSession : deleteSession;
      pick.ignoreFocusOut = true;
      await act(app, item.session.sessionId, item.session.name);
      pick.ignoreFocusOut = false;
      pick.show();
      await search();
    });
    pick.onDidAccept(() => {
      resolve(pick.activeItems[0]?.session);
      pick.hide();
    });
    pick.onDidHide(() => {
      if (pick.ignoreFocusOut) return;
      clearTimeout(later);
      resolve(undefined);
      pick.dispose();
    });
    pick.show();
    void search();
  });
}

/** Give a session a name. */
export async function renameSession(app: App, sessionId: string, name: string | undefined): Promise<void> {
  const named = await vscode.window.showInputBox({
    title: "Name of the session",
    value: name ?? "",
    ignoreFocusOut: true,
    validateInput: (text) => (text.trim() === "" ? "A name has at least one letter" : undefined),
  });
  if (named === undefined) return;
  await app.attempt((wire) => wire.call("session/configure", { sessionId, name: named.trim() }));
}

/** Move a session to the trash, once the person has said yes. True: it is gone. */
export async function deleteSession(app: App, sessionId: string, name: string | undefined): Promise<boolean> {
  const yes = "Delete";
  const chosen = await vscode.window.showWarningMessage(
    `Delete the session ${name ? `“${name}”` : sessionId}?`,
    { modal: true, detail: "Its file is moved to the trash folder of the sessions." },
    yes,
  );
  if (chosen !== yes) return false;
  const gone = await app.attempt((wire) => wire.call("session/delete", { sessionId }));
  if (!gone) return false;
  app.sessions.forget(sessionId);
  for (const chat of app.chats.of(sessionId)) {
    chat.sessionId = undefined;
    const session = await app.create();
    if (session) await app.show(chat, session.id);
    else chat.drawNothing();
  }
  return true;
}

/** Write a session to a file that the person names. */
export async function exportSession(app: App, sessionId: string): Promise<void> {
  const formats = [
    {
      label: "HTML",
      description: "one page, to read and pass on",
      format: "html" as const,
      extension: "html",
    },
    { label: "Markdown", description: "for a forge", format: "markdown" as const, extension: "md" },
    {
      label: "JSONL",
      description: "the session itself, for pi",
      format: "jsonl" as const,
      extension: "jsonl",
    },
  ];
  const chosen = await vscode.window.showQuickPick(formats, { title: "Export the session as" });
  if (!chosen) return;
  const folder = folders()[0];
  const target = await vscode.window.showSaveDialog({
    title: "Export the session",
    filters: { [chosen.label]: [chosen.extension] },
    ...(folder && {
      defaultUri: vscode.Uri.joinPath(folder, `pi-session-${sessionId.slice(0, 8)}.${chosen.extension}`),
    }),
  });
  if (!target) return;
  // The dialog has asked about a file that exists.
  const params = { sessionId, format: chosen.format, path: target.fsPath, overwrite: true };
  const done = await app.attempt((wire) => wire.call("session/export", params));
  if (!done) return;
  const open = await vscode.window.showInformationMessage(`Exported to ${done.path}`, "Open");
  if (open) await vscode.commands.executeCommand("vscode.open", vscode.Uri.file(done.path));
}

const RENAME = { iconPath: new vscode.ThemeIcon("edit"), tooltip: "Rename" };
const DELETE = { iconPath: new vscode.ThemeIcon("trash"), tooltip: "Delete" };

async function listed(app: App, query: string, all: boolean): Promise<SessionSummary[]> {
  const wire = await app.connected();
  if (!wire) return [];
  const cwds = all ? [undefined] : folders().map(({ fsPath }) => fsPath);
  const pages = await Promise.all(
    cwds.map((cwd) =>
      wire.call("session/list", { limit: 100, ...(query && { query }), ...(cwd && { cwd }) }),
    ),
  );
  return pages.flatMap(({ sessions }) => sessions).sort((a, b) => b.modified.localeCompare(a.modified));
}

function itemOf(session: SessionSummary, query: string, withFolder: boolean): SessionItem {
  const { name, firstMessage, messageCount, modified, lockedPid, phase } = session;
  const first = line(firstMessage, 120);
  const marks = [
    new Date(modified).toLocaleString(),
    `${messageCount} messages`,
    phase && phase !== "idle" ? "running" : undefined,
    lockedPid !== undefined ? "open elsewhere" : undefined,
  ];
  const detail = [withFolder ? session.cwd : undefined, name ? first : undefined];
  return {
    label: name ? line(name) : first || "(empty)",
    description: marks.filter(Boolean).join(" · "),
    detail: detail.filter(Boolean).join(" · "),
    // The daemon's search has decided already.
    alwaysShow: query !== "",
    buttons: [RENAME, DELETE],
    session,
  };
}
