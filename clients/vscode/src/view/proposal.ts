/** What a call that has not run yet would change, in the lines of a diff. */
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

/** The lines in which two texts differ, as one change with a little around it. */
export function between(before: string, after: string, numbered = true): DiffLine[] {
  const [old, next] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < old.length && start < next.length && old[start] === next[start]) start++;
  let end = 0;
  while (end < old.length - start && end < next.length - start && old.at(-1 - end) === next.at(-1 - end))
    end++;
  const lines: DiffLine[] = [];
  const from = Math.max(0, start - CONTEXT);
  const number = (line: number) => (numbered ? line + 1 : undefined);
  const put = (kind: DiffLine["kind"], text: string | undefined, oldAt?: number, newAt?: number) => {
    const line: DiffLine = { kind, text: text ?? "" };
    if (oldAt !== undefined) line.old = oldAt;
    if (newAt !== undefined) line.new = newAt;
    lines.push(line);
  };
  for (let at = from; at < start; at++) put("same", old[at], number(at), number(at));
  for (let at = start; at < old.length - end; at++) put("removed", old[at], number(at));
  for (let at = start; at < next.length - end; at++) put("added", next[at], undefined, number(at));
  for (let at = next.length - end; at < Math.min(next.length, next.length - end + CONTEXT); at++) {
    put("same", next[at], undefined, number(at));
  }
  return lines;
}

function linesOf(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}
