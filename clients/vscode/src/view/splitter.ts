/**
 * Cuts Markdown that is still being written into pieces that stand for themselves.
 *
 * A piece ends where an empty line is followed by a block that begins at the margin. Fenced code is a piece of its
 * own. Lists stay whole as long as they can. Small pieces are joined up to `ENOUGH` characters, so a long reply becomes some dozens of
 * rows. Text that was cut off once is never looked at again: each character is scanned once.
 */

/** A piece of this size is not joined with the next. */
export const ENOUGH = 1_500;

/** A list of this size is cut between two of its items. */
export const TOO_MUCH = 8_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)$/;
const LIST = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;

// The beginning of a line decides whether a piece ends before it; of these it cannot be told yet.
const UNDECIDED = /^\s*(?:`{0,2}|~{0,2}|[-*+]|\d{1,9}[.)]?)$/;

export class Splitter {
  /** Finished pieces and, last, the open one. Joined they are the text. */
  readonly pieces: string[] = [""];
  private line = "";
  private fence: { mark: string; length: number } | null = null;
  private sawEmpty = false;
  private inList = false;

  /** Adds text; tells the first piece that changed. */
  append(text: string): number {
    const first = this.pieces.length - 1;
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      this.line += text.slice(from, end);
      this.endLine();
      from = end + 1;
    }
    this.line += text.slice(from);
    this.openLine(text.slice(from));
    return first;
  }

  /** No more will come: adds what was held back. */
  finish(): void {
    if (this.line === "" || this.drawn > 0) return;
    this.beginLine();
    this.add(this.line);
    this.drawn = this.line.length;
  }

  /** All of the text that has been added to a piece. */
  get text(): string {
    return this.pieces.join("");
  }

  // What of the unfinished line is in the open piece already; the rest is added when the line ends.
  private drawn = 0;

  private openLine(added: string): void {
    if (added === "") return;
    if (this.drawn === 0) {
      if (!this.fence && UNDECIDED.test(this.line)) return;
      this.beginLine();
    }
    this.add(this.line.slice(this.drawn));
    this.drawn = this.line.length;
  }

  private endLine(): void {
    const line = this.line;
    if (this.drawn === 0) this.beginLine();
    this.add(`${line.slice(this.drawn)}\n`);
    this.line = "";
    this.drawn = 0;
    if (this.fence) this.closeFence(line);
    else if (!this.openFence(line)) this.sawEmpty = line.trim() === "";
  }

  private beginLine(): void {
    if (this.fence || this.line.trim() === "") return;
    const atMargin = !/^(?: {2,}|\t)/.test(this.line);
    const isItem = LIST.test(this.line);
    const isFence = /^ {0,3}(`{3}|~{3})/.test(this.line);
    const open = this.pieces[this.pieces.length - 1] ?? "";
    const ownPiece = isFence && atMargin && !this.inList;
    const newBlock = this.sawEmpty && !(this.inList && isItem) && open.length >= ENOUGH;
    if (atMargin && (ownPiece || newBlock || (isItem && open.length >= TOO_MUCH))) this.cut();
    if (this.sawEmpty || open === "" || isItem) this.inList = isItem || (this.inList && !atMargin);
  }

  private openFence(line: string): boolean {
    const found = FENCE.exec(line);
    if (!found?.[1] || (found[1].startsWith("`") && found[2]?.includes("`"))) return false;
    this.fence = { mark: found[1].charAt(0), length: found[1].length };
    return true;
  }

  private closeFence(line: string): void {
    const found = FENCE.exec(line);
    const fence = this.fence;
    if (!fence || !found?.[1] || found[2]?.trim() !== "") return;
    if (found[1].charAt(0) !== fence.mark || found[1].length < fence.length) return;
    this.fence = null;
    this.sawEmpty = true;
    if (!this.inList) this.cut();
  }

  private cut(): void {
    if (this.pieces[this.pieces.length - 1] !== "") this.pieces.push("");
  }

  private add(text: string): void {
    this.pieces[this.pieces.length - 1] += text;
  }
}
