/** What a call that has not run yet would change, in the lines of a diff. */
import { hunksOf } from "../shared/hunks";
import type { DiffLine } from "./diff";
import type { ToolRow } from "./rows";
import { isRecord } from "./tools";

/** Lines that are the same around a change. */
const CONTEXT = 2;

export function proposal(row: ToolRow): DiffLine[] {
  if (row.tool !== "edit") return [];
  const edits = row.asked?.request.edits;
  if (edits && edits.length > 0) return edits.flatMap((edit) => between(edit.oldText ?? "", edit.newText));
  if (Array.isArray(row.args.edits)) {
    return row.args.edits.flatMap((edit: unknown, index) => {
      if (!isRecord(edit) || typeof edit.oldText !== "string" || typeof edit.newText !== "string") return [];
      const lines = between(edit.oldText, edit.newText, false);
      return index === 0 ? lines : [{ kind: "hunk" as const, text: "" }, ...lines];
    });
  }
  return typeof row.args.content === "string" ? between("", row.args.content) : [];
}

/** The lines in which two texts differ, with a little around them. */
export function between(before: string, after: string, numbered = true): DiffLine[] {
  const [old, next] = [linesOf(before), linesOf(after)];
  const lines: DiffLine[] = [];
  const put = (kind: DiffLine["kind"], text: string | undefined, oldAt?: number, newAt?: number) => {
    const line: DiffLine = { kind, text: text ?? "" };
    if (numbered && oldAt !== undefined) line.old = oldAt + 1;
    if (numbered && newAt !== undefined) line.new = newAt + 1;
    lines.push(line);
  };
  const hunks = hunksOf(old, next);
  hunks.forEach(({ oldStart, oldEnd, newStart, newEnd }, index) => {
    const [previous, following] = [hunks[index - 1], hunks[index + 1]];
    const told = previous ? Math.min(previous.oldEnd + CONTEXT, oldStart) : 0;
    const from = Math.max(told, oldStart - CONTEXT);
    if (previous && from > told) put("hunk", "");
    for (let at = from; at < oldStart; at++) put("same", old[at], at, at - oldStart + newStart);
    for (let at = oldStart; at < oldEnd; at++) put("removed", old[at], at);
    for (let at = newStart; at < newEnd; at++) put("added", next[at], undefined, at);
    const end = Math.min(oldEnd + CONTEXT, following?.oldStart ?? old.length);
    for (let at = oldEnd; at < end; at++) put("same", old[at], at, at - oldEnd + newEnd);
  });
  return lines;
}

function linesOf(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}
