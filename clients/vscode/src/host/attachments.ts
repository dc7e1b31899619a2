/** What the editor knows, put beside the next message: only what a person asked for, and seen before it is sent. */
import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";

import vscode = require("vscode");

import type {
  DiagnosticsAttachment,
  EditorDiagnostic,
  ImageBlock,
  SelectionAttachment,
  TextAttachment,
} from "../generated/protocol";
import type { Attachment } from "../shared/messages";
import type { Chat } from "./chats";

const IMAGES: Record<string, string> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
};
const LARGEST_IMAGE = 10 * 1024 * 1024;

/** What is selected in an editor, or the line of the cursor; undefined where there is no editor. */
export function selectionOf(
  editor: vscode.TextEditor | undefined = vscode.window.activeTextEditor,
): SelectionAttachment | TextAttachment | undefined {
  if (!editor) return undefined;
  const { document, selection } = editor;
  const { uri } = document;
  const range = selection.isEmpty ? document.lineAt(selection.active.line).range : selection;
  const text = document.getText(range);
  // What stands in no file, such as a document that was never saved, has nothing but its text.
  return uri.scheme === "file"
    ? { type: "selection", uri: uri.toString(), range: plain(range), text }
    : { type: "text", name: basename(uri.path), text };
}

/** Diagnostics of a document, those of a range when one is given. */
export function diagnosticsOf(uri: vscode.Uri, range?: vscode.Range): DiagnosticsAttachment | undefined {
  const found = vscode.languages
    .getDiagnostics(uri)
    .filter((diagnostic) => !range || diagnostic.range.intersection(range));
  return found.length > 0 ? diagnosticsAttachment(uri, found) : undefined;
}

/** These diagnostics of a document. */
export function diagnosticsAttachment(
  uri: vscode.Uri,
  diagnostics: readonly vscode.Diagnostic[],
): DiagnosticsAttachment {
  return { type: "diagnostics", uri: uri.toString(), diagnostics: diagnostics.map(described) };
}

/** Put files beside the next message: pictures as pictures, others by their path. */
export async function attachFiles(chat: Chat, uris: readonly vscode.Uri[]): Promise<void> {
  const attachments: Attachment[] = [];
  const images: ImageBlock[] = [];
  for (const uri of uris.filter(({ scheme }) => scheme === "file")) {
    const mimeType = IMAGES[extname(uri.fsPath).toLowerCase()];
    if (!mimeType) {
      attachments.push({ type: "file", uri: uri.toString() });
      continue;
    }
    const content = await readFile(uri.fsPath);
    if (content.byteLength > LARGEST_IMAGE) {
      await vscode.window.showWarningMessage(`${uri.fsPath} is too large to be shown to a model.`);
      continue;
    }
    images.push({ type: "image", mimeType, data: content.toString("base64") });
  }
  if (attachments.length + images.length === 0) return;
  chat.post({ type: "attach", attachments, ...(images.length > 0 && { images }) });
}

function described({ range, message, severity, source, code }: vscode.Diagnostic): EditorDiagnostic {
  const value = typeof code === "object" ? code.value : code;
  return {
    range: plain(range),
    message,
    severity: (severity + 1) as 1 | 2 | 3 | 4,
    ...(source !== undefined && { source }),
    ...(value !== undefined && { code: value }),
  };
}

function plain({ start, end }: vscode.Range): SelectionAttachment["range"] {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}
