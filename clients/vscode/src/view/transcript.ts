/**
 * The rows of a session in their order: stored messages, and what is added to them.
 *
 * Finds rows by message and by tool call, and brings results that stand alone to their calls. Knows no events.
 */
import type { CheckpointSummary, Message, SessionMessagesResult } from "../generated/protocol";
import { changesOfCheckpoint, isUndone } from "./changes";
import { type Group, groupOf, isTruncated } from "./groups";
import type { NoteRow, Row, ToolRow } from "./rows";
import { describeCall, newToolRow, stopCall, storedResult } from "./tools";

export class Transcript {
  /** Grows when rows come, go or move. */
  order = 0;
  private groups: Group[] = [];
  private flat: Row[] | null = null;
  private readonly calls = new Map<string, ToolRow>();
  private readonly alone = new Set<string>();
  private readonly byMessage = new Map<string, Group>();
  private checkpoints: CheckpointSummary[] = [];
  private cwd = "";
  private made = 0;
  /** What stays behind all that is added, until it is known where it belongs. */
  last: Group | null = null;

  /** All rows, the oldest first. */
  rows(): readonly Row[] {
    this.flat ??= this.groups.flatMap((group) => group.rows);
    return this.flat;
  }

  /** What runs changed is known anew: some of it may have been taken back. The newest first. */
  setCheckpoints(checkpoints: CheckpointSummary[]): void {
    this.checkpoints = checkpoints;
    for (const row of this.rows()) {
      if (row.kind !== "changes") continue;
      const known = checkpoints.find(({ checkpointId }) => checkpointId === row.checkpointId);
      if (!known || isUndone(known, checkpoints) === row.undone) continue;
      row.undone = !row.undone;
      row.version++;
    }
  }

  /** Begins anew. */
  load(page: SessionMessagesResult | null, checkpoints: CheckpointSummary[] = [], cwd = ""): void {
    this.calls.clear();
    this.alone.clear();
    this.byMessage.clear();
    this.checkpoints = checkpoints;
    this.cwd = cwd;
    this.last = null;
    this.groups = [];
    if (page) this.groups = this.groupsOf(page);
    this.reordered();
  }

  /** Puts a page of older messages before the rest. */
  older(page: SessionMessagesResult): void {
    const older = this.groupsOf(page);
    this.groups = [...older, ...this.groups];
    this.reordered();
  }

  /** Takes a whole message in place of one that had been cut. */
  whole(entryId: string, message: Message): void {
    if (message.role === "toolResult") {
      const row = this.calls.get(message.toolCallId);
      if (!row) return;
      row.truncatedEntryId = undefined;
      storedResult(row, message);
      return;
    }
    const index = this.groups.findIndex((group) => group.entryId === entryId);
    const before = this.groups[index];
    if (!before) return;
    const group = this.stored(message, entryId);
    const version = Math.max(0, ...before.rows.map((row) => row.version)) + 1;
    for (const row of group.rows) row.version += version;
    this.groups[index] = group;
    this.reordered();
  }

  find(messageId: string): Group | undefined {
    return this.byMessage.get(messageId);
  }

  /** Has `find` find it. */
  track<G extends Group>(group: G): G {
    if (group.messageId !== undefined) this.byMessage.set(group.messageId, group);
    return group;
  }

  add(group: Group): void {
    const end = this.last === null ? -1 : this.groups.indexOf(this.last);
    this.groups.splice(end < 0 ? this.groups.length : end, 0, group);
    this.reordered();
  }

  /** Puts a group in the place of another, or takes that one out; at the end, if the other is not there. */
  replace(before: Group | undefined, group: Group | null): void {
    const index = before ? this.groups.indexOf(before) : -1;
    if (index < 0) {
      if (group) this.add(group);
      return;
    }
    this.groups.splice(index, 1, ...(group ? [group] : []));
    this.reordered();
  }

  groupAt(row: Row): Group | undefined {
    return this.groups.findLast((group) => group.rows[0] === row);
  }

  /** A tool call's row, if there is one. */
  call(toolCallId: string): ToolRow | undefined {
    return this.calls.get(toolCallId);
  }

  /** A tool call's row; one that is not known yet comes to stand at the end. */
  callAtEnd(toolCallId: string, name: string): ToolRow {
    const known = this.calls.get(toolCallId);
    if (known) return known;
    const row = this.newCall(toolCallId, name);
    this.alone.add(toolCallId);
    this.add({ rows: [row] });
    return row;
  }

  /** A tool call's row, for the message that makes the call. */
  readonly callOfMessage = (toolCallId: string, name: string): ToolRow => {
    const row = this.calls.get(toolCallId);
    if (!row) return this.newCall(toolCallId, name);
    // It was known before its message, for instance by a result on a younger page: the row moves to the message.
    if (this.alone.delete(toolCallId)) this.groups = this.groups.filter((group) => group.rows[0] !== row);
    return row;
  };

  stopCalls(): void {
    for (const row of this.calls.values()) stopCall(row);
  }

  /** Nothing more is added to what was being written. */
  close(): void {
    this.stopCalls();
    for (const row of this.rows()) {
      if ((row.kind !== "text" && row.kind !== "thinking") || !row.open) continue;
      row.open = false;
      row.version++;
    }
  }

  /** A name for a row that no message names. */
  newKey(): string {
    return `n:${++this.made}`;
  }

  note(severity: NoteRow["severity"], text: string, detail?: string): NoteRow {
    return { kind: "note", key: this.newKey(), version: 0, severity, text, detail, canContinue: false };
  }

  /** Rows came or went inside of a group. */
  reordered(): void {
    this.flat = null;
    this.order++;
  }

  private newCall(toolCallId: string, name: string): ToolRow {
    const row = newToolRow(toolCallId, name);
    this.calls.set(toolCallId, row);
    return row;
  }

  private groupsOf(page: SessionMessagesResult): Group[] {
    const groups: Group[] = [];
    const changes = new Map(
      this.checkpoints.map((one) => [one.entryId, changesOfCheckpoint(one, this.checkpoints, this.cwd)]),
    );
    let pending: Row | null = null;
    page.messages.forEach((message, index) => {
      const entryId = page.entryIds[index] ?? "";
      if (message.role === "user") {
        // What a run changed stands at its end: before the next message of the person.
        if (pending && changes.has(entryId)) groups.push({ rows: [pending] });
        pending = changes.get(entryId) ?? pending;
      }
      const group = this.stored(message, entryId);
      if (group.rows.length > 0) groups.push(group);
    });
    if (pending) groups.push({ rows: [pending] });
    for (const call of page.calls ?? []) {
      const row = this.calls.get(call.toolCallId);
      if (row) describeCall(row, call);
    }
    return groups;
  }

  private stored(message: Message, entryId: string): Group {
    if (message.role === "toolResult") {
      const known = this.calls.get(message.toolCallId);
      const row = known ?? this.newCall(message.toolCallId, message.toolName);
      storedResult(row, message);
      if (isTruncated(message)) row.truncatedEntryId = entryId;
      if (!known) this.alone.add(message.toolCallId);
      return { rows: known ? [] : [row], entryId };
    }
    const group = this.track(groupOf(message, entryId, this.callOfMessage));
    group.entryId = entryId;
    for (const row of group.rows) if (row.kind === "user") row.entryId = entryId;
    if (isTruncated(message))
      group.rows.push({ ...this.note("info", "This is not all of it."), cutEntryId: entryId });
    return group;
  }
}
