/**
 * Texts that stand in an editor without being files: to be read (`pi-text`), and to be changed (`pi-edit`).
 *
 * Owns both schemes. A text to be read lives as long as its tab, one to be changed until it is taken back; neither
 * outlives the window, and tabs that VS Code restores of them are closed.
 */
import vscode = require("vscode");

/** The scheme of texts that can only be read. */
export const READ_SCHEME = "pi-text";
/** The scheme of texts that a person may change. */
export const EDIT_SCHEME = "pi-edit";

/** Texts that no tab shows are kept so far: they may be just about to be shown. */
const MOST_UNSHOWN = 32;

/** Both kinds of texts of a window. */
export class Texts implements vscode.Disposable {
  readonly #read = new Map<string, string>();
  readonly #files = new MemoryFiles();
  readonly #registered: vscode.Disposable[];
  #count = 0;

  constructor() {
    this.#registered = [
      vscode.workspace.registerTextDocumentContentProvider(READ_SCHEME, {
        provideTextDocumentContent: (uri) => this.#read.get(uri.toString()) ?? "",
      }),
      vscode.workspace.registerFileSystemProvider(EDIT_SCHEME, this.#files, { isCaseSensitive: true }),
    ];
  }

  /** Close the tabs of an earlier window: their texts are gone. */
  async closeLeftovers(): Promise<void> {
    const left = allTabs().filter(({ input }) => textsOf(input).some(isOurs));
    if (left.length > 0) await vscode.window.tabGroups.close(left, true);
  }

  /** A text to be read; `path` ends in the name that the tab shows, whose extension tells the language. */
  readable(path: string, text: string): vscode.Uri {
    this.#prune();
    const uri = this.#uri(READ_SCHEME, path);
    this.#read.set(uri.toString(), text);
    return uri;
  }

  /** A text to be changed. */
  editable(path: string, text: string): vscode.Uri {
    const uri = this.#uri(EDIT_SCHEME, path);
    this.#files.put(uri, text);
    return uri;
  }

  /** A text to be changed as it is now, saved or not. */
  content(uri: vscode.Uri): string {
    const document = vscode.workspace.textDocuments.find((each) => each.uri.toString() === uri.toString());
    return document && !document.isClosed
      ? document.getText()
      : new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.#files.readFile(uri));
  }

  /** Show a text in an editor of its own. */
  async show(name: string, text: string, language?: string): Promise<void> {
    const document = await vscode.workspace.openTextDocument(this.readable(name, text));
    if (language)
      await vscode.languages.setTextDocumentLanguage(document, language).then(undefined, () => {
        // A language that is not installed: the text is shown plain.
      });
    await vscode.window.showTextDocument(document, { preview: true });
  }

  /** Take a text to be changed away, with the editors that show it; what was typed there is not asked about. */
  async discard(uri: vscode.Uri): Promise<void> {
    const document = vscode.workspace.textDocuments.find((each) => each.uri.toString() === uri.toString());
    if (document?.isDirty) await document.save();
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => shows(tab, uri));
    if (tabs.length > 0) await vscode.window.tabGroups.close(tabs, true);
    this.#files.take(uri);
  }

  dispose(): void {
    for (const each of this.#registered) each.dispose();
  }

  /** VS Code lets go of the documents of hidden tabs and asks for them again: what a tab shows has to stay. */
  #prune(): void {
    const shown = new Set(allTabs().flatMap(({ input }) => textsOf(input).map(String)));
    for (const uri of this.#read.keys()) {
      if (this.#read.size <= MOST_UNSHOWN) return;
      if (!shown.has(uri)) this.#read.delete(uri);
    }
  }

  #uri(scheme: string, path: string): vscode.Uri {
    this.#count += 1;
    const clean = path.startsWith("/") ? path : `/${path}`;
    return vscode.Uri.from({ scheme, path: clean, query: String(this.#count) });
  }
}

/** Whether a tab shows a text, alone or as the changed side of a comparison. */
export function shows({ input }: vscode.Tab, uri: vscode.Uri): boolean {
  return textsOf(input).at(-1)?.toString() === uri.toString();
}

function allTabs(): vscode.Tab[] {
  return vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs);
}

/** The texts that a tab shows; of a comparison what it was before first. */
function textsOf(input: unknown): vscode.Uri[] {
  if (input instanceof vscode.TabInputTextDiff) return [input.original, input.modified];
  return input instanceof vscode.TabInputText ? [input.uri] : [];
}

function isOurs({ scheme }: vscode.Uri): boolean {
  return scheme === READ_SCHEME || scheme === EDIT_SCHEME;
}

/** Files of one folder in memory; just what an editor needs to open and save one. */
class MemoryFiles implements vscode.FileSystemProvider {
  readonly #files = new Map<string, { content: Uint8Array; modified: number }>();
  readonly #changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly onDidChangeFile = this.#changed.event;

  put(uri: vscode.Uri, text: string): void {
    this.writeFile(uri, new TextEncoder().encode(text));
  }

  take(uri: vscode.Uri): void {
    if (!this.#files.delete(uri.toString())) return;
    this.#changed.fire([{ type: vscode.FileChangeType.Deleted, uri }]);
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => undefined);
  }

  stat(uri: vscode.Uri): vscode.FileStat {
    const { content, modified } = this.#file(uri);
    return { type: vscode.FileType.File, ctime: modified, mtime: modified, size: content.byteLength };
  }

  readFile(uri: vscode.Uri): Uint8Array {
    return this.#file(uri).content;
  }

  writeFile(uri: vscode.Uri, content: Uint8Array): void {
    const before = this.#files.get(uri.toString());
    this.#files.set(uri.toString(), { content, modified: (before?.modified ?? Date.now()) + 1 });
    this.#changed.fire([{ type: vscode.FileChangeType.Changed, uri }]);
  }

  readDirectory(): [string, vscode.FileType][] {
    return [];
  }

  createDirectory(uri: vscode.Uri): void {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  delete(uri: vscode.Uri): void {
    this.take(uri);
  }

  rename(from: vscode.Uri): void {
    throw vscode.FileSystemError.NoPermissions(from);
  }

  #file(uri: vscode.Uri): { content: Uint8Array; modified: number } {
    const file = this.#files.get(uri.toString());
    if (!file) throw vscode.FileSystemError.FileNotFound(uri);
    return file;
  }
}
