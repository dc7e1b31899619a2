/** What goes with a message: how it is called, and how it is found again in a stored message. */
import type { Range } from "../generated/protocol";
import type { Attachment } from "../shared/messages";
import { baseName, count } from "./format";
import type { AttachmentLabel } from "./rows";

/** An attachment in a few words. */
export function labelOf(attachment: Attachment): AttachmentLabel {
  switch (attachment.type) {
    case "file":
      return onFile("file", attachment.uri, attachment.range, "");
    case "selection":
      return onFile("selection", attachment.uri, attachment.range, attachment.text);
    case "diagnostics": {
      const { uri, diagnostics } = attachment;
      const detail = diagnostics.map((one) => `line ${one.range.start.line + 1}: ${one.message}`).join("\n");
      const label = `${baseName(uri)}: ${count(diagnostics.length, "problem")}`;
      return { type: "diagnostics", label, detail, target: uri, line: diagnostics[0]?.range.start.line };
    }
    case "text":
      return { type: "text", label: attachment.name ?? "text", detail: attachment.text };
  }
}

function onFile(
  type: "file" | "selection",
  uri: string,
  range: Range | undefined,
  detail: string,
): AttachmentLabel {
  const label = range ? `${baseName(uri)}:${lines(range)}` : baseName(uri);
  return { type, label, detail: detail || uri, target: uri, line: range?.start.line };
}

function lines(range: Range): string {
  const first = range.start.line + 1;
  // A selection that ends before the first character of a line does not hold that line.
  const last = range.end.line + (range.end.character === 0 && range.end.line > range.start.line ? 0 : 1);
  return first === last ? String(first) : `${first}-${last}`;
}

/** How an attachment begins where it is stored, and what ends one that has a text. */
const HEAD = new RegExp(
  [
    String.raw`<attached-file path="(?<file>[^"\n]*)" />`,
    String.raw`<selection path="(?<selection>[^"\n]*)">\n`,
    String.raw`<diagnostics path="(?<diagnostics>[^"\n]*)">\n`,
    String.raw`<attached-text(?: name="(?<name>[^"\n]*)")?>\n`,
  ].join("|"),
  "y",
);

/** Sets the person's own words apart from the attachments that were written behind them. */
export function splitStored(stored: string): { text: string; attachments: AttachmentLabel[] } {
  const reader = new TailReader(stored);
  for (let start = firstCandidate(stored, 0); start >= 0; start = firstCandidate(stored, start + 1)) {
    const attachments = reader.read(start);
    if (attachments) return { text: stored.slice(0, start).replace(/\n\n$/, ""), attachments };
  }
  return { text: stored, attachments: [] };
}

function firstCandidate(stored: string, from: number): number {
  for (let at = stored.indexOf("<", from); at >= 0; at = stored.indexOf("<", at + 1)) {
    if (
      (at === 0 || stored.startsWith("\n\n", at - 2)) &&
      /^<(?:attached-|selection |diagnostics )/.test(stored.slice(at, at + 13))
    )
      return at;
  }
  return -1;
}

/** Reads attachments up to the end of a text; no part of it is looked at more often than a few times. */
class TailReader {
  /** Where nothing that goes on to the end begins. */
  private readonly dead = new Set<number>();
  /** The end that was looked for last, by its tag, and from where: in between there is none. */
  private readonly closes = new Map<string, { from: number; next: number }>();

  constructor(private readonly stored: string) {}

  read(start: number): AttachmentLabel[] | null {
    const found: AttachmentLabel[] = [];
    const seen: number[] = [];
    for (let at = start; at < this.stored.length; ) {
      seen.push(at);
      const one = this.dead.has(at) ? null : this.one(at);
      const goesOn = one && (one.end === this.stored.length || this.stored.startsWith("\n\n", one.end));
      if (!goesOn) {
        for (const place of seen) this.dead.add(place);
        return null;
      }
      found.push(storedLabel(one.groups));
      at = one.end + 2;
    }
    return found.length > 0 ? found : null;
  }

  private one(at: number): { groups: Record<string, string | undefined>; end: number } | null {
    HEAD.lastIndex = at;
    const head = HEAD.exec(this.stored);
    if (!head?.groups) return null;
    const { groups } = head;
    const from = HEAD.lastIndex;
    if (groups.file !== undefined) return { groups, end: from };
    const tag = `</${/^<([\w-]+)/.exec(head[0])?.[1]}>`;
    const close = this.nextClose(tag, from);
    if (close <= from || this.stored[close - 1] !== "\n") return null;
    const body = this.stored.slice(from, close - 1);
    const named =
      groups.selection !== undefined ? "selected" : groups.diagnostics !== undefined ? "told" : "text";
    return { groups: { ...groups, [named]: body }, end: close + tag.length };
  }

  private nextClose(tag: string, from: number): number {
    const known = this.closes.get(tag);
    if (known && known.from <= from && (known.next < 0 || from <= known.next)) return known.next;
    const next = this.stored.indexOf(tag, from);
    this.closes.set(tag, { from, next });
    return next;
  }
}

function storedLabel(groups: Record<string, string | undefined>): AttachmentLabel {
  if (groups.text !== undefined)
    return { type: "text", label: plain(groups.name ?? "text"), detail: groups.text };
  const type =
    groups.file !== undefined ? "file" : groups.selection !== undefined ? "selection" : "diagnostics";
  const path = plain(groups.file ?? groups.selection ?? groups.diagnostics ?? "");
  const place = type === "diagnostics" ? null : /^(.*):(\d+)(?:-\d+)?$/.exec(path);
  const target = place?.[1] ?? path;
  const line = place ? Number(place[2]) - 1 : undefined;
  const detail = groups.selected ?? groups.told ?? path;
  const label = type === "diagnostics" ? `${baseName(path)}: problems` : baseName(path);
  return { type, label, detail, target, line };
}

function plain(escaped: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', amp: "&", "#x27": "'", "#39": "'" };
  return escaped.replace(/&(lt|gt|quot|amp|#x27|#39);/g, (whole, name: string) => named[name] ?? whole);
}
