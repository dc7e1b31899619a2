/**
 * What extensions of the daemon ask and tell a person (`ui/*`), with VS Code's own inputs. One question at a time:
 * others wait until it is answered, dismissed or moot.
 */
import vscode = require("vscode");

import type { CancellationToken } from "vscode-jsonrpc/node";
import type {
  UiConfirmParams,
  UiConfirmResult,
  UiEditorParams,
  UiInputParams,
  UiNotifyParams,
  UiSelectParams,
  UiStatusParams,
  UiTextResult,
} from "../generated/protocol";
import { shows, type Texts } from "./texts";
import type { Wire } from "./wire";
import { line, plain } from "./words";

/** Names of sessions for people. */
export type NameOf = (sessionId: string | undefined) => string | undefined;

/** Puts the daemon's questions to the person of this window. */
export class Questions implements vscode.Disposable {
  readonly #texts: Texts;
  readonly #nameOf: NameOf;
  readonly #statuses = new Map<string, vscode.StatusBarItem>();
  readonly #answers = new Map<string, (value: string | undefined) => void>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(texts: Texts, nameOf: NameOf) {
    this.#texts = texts;
    this.#nameOf = nameOf;
  }

  /** Answer a daemon's questions. */
  serve(wire: Wire): void {
    wire.answers("ui/select", (params, token) => this.#inTurn(token, () => this.#select(params, token)));
    wire.answers("ui/confirm", (params, token) => this.#inTurn(token, () => this.#confirm(params, token)));
    wire.answers("ui/input", (params, token) => this.#inTurn(token, () => this.#input(params, token)));
    wire.answers("ui/editor", (params, token) => this.#inTurn(token, () => this.#editor(params, token)));
    wire.hears("ui/notify", (params) => void notify(params));
    wire.hears("ui/status", (params) => this.#status(params));
    wire.onEnd(() => this.#clear());
  }

  /** Answer the text in an editor that was asked for; `uri` is that of the editor. */
  submit(uri: vscode.Uri | undefined): void {
    const wanted = uri ?? vscode.window.activeTextEditor?.document.uri;
    if (wanted) this.#answers.get(wanted.toString())?.(this.#texts.content(wanted));
  }

  /** Dismiss the question of an editor. */
  dismiss(uri: vscode.Uri | undefined): void {
    const wanted = uri ?? vscode.window.activeTextEditor?.document.uri;
    if (wanted) this.#answers.get(wanted.toString())?.(undefined);
  }

  dispose(): void {
    this.#clear();
  }

  #inTurn<R>(token: CancellationToken, ask: () => Promise<R>): Promise<R | { cancelled: true }> {
    const asked = this.#turn.then(async () =>
      token.isCancellationRequested ? ({ cancelled: true } as const) : await ask(),
    );
    this.#turn = asked.catch(() => undefined);
    return asked;
  }

  #title({ title, sessionId }: { title: string; sessionId?: string }): string {
    const name = this.#nameOf(sessionId);
    return name ? `pi · ${line(name, 40)}: ${plain(title)}` : `pi: ${plain(title)}`;
  }

  async #select(params: UiSelectParams, token: CancellationToken): Promise<UiTextResult> {
    const items = params.options.map(({ label, value, description }) => ({
      label: plain(label),
      value,
      ...(description !== undefined && { description: plain(description) }),
    }));
    const chosen = await vscode.window.showQuickPick(
      items,
      {
        title: this.#title(params),
        ignoreFocusOut: true,
        matchOnDescription: true,
        ...(params.message !== undefined && { placeHolder: params.message }),
      },
      token,
    );
    return chosen ? { value: chosen.value } : { cancelled: true };
  }

  async #confirm(params: UiConfirmParams, token: CancellationToken): Promise<UiConfirmResult> {
    // A message with buttons could not be taken off the screen when the question is moot.
    const chosen = await vscode.window.showQuickPick(
      [
        { label: "Yes", confirmed: true },
        { label: "No", confirmed: false },
      ],
      { title: this.#title(params), placeHolder: params.message ?? params.title, ignoreFocusOut: true },
      token,
    );
    return chosen ? { confirmed: chosen.confirmed } : { cancelled: true };
  }

  async #input(params: UiInputParams, token: CancellationToken): Promise<UiTextResult> {
    const value = await vscode.window.showInputBox(
      {
        title: this.#title(params),
        ignoreFocusOut: true,
        password: params.secret ?? false,
        ...(params.message !== undefined && { prompt: params.message }),
        ...(params.placeholder !== undefined && { placeHolder: params.placeholder }),
        ...(params.prefill !== undefined && { value: params.prefill }),
      },
      token,
    );
    return value === undefined ? { cancelled: true } : { value };
  }

  async #editor(params: UiEditorParams, token: CancellationToken): Promise<UiTextResult> {
    const uri = this.#texts.editable("/answer/Answer to pi.md", params.prefill ?? "");
    const answered = new Promise<string | undefined>((resolve) => {
      this.#answers.set(uri.toString(), resolve);
      token.onCancellationRequested(() => resolve(undefined));
    });
    const closing = vscode.window.tabGroups.onDidChangeTabs(({ closed }) => {
      if (closed.some((tab) => shows(tab, uri))) this.dismiss(uri);
    });
    try {
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri), { preview: false });
      // Gone with its question, unlike a message; cancelling it dismisses the question.
      const waiting = {
        location: vscode.ProgressLocation.Notification,
        title: [this.#title(params), params.message && plain(params.message)].filter(Boolean).join(" "),
        cancellable: true,
      };
      void vscode.window.withProgress(waiting, async (progress, cancelled) => {
        progress.report({ message: "Write it in the editor; the check mark above sends it." });
        cancelled.onCancellationRequested(() => this.dismiss(uri));
        await answered;
      });
      const value = await answered;
      return value === undefined ? { cancelled: true } : { value };
    } finally {
      closing.dispose();
      this.#answers.delete(uri.toString());
      await this.#texts.discard(uri);
    }
  }

  #status({ key, sessionId, text }: UiStatusParams): void {
    const id = JSON.stringify([sessionId, key]);
    const shown = this.#statuses.get(id);
    if (text === undefined) {
      shown?.dispose();
      this.#statuses.delete(id);
      return;
    }
    const item =
      shown ?? vscode.window.createStatusBarItem(`pi.status.${key}`, vscode.StatusBarAlignment.Left);
    this.#statuses.set(id, item);
    item.text = line(text, 80);
    item.name = `pi: ${key}`;
    item.tooltip = this.#nameOf(sessionId) ?? "pi";
    item.show();
  }

  #clear(): void {
    for (const item of this.#statuses.values()) item.dispose();
    this.#statuses.clear();
  }
}

async function notify({ level, message }: UiNotifyParams): Promise<void> {
  const { window } = vscode;
  const show = {
    error: window.showErrorMessage,
    warning: window.showWarningMessage,
    info: window.showInformationMessage,
  }[level];
  await show(plain(message));
}
