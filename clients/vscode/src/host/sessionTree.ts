/**
 * The tree of a session's entries as VS Code's tree view has it.
 *
 * A conversation is one long line that seldom forks. So what follows without a fork stands in one list, and only
 * the ways that begin at a fork are nested: each is a list of its own.
 */
import vscode = require("vscode");

import type { TreeNode } from "../generated/protocol";
import type { App } from "./app";

/** A list of entries without a fork, and the ways that go on behind it. */
export interface Strand {
  nodes: TreeNode[];
  ways: Strand[];
}

/** What the view shows: an entry, and where a way begins with it behind a fork, the rest of that below it. */
export interface Item {
  node: TreeNode;
  way?: { strand: Strand; number: number };
}

const MOST_NODES = 5_000;

/** Types of entries that hold a setting, or something for programs. */
const SILENT = new Set([
  "model_change",
  "thinking_level_change",
  "active_tools_change",
  "session_info",
  "label",
  "leaf",
  "custom",
  "usage",
  "context_edit",
]);

/** Who speaks in an entry, or what it holds, as a person says it. */
const KINDS: Record<string, string> = {
  user: "you",
  assistant: "pi",
  toolResult: "tool",
  bashExecution: "your command",
  branch_summary: "summary of a branch",
  model_change: "model",
  thinking_level_change: "thinking level",
  active_tools_change: "tools",
  session_info: "name",
  context_edit: "shortened",
};

/** Strands of a flat list in which parents come before their children. */
export function strandsOf(nodes: readonly TreeNode[]): Strand[] {
  const known = new Set(nodes.map(({ entryId }) => entryId));
  const children = new Map<string | undefined, TreeNode[]>();
  for (const node of nodes) {
    // An entry whose parent is not listed begins a strand.
    const parent = node.parentId !== undefined && known.has(node.parentId) ? node.parentId : undefined;
    const siblings = children.get(parent);
    if (siblings) siblings.push(node);
    else children.set(parent, [node]);
  }
  const begun: { strand: Strand; first: TreeNode }[] = [];
  const begin = (first: TreeNode): Strand => {
    const strand = { nodes: [], ways: [] };
    begun.push({ strand, first });
    return strand;
  };
  const roots = (children.get(undefined) ?? []).map(begin);
  for (let next = begun.pop(); next; next = begun.pop()) {
    const { strand } = next;
    let node: TreeNode | undefined = next.first;
    while (node) {
      strand.nodes.push(node);
      const following: TreeNode[] = children.get(node.entryId) ?? [];
      if (following.length > 1) strand.ways = following.map(begin);
      node = following.length === 1 ? following[0] : undefined;
    }
  }
  return roots;
}

/** The entries that say something to a person, each below the closest such entry; and the leaf, whatever it is. */
export function telling(nodes: readonly TreeNode[], leafId: string | null): TreeNode[] {
  const tells = ({ type, label, entryId }: TreeNode) =>
    !SILENT.has(type) || label !== undefined || entryId === leafId;
  const parents = new Map<string, string | undefined>();
  const told: TreeNode[] = [];
  for (const node of nodes) {
    // Parents come first: what stands there for the parent is known.
    const above = node.parentId === undefined ? undefined : parents.get(node.parentId);
    if (!tells(node)) {
      parents.set(node.entryId, above);
      continue;
    }
    parents.set(node.entryId, node.entryId);
    const { parentId: _, ...rest } = node;
    told.push(above === undefined ? rest : { ...rest, parentId: above });
  }
  return told;
}

/** The view of the current session. */
export class SessionTree implements vscode.TreeDataProvider<Item>, vscode.Disposable {
  readonly #app: App;
  readonly #changed = new vscode.EventEmitter<undefined>();
  readonly #view: vscode.TreeView<Item>;
  readonly #listeners: vscode.Disposable[];
  #active = new Set<string>();
  #leafId: string | null = null;
  #later: NodeJS.Timeout | undefined;
  readonly onDidChangeTreeData = this.#changed.event;

  constructor(app: App) {
    this.#app = app;
    this.#view = vscode.window.createTreeView("pi.tree", { treeDataProvider: this, showCollapseAll: true });
    this.#listeners = [
      app.chats.onSwitch(() => this.refresh()),
      this.#view.onDidChangeVisibility(() => this.refresh()),
      this.#view,
      app.sessions.onEvent(({ sessionId, event }) => {
        const isNew = ["message_end", "entry_appended", "agent_settled"].includes(event.type);
        if (isNew && sessionId === app.current?.id) this.refresh();
      }),
    ];
  }

  /** Look again, once for all that happens meanwhile; nothing is asked while nobody looks. */
  refresh(): void {
    if (!this.#view.visible) return;
    this.#later ??= setTimeout(() => {
      this.#later = undefined;
      this.#changed.fire(undefined);
    }, 250);
  }

  async getChildren(item?: Item): Promise<Item[]> {
    if (item) return item.way ? itemsOf(item.way.strand).slice(1) : [];
    const session = this.#app.current;
    if (!session) return [];
    const nodes: TreeNode[] = [];
    let cursor: string | undefined;
    const wire = await this.#app.daemon.use();
    do {
      const params = { sessionId: session.id, limit: 1_000, ...(cursor !== undefined && { cursor }) };
      const page = await wire.call("session/tree", params);
      nodes.push(...page.nodes);
      this.#leafId = page.leafId;
      cursor = page.nextCursor;
    } while (cursor !== undefined && nodes.length < MOST_NODES);
    this.#active = pathTo(this.#leafId, nodes);
    const strands = strandsOf(telling(nodes, this.#leafId));
    const [only, ...more] = strands;
    return only && more.length === 0 ? itemsOf(only) : strands.flatMap(beginning);
  }

  getTreeItem({ node, way }: Item): vscode.TreeItem {
    const { Collapsed, Expanded, None } = vscode.TreeItemCollapsibleState;
    const isActive = this.#active.has(node.entryId);
    const item = new vscode.TreeItem(
      node.preview || node.type,
      way ? (isActive ? Expanded : Collapsed) : None,
    );
    const type = node.role ?? node.type;
    const kind = KINDS[type] ?? type.replaceAll("_", " ");
    const marks = [
      node.label && `“${node.label}”`,
      node.entryId === this.#leafId && "here",
      way && `branch ${way.number}`,
      kind,
    ];
    item.description = marks.filter(Boolean).join(" · ");
    item.tooltip = `${kind}, ${new Date(node.timestamp).toLocaleString()}\n${node.preview}`;
    item.iconPath = new vscode.ThemeIcon(way ? "git-branch" : iconOf(node), colour(isActive));
    item.contextValue = "entry";
    item.accessibilityInformation = { label: `${kind}: ${node.preview}. ${item.description}` };
    return item;
  }

  dispose(): void {
    clearTimeout(this.#later);
    for (const each of this.#listeners) each.dispose();
  }
}

function itemsOf({ nodes, ways }: Strand): Item[] {
  return [...nodes.map((node) => ({ node })), ...ways.flatMap(beginning)];
}

function beginning(strand: Strand, index: number): Item[] {
  const [node] = strand.nodes;
  return node ? [{ node, way: { strand, number: index + 1 } }] : [];
}

function pathTo(leafId: string | null, nodes: readonly TreeNode[]): Set<string> {
  const parents = new Map(nodes.map(({ entryId, parentId }) => [entryId, parentId]));
  const path = new Set<string>();
  for (
    let at: string | undefined = leafId ?? undefined;
    at !== undefined && !path.has(at);
    at = parents.get(at)
  ) {
    path.add(at);
  }
  return path;
}

function iconOf({ role, type }: TreeNode): string {
  const icons: Record<string, string> = {
    user: "account",
    assistant: "sparkle",
    toolResult: "tools",
    bashExecution: "terminal",
    compaction: "fold",
    branch_summary: "git-branch",
    model_change: "symbol-misc",
  };
  return icons[role ?? ""] ?? icons[type] ?? "circle-small";
}

function colour(isActive: boolean): vscode.ThemeColor | undefined {
  return isActive ? undefined : new vscode.ThemeColor("disabledForeground");
}
