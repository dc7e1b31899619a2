/** The settings of the extension, read when they are needed. Which of them a project cannot set says package.json. */
import { homedir } from "node:os";

import vscode = require("vscode");

import type { SessionNewParams, SessionState } from "../generated/protocol";
import type { ViewSettings } from "../shared/messages";
import type { Launch } from "./daemon";

/** Where an edit that waits for permission is shown. */
export type ReviewIn = "diffEditor" | "chat";

/** How the daemon is to be started. */
export function launch(): Launch {
  const settings = vscode.workspace.getConfiguration("pi");
  return {
    program: settings.get("program", ""),
    args: ["--permission-mode", permissionMode(), ...settings.get<string[]>("arguments", [])],
    env: settings.get<Record<string, string | null>>("environment", {}),
    cwd: folders()[0]?.fsPath ?? homedir(),
  };
}

/** The permission mode that sessions begin with: in a workspace that is not trusted none that asks less. */
export function permissionMode(): SessionState["permissionMode"] {
  const mode = vscode.workspace
    .getConfiguration("pi")
    .get<SessionState["permissionMode"]>("permissionMode", "ask");
  return vscode.workspace.isTrusted || mode === "readonly" ? mode : "ask";
}

/** Of two permission modes the one that allows less. */
export function stricter(
  mode: SessionState["permissionMode"],
  other: SessionState["permissionMode"] | undefined,
): SessionState["permissionMode"] {
  const order = ["readonly", "ask", "edits", "full"] as const;
  return other !== undefined && order.indexOf(other) < order.indexOf(mode) ? other : mode;
}

/** Where edits are shown before they are written. */
export function reviewIn(): ReviewIn {
  return vscode.workspace.getConfiguration("pi").get<ReviewIn>("reviewEdits", "diffEditor");
}

/** What the chat draws differently. */
export function viewSettings(): ViewSettings {
  const settings = vscode.workspace.getConfiguration("pi");
  return {
    expandThinking: settings.get("expandThinking", false),
    spellcheck: settings.get("spellcheck", false),
  };
}

/** The folders of the window that are on this machine. */
export function folders(): vscode.Uri[] {
  return (vscode.workspace.workspaceFolders ?? [])
    .map(({ uri }) => uri)
    .filter(({ scheme }) => scheme === "file");
}

/** What a session in one of the folders begins with: the others are further directories. */
export function newSession(cwd: vscode.Uri): SessionNewParams {
  const others = folders().filter((folder) => folder.toString() !== cwd.toString());
  return {
    cwd: cwd.fsPath,
    permissionMode: permissionMode(),
    ...(others.length > 0 && { additionalDirectories: others.map(({ fsPath }) => fsPath) }),
  };
}
