/** Files, links and code of a conversation, opened in the editor. What a model wrote is checked before. */
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";

import vscode = require("vscode");

import type { Range } from "../generated/protocol";
import { line } from "./words";

/** Schemes of links that a person may follow out of a conversation. */
const LINKS = ["http:", "https:", "mailto:"];

/** Where a file is said to be: the file, and the line if one is named (`a.py:12`, `a.py:12:3`, `a.py#L12`). */
export function located(text: string, cwd: string | undefined): { path: string; line?: number } | undefined {
  let path = text.trim();
  if (path.startsWith("file:")) {
    const uri = vscode.Uri.parse(path);
    if (uri.authority) return undefined;
    const line = lineOf(uri.fragment);
    return { path: uri.fsPath, ...(line !== undefined && { line }) };
  }
  const match = /^(.+?)(?:#L(\d+)(?:-L?\d+)?|:(\d+)(?:[:-]\d+)?)$/.exec(path);
  const line = match ? Number(match[2] ?? match[3]) - 1 : undefined;
  if (match?.[1]) path = match[1];
  if (path.startsWith("~/")) path = join(homedir(), path.slice(2));
  if (!isAbsolute(path)) {
    if (cwd === undefined || path === "") return undefined;
    path = resolve(cwd, path);
  }
  return { path, ...(line !== undefined && line >= 0 && { line }) };
}

/** Show a file of this machine. */
export async function openFile(
  text: string,
  cwd: string | undefined,
  range: Range | undefined,
  beside: boolean,
): Promise<void> {
  const place = located(text, cwd);
  const uri = place && vscode.Uri.file(place.path);
  const found = uri
    ? await vscode.workspace.fs.stat(uri).then(
        (stat) => stat,
        () => undefined,
      )
    : undefined;
  if (!uri || !found) {
    await vscode.window.showInformationMessage(`There is no file ${line(text)}.`);
    return;
  }
  if (found.type & vscode.FileType.Directory) {
    await vscode.commands.executeCommand("revealInExplorer", uri);
    return;
  }
  const start = range?.start ?? { line: place.line ?? 0, character: 0 };
  const end = range?.end ?? start;
  // Pictures and the like have editors of their own.
  await vscode.commands.executeCommand("vscode.open", uri, {
    preview: true,
    viewColumn: beside ? vscode.ViewColumn.Beside : vscode.ViewColumn.Active,
    ...((range || place.line !== undefined) && {
      selection: new vscode.Range(start.line, start.character, end.line, end.character),
    }),
  } satisfies vscode.TextDocumentShowOptions);
}

/** Follow a link out of a conversation; VS Code asks about places that the person does not trust. */
export async function openLink(href: string): Promise<void> {
  let url: URL;
  try {
    url = new URL(href);
  } catch {
    return;
  }
  if (!LINKS.includes(url.protocol)) {
    await vscode.window.showWarningMessage(`pi does not open links that begin with ${url.protocol}`);
    return;
  }
  await vscode.env.openExternal(vscode.Uri.parse(url.href, true));
}

/** Put code into the active editor, in place of the selection, or into a file that has no name yet. */
export async function applyCode(code: string, language: string, newFile: boolean): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!newFile && editor) {
    const { selection } = editor;
    const done = await editor.edit((edit) => edit.replace(selection, code));
    if (done) await vscode.window.showTextDocument(editor.document, editor.viewColumn);
    else await vscode.window.showWarningMessage("The editor did not take the code: it may be read-only.");
    return;
  }
  const known = await vscode.languages.getLanguages();
  const document = await vscode.workspace.openTextDocument({
    content: code,
    ...(known.includes(language) && { language }),
  });
  await vscode.window.showTextDocument(document);
}

function lineOf(fragment: string): number | undefined {
  const match = /^L?(\d+)/.exec(fragment);
  return match ? Number(match[1]) - 1 : undefined;
}
