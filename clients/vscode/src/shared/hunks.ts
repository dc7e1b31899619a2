/**
 * What differs between two texts, by lines, and how to take a part of it back. Pure.
 *
 * Line ends: an editor shows a document with one kind of line end and without a byte order mark. What a person
 * left as it was proposed keeps the ends that it was proposed with.
 */

/** Lines `[oldStart, oldEnd)` of one text stand where `[newStart, newEnd)` stand in the other. Zero-based. */
export interface Hunk {
  oldStart: number;
  oldEnd: number;
  newStart: number;
  newEnd: number;
}

/** Differences of more lines than this are one hunk: finding the least of them would take too long. */
const MOST_EDITS = 2_000;

/** The lines of a text, each with its end. */
export function linesOf(text: string): string[] {
  return text.match(/[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$/g) ?? [];
}

/** The hunks between two lists of lines, in order. */
export function hunksOf(old: readonly string[], now: readonly string[]): Hunk[] {
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let tail = 0;
  while (
    tail < old.length - start &&
    tail < now.length - start &&
    old[old.length - 1 - tail] === now[now.length - 1 - tail]
  ) {
    tail++;
  }
  const inner = differences(old.slice(start, old.length - tail), now.slice(start, now.length - tail));
  return inner.map((hunk) => ({
    oldStart: hunk.oldStart + start,
    oldEnd: hunk.oldEnd + start,
    newStart: hunk.newStart + start,
    newEnd: hunk.newEnd + start,
  }));
}

/** The new text without some of the hunks: their old lines in place. */
export function without(old: readonly string[], now: readonly string[], rejected: readonly Hunk[]): string {
  const lines: string[] = [];
  let at = 0;
  for (const hunk of [...rejected].sort((a, b) => a.newStart - b.newStart)) {
    lines.push(...now.slice(at, hunk.newStart), ...old.slice(hunk.oldStart, hunk.oldEnd));
    at = hunk.newEnd;
  }
  lines.push(...now.slice(at));
  return lines.join("");
}

/**
 * The text to write for what an editor shows, `shown`, of the text `proposed`: the same line ends and mark where
 * nothing was changed; changed lines end as the first line of what was proposed does.
 */
export function withLineEnds(shown: string, proposed: string): string {
  const mark = proposed.startsWith("\ufeff") && !shown.startsWith("\ufeff") ? "\ufeff" : "";
  const wanted = linesOf(mark ? proposed.slice(1) : proposed);
  const lines = linesOf(shown);
  const usual = wanted.map(endOf).find((end) => end !== "") ?? "\n";
  const result: string[] = [];
  let at = 0;
  const kept = (until: number, from: number) => {
    for (let i = at; i < until; i++) result.push(wanted[from + i - at] ?? "");
  };
  let source = 0;
  for (const hunk of hunksOf(wanted.map(bare), lines.map(bare))) {
    kept(hunk.newStart, source);
    for (const line of lines.slice(hunk.newStart, hunk.newEnd)) {
      result.push(content(line) + (endOf(line) === "" ? "" : usual));
    }
    at = hunk.newEnd;
    source = hunk.oldEnd;
  }
  kept(lines.length, source);
  return mark + result.join("");
}

/** Whether an editor that shows `shown` shows `proposed` unchanged. */
export function showsAsProposed(shown: string, proposed: string): boolean {
  return withLineEnds(shown, proposed) === proposed;
}

function endOf(line: string): string {
  return /(?:\r\n|\r|\n)$/.exec(line)?.[0] ?? "";
}

function content(line: string): string {
  return line.slice(0, line.length - endOf(line).length);
}

/** A line as it compares whatever ends it; that it ends at all counts. */
function bare(line: string): string {
  return content(line) + (endOf(line) === "" ? "" : "\n");
}

/** Myers' greedy algorithm; both lists begin and end differently. */
function differences(old: readonly string[], now: readonly string[]): Hunk[] {
  if (old.length === 0 && now.length === 0) return [];
  const whole = [{ oldStart: 0, oldEnd: old.length, newStart: 0, newEnd: now.length }];
  if (old.length === 0 || now.length === 0) return whole;
  const most = Math.min(old.length + now.length, MOST_EDITS);
  const reached = new Int32Array(2 * most + 3);
  const rounds: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    rounds.push(reached.slice(most + 1 - edits - 1, most + 1 + edits + 2));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const at = most + 1 + diagonal;
      const down =
        diagonal === -edits || (diagonal !== edits && (reached[at - 1] ?? 0) < (reached[at + 1] ?? 0));
      let x = down ? (reached[at + 1] ?? 0) : (reached[at - 1] ?? 0) + 1;
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x++;
      reached[at] = x;
      if (x >= old.length && x - diagonal >= now.length) return traced(rounds, old.length, now.length);
    }
  }
  return whole;
}

/** The way back through the rounds, with steps side by side made one hunk. */
function traced(rounds: Int32Array[], oldLength: number, newLength: number): Hunk[] {
  const hunks: Hunk[] = [];
  let [x, y] = [oldLength, newLength];
  for (let edits = rounds.length - 1; edits > 0; edits--) {
    const before = rounds[edits] as Int32Array;
    const value = (diagonal: number) => before[diagonal + edits + 1] ?? 0;
    const diagonal = x - y;
    const down = diagonal === -edits || (diagonal !== edits && value(diagonal - 1) < value(diagonal + 1));
    const previous = down ? diagonal + 1 : diagonal - 1;
    const fromX = value(previous);
    const fromY = fromX - previous;
    const [toX, toY] = down ? [fromX, fromY + 1] : [fromX + 1, fromY];
    const next = hunks[0];
    if (next && next.oldStart === toX && next.newStart === toY) {
      next.oldStart = fromX;
      next.newStart = fromY;
    } else {
      hunks.unshift({ oldStart: fromX, oldEnd: toX, newStart: fromY, newEnd: toY });
    }
    [x, y] = [fromX, fromY];
  }
  return hunks;
}
