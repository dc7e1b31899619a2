/**
 * What the editor has open counts for more than what is on the disk: the daemon is told which documents are open,
 * reads and changes them here, and saves what had been saved.
 *
 * Never is a document changed in another version than the daemon has read, and never is one saved that held
 * unsaved text of the person's before: that is the daemon's to ask for, and it does not.
 */
import vscode = require("vscode");

import type {
  ApplyEditParams,
  ApplyEditResult,
  OpenDocument,
  ReadDocumentParams,
  ReadDocumentResult,
  SaveDocumentParams,
  SaveDocumentResult,
  TextEdit,
} from "../generated/protocol";
import type { Wire } from "./wire";

/** The documents of this window, for one daemon at a time. */
export class EditorTruth implements vscode.Disposable {
  readonly #listeners: vscode.Disposable[];
  #wire: Wire | undefined;
  #told = "";
  #scheduled = false;

  constructor() {
    const { workspace } = vscode;
    this.#listeners = [
      workspace.onDidOpenTextDocument((document) => this.#moved(document)),
      workspace.onDidCloseTextDocument((document) => this.#moved(document)),
      workspace.onDidChangeTextDocument(({ document }) => this.#moved(document)),
      workspace.onDidSaveTextDocument((document) => this.#moved(document)),
    ];
  }

  /** Answer a daemon's questions about documents, and tell it which are open. */
  serve(wire: Wire): void {
    wire.answers("editor/readDocument", async (params) => this.read(params));
    wire.answers("workspace/applyEdit", (params) => this.apply(params));
    wire.answers("editor/saveDocument", (params) => this.save(params));
  }

  /** It was greeted: from now on it is told of every change. */
  begin(wire: Wire): void {
    this.#wire = wire;
    this.#told = "";
    this.tell();
    wire.onEnd(() => {
      if (this.#wire === wire) this.#wire = undefined;
    });
  }

  /** Tell what is open, if that is another thing than was told. Cheap where it is not. */
  tell(): void {
    this.#scheduled = false;
    if (!this.#wire) return;
    const openDocuments = vscode.workspace.textDocuments.filter(isFile).map(described);
    // The daemon asks for the version when it reads; a new one alone is no news.
    const news = JSON.stringify(openDocuments.map(({ uri, dirty }) => [uri, dirty]));
    if (news === this.#told) return;
    this.#told = news;
    this.#wire.tell("editor/didChange", { openDocuments });
  }

  /** `editor/readDocument`. */
  read({ uri }: ReadDocumentParams): ReadDocumentResult {
    this.tell();
    const document = find(uri);
    if (!document) return { open: false };
    return {
      open: true,
      text: document.getText(),
      version: document.version,
      eol: document.eol === vscode.EndOfLine.CRLF ? "\r\n" : "\n",
    };
  }

  /** `workspace/applyEdit`: one step to undo, or nothing at all. */
  async apply({ edit }: ApplyEditParams): Promise<ApplyEditResult> {
    this.tell();
    const change = new vscode.WorkspaceEdit();
    const after: { document: vscode.TextDocument; version: number }[] = [];
    for (const { textDocument, edits } of edit.documentChanges) {
      const document = find(textDocument.uri);
      if (!document) return { applied: false, failureReason: "the document is not open" };
      if (document.version !== textDocument.version) return { applied: false, failureReason: "version" };
      change.set(document.uri, edits.map(replacement));
      after.push({ document, version: document.version });
    }
    // VS Code checks the versions once more where it applies the edit, and then applies none of it.
    const applied = await vscode.workspace.applyEdit(change);
    this.tell();
    if (applied) return { applied };
    const moved = after.some(({ document, version }) => document.version !== version);
    return { applied, failureReason: moved ? "version" : "the editor did not apply it" };
  }

  /** `editor/saveDocument`. */
  async save({ uri, version }: SaveDocumentParams): Promise<SaveDocumentResult> {
    const document = find(uri);
    if (document?.version !== version) return { saved: false };
    const saved = await document.save();
    this.tell();
    return { saved: saved && !document.isDirty };
  }

  dispose(): void {
    for (const listener of this.#listeners) listener.dispose();
  }

  #moved(document: vscode.TextDocument): void {
    if (!this.#wire || this.#scheduled || document.uri.scheme !== "file") return;
    this.#scheduled = true;
    setImmediate(() => this.tell());
  }
}

function isFile(document: vscode.TextDocument): boolean {
  return document.uri.scheme === "file" && !document.isClosed;
}

function find(uri: string): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find(
    (document) => isFile(document) && document.uri.toString() === uri,
  );
}

function described(document: vscode.TextDocument): OpenDocument {
  return { uri: document.uri.toString(), version: document.version, dirty: document.isDirty };
}

function replacement({ range, newText }: TextEdit): vscode.TextEdit {
  const { start, end } = range;
  return vscode.TextEdit.replace(
    new vscode.Range(start.line, start.character, end.line, end.character),
    newText,
  );
}
