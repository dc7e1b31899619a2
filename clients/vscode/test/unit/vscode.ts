/** What unit tests import as "vscode": as little of it as they need, and no behaviour that they do not look at. */
import { pathToFileURL } from "node:url";

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

export class Range {
  readonly start: Position;
  readonly end: Position;

  constructor(startLine: number, startCharacter: number, endLine: number, endCharacter: number) {
    this.start = new Position(startLine, startCharacter);
    this.end = new Position(endLine, endCharacter);
  }
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly authority: string,
    readonly path: string,
    readonly query: string,
    readonly fragment: string,
  ) {}

  static file(path: string): Uri {
    return Uri.parse(pathToFileURL(path).href);
  }

  static parse(text: string): Uri {
    const url = new URL(text);
    const path = decodeURIComponent(url.pathname);
    return new Uri(url.protocol.slice(0, -1), url.host, path, url.search.slice(1), url.hash.slice(1));
  }

  static from(parts: { scheme: string; path: string; query?: string }): Uri {
    return new Uri(parts.scheme, "", parts.path, parts.query ?? "", "");
  }

  static joinPath(uri: Uri, ...names: string[]): Uri {
    return new Uri(uri.scheme, uri.authority, [uri.path, ...names].join("/"), uri.query, uri.fragment);
  }

  get fsPath(): string {
    return this.path;
  }

  toString(): string {
    const query = this.query === "" ? "" : `?${this.query}`;
    return `${this.scheme}://${this.authority}${encodeURI(this.path)}${query}`;
  }
}

export class TextEdit {
  private constructor(
    readonly range: Range,
    readonly newText: string,
  ) {}

  static replace(range: Range, newText: string): TextEdit {
    return new TextEdit(range, newText);
  }
}

export class WorkspaceEdit {
  readonly changes: { uri: Uri; edits: TextEdit[] }[] = [];

  set(uri: Uri, edits: TextEdit[]): void {
    this.changes.push({ uri, edits });
  }

  replace(uri: Uri, range: Range, newText: string): void {
    this.changes.push({ uri, edits: [TextEdit.replace(range, newText)] });
  }
}

export class EventEmitter<T> {
  readonly #listeners = new Set<(value: T) => void>();
  readonly event = (listener: (value: T) => void) => {
    this.#listeners.add(listener);
    return { dispose: () => this.#listeners.delete(listener) };
  };

  fire(value: T): void {
    for (const listener of this.#listeners) listener(value);
  }

  dispose(): void {
    this.#listeners.clear();
  }
}

export class ThemeIcon {
  constructor(readonly id: string) {}
}

export const EndOfLine = { LF: 1, CRLF: 2 } as const;
export const CodeActionKind = { QuickFix: "quickfix" } as const;
export const env = { appName: "a test" };
export const version = "1.100.0";

/** A document as `workspace.textDocuments` has it; `type` is what a person does. */
export class Document {
  version = 1;
  isDirty = false;
  isClosed = false;
  eol: number = EndOfLine.LF;
  saves = 0;
  readonly undo: string[] = [];

  constructor(
    readonly uri: Uri,
    public text: string,
  ) {}

  getText(): string {
    return this.text;
  }

  change(text: string): void {
    this.undo.push(this.text);
    this.text = text;
    this.version += 1;
    this.isDirty = true;
    changed.fire({ document: this });
  }

  async save(): Promise<boolean> {
    this.saves += 1;
    this.isDirty = false;
    saved.fire(this);
    return true;
  }
}

const changed = new EventEmitter<{ document: Document }>();
const [opened, closed, saved] = [0, 1, 2].map(() => new EventEmitter<Document>()) as [
  EventEmitter<Document>,
  EventEmitter<Document>,
  EventEmitter<Document>,
];

/** What the person has set. */
export const settings = new Map<string, unknown>();

const nothing = { dispose: () => undefined };

export const window = {
  registerWebviewViewProvider: () => nothing,
  registerWebviewPanelSerializer: () => nothing,
  createWebviewPanel: (): unknown => undefined,
};

export const ViewColumn = { Active: -1, Beside: -2 } as const;

export const workspace = {
  workspaceFolders: [] as { uri: Uri }[],
  getConfiguration: () => ({
    get: (name: string, usual: unknown) => (settings.has(name) ? settings.get(name) : usual),
  }),
  textDocuments: [] as Document[],
  isTrusted: true,
  onDidOpenTextDocument: opened.event,
  onDidCloseTextDocument: closed.event,
  onDidChangeTextDocument: changed.event,
  onDidSaveTextDocument: saved.event,
  /** What happens between the moment an edit is sent off and that it arrives. */
  meanwhile: () => undefined as unknown,

  async applyEdit({ changes }: WorkspaceEdit): Promise<boolean> {
    const versions = new Map(this.textDocuments.map((document) => [document, document.version]));
    this.meanwhile();
    for (const { uri, edits } of changes) {
      const document = this.textDocuments.find((each) => each.uri.toString() === uri.toString());
      if (!document || document.version !== versions.get(document)) return false;
      const lines = document.text.split("\n");
      const offset = ({ line, character }: Position) =>
        lines.slice(0, line).reduce((sum, each) => sum + each.length + 1, 0) + character;
      const sorted = [...edits].sort((a, b) => offset(b.range.start) - offset(a.range.start));
      const text = sorted.reduce(
        (all, { range, newText }) =>
          all.slice(0, offset(range.start)) + newText + all.slice(offset(range.end)),
        document.text,
      );
      document.change(text);
    }
    return true;
  },

  open(document: Document): Document {
    this.textDocuments.push(document);
    opened.fire(document);
    return document;
  },

  close(document: Document): void {
    document.isClosed = true;
    this.textDocuments = this.textDocuments.filter((each) => each !== document);
    closed.fire(document);
  },
};
