/** Diagnostics and selections of an editor, put to pi. Nothing is sent that the person does not see in the prompt. */
import vscode = require("vscode");

import type { Draft } from "../shared/messages";
import type { App } from "./app";
import { attachFiles, diagnosticsAttachment, diagnosticsOf, selectionOf } from "./attachments";
import type { Chat } from "./chats";

/** Offers to have diagnostics fixed or explained. */
export class DiagnosticActions implements vscode.CodeActionProvider {
  static readonly kinds = [vscode.CodeActionKind.QuickFix];

  provideCodeActions(
    document: vscode.TextDocument,
    _: vscode.Range,
    { diagnostics }: vscode.CodeActionContext,
  ): vscode.CodeAction[] {
    if (diagnostics.length === 0) return [];
    const action = (title: string, command: string) => {
      const offered = new vscode.CodeAction(title, vscode.CodeActionKind.QuickFix);
      offered.diagnostics = [...diagnostics];
      offered.command = { title, command, arguments: [document.uri, diagnostics] };
      return offered;
    };
    return [action("Fix with pi", "pi.fixDiagnostic"), action("Explain with pi", "pi.explainDiagnostic")];
  }
}

/** Ask about diagnostics of a document. */
export async function askAboutDiagnostics(
  app: App,
  words: string,
  uri: vscode.Uri | undefined = vscode.window.activeTextEditor?.document.uri,
  diagnostics?: readonly vscode.Diagnostic[],
): Promise<void> {
  if (!uri) return;
  const attachment = diagnostics?.length ? diagnosticsAttachment(uri, diagnostics) : diagnosticsOf(uri);
  if (!attachment) {
    await vscode.window.showInformationMessage("There are no problems in this file.");
    return;
  }
  const { length } = attachment.diagnostics;
  const text = `${words} ${length === 1 ? "this problem" : "these problems"}.`;
  await draft(app, { text, attachments: [attachment] }, true);
}

/** Put the selection beside a question that the person types. */
export async function askAboutSelection(app: App): Promise<void> {
  const attachment = selectionOf();
  if (!attachment) {
    await vscode.window.showInformationMessage("Open a file and select something to ask pi about.");
    return;
  }
  await withChat(app, (chat) => {
    chat.post({ type: "attach", attachments: [attachment] });
    chat.post({ type: "focus" });
  });
}

/** Put all problems of the active file beside the next message. */
export async function attachDiagnostics(app: App): Promise<void> {
  const uri =
    vscode.window.activeTextEditor?.document.uri ?? vscode.window.visibleTextEditors[0]?.document.uri;
  const attachment = uri && diagnosticsOf(uri);
  if (!attachment) {
    await vscode.window.showInformationMessage("There are no problems in the active file.");
    return;
  }
  await withChat(app, (chat) => chat.post({ type: "attach", attachments: [attachment] }));
}

/** Put files beside the next message. */
export async function attachChosenFiles(app: App, given?: readonly vscode.Uri[]): Promise<void> {
  const uris =
    given && given.length > 0
      ? given
      : await vscode.window.showOpenDialog({
          canSelectMany: true,
          title: "Attach files",
          openLabel: "Attach",
        });
  if (uris) await withChat(app, (chat) => attachFiles(chat, uris));
}

async function draft(app: App, given: Draft, send: boolean): Promise<void> {
  await withChat(app, (chat) => chat.post({ type: "draft", draft: given, how: "prepend", send }));
}

async function withChat(app: App, act: (chat: Chat) => unknown): Promise<void> {
  const chat = await app.chats.front();
  if (!chat) return;
  await act(chat);
}
