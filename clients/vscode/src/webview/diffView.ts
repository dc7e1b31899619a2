/** Lines of a diff, with their numbers. */
import type { DiffLine } from "../view/diff";
import { button, h } from "./dom";

const SIGNS = { same: " ", added: "+", removed: "-", hunk: "⋯", note: "" } as const;
/** Lines that are drawn when all are asked for; the rest is for a real diff editor. */
const MOST = 400;

/** The first `few` lines, and the others when they are asked for. */
export function diffView(lines: DiffLine[], few: number, openWhole?: () => void): HTMLElement {
  const body = h("div", { class: "diff-lines" });
  const element = h("div", { class: "diff", tabindex: "0", role: "group", "aria-label": "Changes" }, body);
  body.append(...lines.slice(0, few).map(lineOf));
  if (lines.length > few) {
    const more = button(`Show all ${lines.length} lines`, () => {
      if (lines.length > MOST && openWhole) openWhole();
      else {
        body.append(...lines.slice(few, MOST).map(lineOf));
        more.remove();
      }
    });
    more.classList.add("quiet", "more");
    element.append(more);
  }
  return element;
}

function lineOf(line: DiffLine): HTMLElement {
  const number = line.kind === "removed" ? line.old : line.new;
  return h(
    "div",
    { class: `diff-line ${line.kind}` },
    h("span", { class: "diff-number", "aria-hidden": "true" }, number === undefined ? "" : String(number)),
    h("span", { class: "diff-sign" }, SIGNS[line.kind]),
    h("span", { class: "diff-text" }, line.kind === "hunk" ? "" : line.text),
  );
}
