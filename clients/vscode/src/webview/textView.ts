/** A piece of a reply. Fenced code that is being written grows in place; other pieces are parsed anew. */
import type { TextRow } from "../view/rows";
import { type CodeBlock, codeBlock, copyButton } from "./code";
import { h } from "./dom";
import type { Host } from "./host";
import type { RowView } from "./list";
import { renderMarkdown } from "./markdown";

/** A block of this length is no prose. It is shown as it is: to parse it might take seconds, and again with each delta. */
export const MOST_PARSED = 30_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)\n?/;

export function textView(row: TextRow, host: Host): RowView {
  const body = h("div", { class: "markdown" });
  const actions = h("div", { class: "row-actions" });
  const element = h("div", { class: "text-row", "aria-label": row.first ? "pi" : "pi, continued" }, body);
  let drawn: string | null = null;
  let code: CodeBlock | null = null;

  const update = () => {
    if (row.text !== drawn) {
      const fence = fenceOf(row.text);
      if (fence && code) code.set(fence.code, fence.info, row.open);
      else if (fence) {
        code = codeBlock(fence.code, fence.info, row.open, host);
        body.replaceChildren(code.element);
      } else {
        code = null;
        if (row.text.length > MOST_PARSED) body.replaceChildren(h("div", { class: "unparsed" }, row.text));
        else renderMarkdown(body, row.text, host);
      }
      drawn = row.text;
    } else if (code && !row.open) {
      const fence = fenceOf(row.text);
      if (fence) code.set(fence.code, fence.info, false);
    }
    element.classList.toggle("first", row.first);
    element.classList.toggle("open", row.open);
    const { whole } = row;
    if (whole && !row.open && !actions.isConnected) {
      actions.replaceChildren(copyButton(() => row.whole?.() ?? row.text, host, "Copy the reply"));
      element.append(actions);
    }
  };
  update();
  return { element, update };
}

/** A piece that is one block of fenced code, closed or not; null: it is something else. */
export function fenceOf(text: string): { code: string; info: string } | null {
  const start = FENCE.exec(text);
  if (!start?.[1]) return null;
  const rest = text.slice(start[0].length);
  const closing = new RegExp(`(?:^|\\n) {0,3}${start[1].charAt(0)}{${start[1].length},}[ \\t]*(?=\\n|$)`);
  const end = closing.exec(rest);
  if (!end) return { code: rest.replace(/\n$/, ""), info: start[2] ?? "" };
  // What follows the fence makes it an ordinary piece.
  if (rest.slice(end.index + end[0].length).trim() !== "") return null;
  return { code: rest.slice(0, end.index), info: start[2] ?? "" };
}
