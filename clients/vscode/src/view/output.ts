/**
 * Output of a command as lines, added to as it comes.
 *
 * Lines longer than `LONGEST_LINE` are shown cut; `text` has all. What is kept is bounded: the beginning goes first.
 */

/** Characters of a line that are shown. */
export const LONGEST_LINE = 2_000;
/** Characters that are kept. */
export const MOST_KEPT = 1_000_000;

export class Output {
  /** Complete and last, perhaps unfinished, lines; the last is empty after a line feed. */
  readonly lines: string[] = [];
  /** Characters that were left out before the first line, by us or (in bytes) by the daemon. */
  omitted = 0;
  private kept = 0;
  private last = "";

  static of(text: string): Output {
    const output = new Output();
    output.append(text);
    return output;
  }

  get isEmpty(): boolean {
    return this.kept === 0;
  }

  /** All that is kept, as it came. */
  get text(): string {
    return this.isEmpty ? "" : [...this.lines.slice(0, -1), this.last].join("\n");
  }

  /** Lines to show: without the empty one after a last line feed. */
  get shown(): number {
    return this.last === "" ? Math.max(0, this.lines.length - 1) : this.lines.length;
  }

  append(text: string): void {
    if (text === "") return;
    const parts = text.split("\n");
    this.last += parts[0];
    if (this.lines.length === 0) this.lines.push("");
    this.lines[this.lines.length - 1] = this.last;
    for (let i = 1; i < parts.length; i++) {
      this.last = parts[i] ?? "";
      this.lines.push(this.last);
    }
    this.kept += text.length;
    if (this.kept > MOST_KEPT * 1.25) this.drop();
  }

  replace(text: string): void {
    this.lines.length = 0;
    this.kept = 0;
    this.last = "";
    this.append(text);
  }

  /** One line as it is shown. */
  line(index: number): string {
    const line = this.lines[index] ?? "";
    return line.length > LONGEST_LINE
      ? `${line.slice(0, LONGEST_LINE)} … ${line.length - LONGEST_LINE} more`
      : line;
  }

  private drop(): void {
    let first = 0;
    while (this.kept > MOST_KEPT && first < this.lines.length - 1) {
      const length = (this.lines[first] ?? "").length + 1;
      this.kept -= length;
      this.omitted += length;
      first++;
    }
    this.lines.splice(0, first);
  }
}
