/**
 * Edits that a permission request proposes, in VS Code's own diff editor: the proposed side can be changed, hunks
 * can be taken out, and what stands there when it is accepted is what will be written.
 *
 * Owns the texts of open reviews. The file itself is written by the daemon, never from here.
 */
import { basename } from "node:path";

import vscode = require("vscode");

import type { PermissionEdit, PermissionRequestParams, ReviewedText } from "../generated/protocol";
import { type Hunk, hunksOf, linesOf, showsAsProposed, withLineEnds, without } from "../shared/hunks";
import { allows, optionOf, type Permissions } from "./permissions";
import { EDIT_SCHEME, type Texts } from "./texts";
import { line } from "./words";

/** How much of what was proposed still stands. */
export interface ReviewState {
  requestId: string;
  sessionId: string | undefined;
  /** Hunks that were proposed. */
  hunks: number;
  /** Those of them that were taken out. */
  rejected: number;
  /** Something else than what was proposed stands there. */
  edited: boolean;
}

interface Side {
  edit: PermissionEdit;
  before: vscode.Uri;
  proposed: vscode.Uri;
}

/** All reviews that are open. */
export class Reviews implements vscode.Disposable {
  readonly #permissions: Permissions;
  readonly #texts: Texts;
  readonly #open = new Map<string, Side[]>();
  readonly #changed = new vscode.EventEmitter<ReviewState>();
  readonly #listeners: vscode.Disposable[];
  /** Something changed in a review. */
  readonly onChange = this.#changed.event;

  constructor(permissions: Permissions, texts: Texts) {
    this.#permissions = permissions;
    this.#texts = texts;
    this.#listeners = [
      permissions.onSettle(({ request }) => void this.#close(request.requestId)),
      vscode.workspace.onDidChangeTextDocument(({ document }) => this.#edited(document.uri)),
    ];
  }

  /** Show the edits of a request, each beside what the file holds. */
  async show(requestId: string, options: { preserveFocus: boolean }): Promise<void> {
    const request = this.#permissions.get(requestId);
    if (!request?.edits?.length) return;
    const sides = this.#open.get(requestId) ?? request.edits.map((edit) => this.#side(edit));
    this.#open.set(requestId, sides);
    for (const { edit, before, proposed } of sides) {
      const name = basename(vscode.Uri.parse(edit.uri).fsPath);
      await vscode.commands.executeCommand("vscode.diff", before, proposed, `${name} (proposed by pi)`, {
        preview: false,
        preserveFocus: options.preserveFocus,
        viewColumn: editorColumn(),
      });
      // Meanwhile it may be over.
      if (this.#open.get(requestId) !== sides) {
        await this.#texts.discard(proposed);
        return;
      }
    }
    this.#tell(request, sides);
  }

  /** Answer a request with what its review makes of it. Without an open review it is as was proposed. */
  answer(requestId: string, optionId: string | undefined, feedback?: string): boolean {
    const request = this.#permissions.get(requestId);
    if (!request) return false;
    const choice = request.options.find(({ id }) => id === optionId);
    const sides = this.#open.get(requestId) ?? [];
    if (choice && allows(choice) && sides.length > 0) {
      if (sides.every((side) => this.#isAsBefore(side))) {
        // Nothing is left of it: that is a rejection, and the model should read it as one.
        return this.#permissions.answer(requestId, optionOf(request, "reject_once")?.id);
      }
      return this.#permissions.answer(requestId, choice.id, { edits: this.#reviewed(sides) });
    }
    return this.#permissions.answer(requestId, choice?.id, feedback ? { feedback } : {});
  }

  /** Accept or reject the review in the active editor, or the only one there is. */
  async decide(accept: boolean, uri?: vscode.Uri): Promise<void> {
    const requestId = this.#requestOf(uri);
    const request = requestId === undefined ? undefined : this.#permissions.get(requestId);
    if (!request) {
      await vscode.window.showInformationMessage("No edit of pi waits for a review here.");
      return;
    }
    const option = optionOf(request, accept ? "allow_once" : "reject_once");
    if (option) this.answer(request.requestId, option.id);
  }

  /** Take out the hunk at the cursor. */
  async rejectHunk(uri?: vscode.Uri): Promise<void> {
    const side = this.#sideOf(uri);
    const line = vscode.window.activeTextEditor?.selection.active.line;
    if (!side || line === undefined) return;
    const hunk = this.#hunks(side).find(
      ({ newStart, newEnd }) => line >= newStart && line < Math.max(newEnd, newStart + 1),
    );
    if (hunk) await this.#take(side, [hunk]);
    else await vscode.window.showInformationMessage("The cursor is not in a change.");
  }

  /** Have the person choose which hunks stay. */
  async chooseHunks(uri?: vscode.Uri): Promise<void> {
    const side = this.#sideOf(uri);
    if (!side) return;
    const now = lines(this.#texts.content(side.proposed));
    const old = lines(side.edit.oldText ?? "");
    const items = this.#hunks(side).map((hunk) => ({ ...described(hunk, old, now), hunk, picked: true }));
    const kept = await vscode.window.showQuickPick(items, {
      canPickMany: true,
      title: "Changes to keep",
      placeHolder: "Take the mark from a change to reject it",
      matchOnDetail: true,
    });
    if (!kept) return;
    const rejected = items.filter((item) => !kept.includes(item)).map(({ hunk }) => hunk);
    if (rejected.length > 0) await this.#take(side, rejected);
  }

  dispose(): void {
    for (const each of this.#listeners) each.dispose();
    this.#changed.dispose();
  }

  #side(edit: PermissionEdit): Side {
    // As a notebook it would be shown by its cells, whose texts nobody would ask for.
    const path = vscode.Uri.parse(edit.uri).path.replace(/\.ipynb$/, "$&.json");
    return {
      edit,
      before: this.#texts.readable(path, edit.oldText ?? ""),
      proposed: this.#texts.editable(path, edit.newText),
    };
  }

  #reviewed(sides: Side[]): ReviewedText[] {
    return sides
      .map(({ edit, proposed }) => ({ edit, shown: this.#texts.content(proposed) }))
      .filter(({ edit, shown }) => !showsAsProposed(shown, edit.newText))
      .map(({ edit, shown }) => ({ uri: edit.uri, newText: withLineEnds(shown, edit.newText) }));
  }

  #isAsBefore({ edit, proposed }: Side): boolean {
    return edit.oldText !== undefined && showsAsProposed(this.#texts.content(proposed), edit.oldText);
  }

  #hunks({ edit, proposed }: Side): Hunk[] {
    return hunksOf(lines(edit.oldText ?? ""), lines(this.#texts.content(proposed)));
  }

  async #take(side: Side, rejected: Hunk[]): Promise<void> {
    const document = await vscode.workspace.openTextDocument(side.proposed);
    const old = lines(side.edit.oldText ?? "");
    const change = new vscode.WorkspaceEdit();
    const all = new vscode.Range(0, 0, document.lineCount, 0);
    change.replace(side.proposed, all, without(old, lines(document.getText()), rejected));
    await vscode.workspace.applyEdit(change);
  }

  #edited(uri: vscode.Uri): void {
    if (uri.scheme !== EDIT_SCHEME) return;
    const requestId = this.#requestOf(uri);
    const request = requestId === undefined ? undefined : this.#permissions.get(requestId);
    if (request) this.#tell(request, this.#open.get(request.requestId) ?? []);
  }

  #tell(request: PermissionRequestParams, sides: Side[]): void {
    const state: ReviewState = {
      requestId: request.requestId,
      sessionId: request.sessionId,
      hunks: 0,
      rejected: 0,
      edited: false,
    };
    for (const side of sides) {
      const part = standing(side.edit, this.#texts.content(side.proposed));
      state.hunks += part.hunks;
      state.rejected += part.rejected;
      state.edited ||= part.edited;
    }
    this.#changed.fire(state);
  }

  #requestOf(uri: vscode.Uri | undefined): string | undefined {
    const wanted = (uri ?? vscode.window.activeTextEditor?.document.uri)?.toString();
    for (const [requestId, sides] of this.#open) {
      if (
        sides.some(({ proposed, before }) => [proposed, before].some((each) => each.toString() === wanted))
      ) {
        return requestId;
      }
    }
    const [only, ...more] = this.#open.keys();
    return more.length === 0 ? only : undefined;
  }

  #sideOf(uri: vscode.Uri | undefined): Side | undefined {
    const sides = this.#open.get(this.#requestOf(uri) ?? "") ?? [];
    const wanted = (uri ?? vscode.window.activeTextEditor?.document.uri)?.toString();
    return sides.find(({ proposed }) => proposed.toString() === wanted) ?? sides[0];
  }

  async #close(requestId: string): Promise<void> {
    const sides = this.#open.get(requestId) ?? [];
    this.#open.delete(requestId);
    for (const { proposed } of sides) await this.#texts.discard(proposed);
  }
}

/** How much of an edit still stands in what an editor shows. */
export function standing(
  edit: Pick<PermissionEdit, "oldText" | "newText">,
  shown: string,
): { hunks: number; rejected: number; edited: boolean } {
  const old = lines(edit.oldText ?? "");
  const [proposed, now] = [lines(edit.newText), lines(shown)];
  const offered = hunksOf(old, proposed);
  const current = hunksOf(old, now);
  const key = (hunk: Hunk, from: string[]) =>
    JSON.stringify([hunk.oldStart, hunk.oldEnd, from.slice(hunk.newStart, hunk.newEnd)]);
  const wanted = new Set(offered.map((hunk) => key(hunk, proposed)));
  const touched = (hunk: Hunk) =>
    current.some(({ oldStart, oldEnd }) => oldStart <= hunk.oldEnd && hunk.oldStart <= oldEnd);
  return {
    hunks: offered.length,
    rejected: offered.filter((hunk) => !touched(hunk)).length,
    edited: current.some((hunk) => !wanted.has(key(hunk, now))),
  };
}

/** Lines as they compare, whatever the file ends them with. */
function lines(text: string): string[] {
  return linesOf(text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n"));
}

function described(hunk: Hunk, old: string[], now: string[]): { label: string; detail: string } {
  const [taken, added] = [old.slice(hunk.oldStart, hunk.oldEnd), now.slice(hunk.newStart, hunk.newEnd)];
  const text = [...taken.map((each) => `− ${each.trim()}`), ...added.map((each) => `+ ${each.trim()}`)];
  return {
    label: `Line ${hunk.newStart + 1}: +${added.length} −${taken.length}`,
    detail: line(text.join("  "), 300),
  };
}

/** Not over a chat that stands in an editor tab. */
function editorColumn(): vscode.ViewColumn {
  const active = vscode.window.tabGroups.activeTabGroup;
  return active.activeTab?.input instanceof vscode.TabInputWebview
    ? vscode.ViewColumn.Beside
    : active.viewColumn;
}
