/** A block of code: its language, what can be done with it, and the code. */
import { Output } from "../view/output";
import { h, iconButton } from "./dom";
import { highlight } from "./highlight";
import type { Host } from "./host";
import { icon } from "./icons";
import { linesView } from "./linesView";

/** Code of more lines is a box that scrolls by itself. */
const MOST_LINES = 300;

export interface CodeBlock {
  readonly element: HTMLElement;
  /** Takes the code as it is now; `open`: more comes. */
  set(code: string, info: string, open: boolean): void;
}

export function codeBlock(code: string, info: string, open: boolean, host: Host): CodeBlock {
  const name = h("span", { class: "code-language" });
  const text = document.createTextNode("");
  const shown = h("code", {}, text);
  const pre = h("pre", { class: "code-text", tabindex: "0" }, shown);
  let body: HTMLElement = pre;
  let current = "";
  let language = "";
  let lines: ReturnType<typeof linesView> | null = null;

  const copy = copyButton(() => current, host);
  const apply = iconButton(icon("apply"), "Insert into the active editor", () =>
    host.post({ type: "apply", code: current, language }),
  );
  const create = iconButton(icon("newFile"), "Open as a new file", () =>
    host.post({ type: "apply", code: current, language, newFile: true }),
  );
  const head = h("div", { class: "code-head" }, name, h("span", { class: "actions" }, copy, apply, create));
  const element = h("div", { class: "code-block" }, head, body);

  const draw = (next: string) => {
    if (lines) lines.output.replace(next);
    else if (countLines(next) > MOST_LINES) {
      lines = linesView(Output.of(next), { label: "Code", most: 24 });
      body.replaceWith(lines.element);
      body = lines.element;
    } else if (next.startsWith(text.data)) text.appendData(next.slice(text.data.length));
    else text.data = next;
    lines?.update();
  };

  const set = (next: string, nextInfo: string, stillOpen: boolean) => {
    language = /^[\w+#.-]+/.exec(nextInfo.trim())?.[0]?.toLowerCase() ?? "";
    name.textContent = language;
    current = next;
    if (shown.firstChild !== text) shown.replaceChildren(text);
    draw(next);
    if (!stillOpen && !lines) highlight(shown, next, language);
  };
  set(code, info, open);
  return { element, set };
}

/** A button that copies and says so for a moment. */
export function copyButton(text: () => string, host: Host, label = "Copy"): HTMLButtonElement {
  const made = iconButton(icon("copy"), label, () => {
    host.post({ type: "copy", text: text() });
    made.replaceChildren(icon("check"));
    made.setAttribute("aria-label", "Copied");
    setTimeout(() => {
      made.replaceChildren(icon("copy"));
      made.setAttribute("aria-label", label);
    }, 1_200);
  });
  return made;
}

function countLines(text: string): number {
  let count = 1;
  for (let at = text.indexOf("\n"); at >= 0 && count <= MOST_LINES; at = text.indexOf("\n", at + 1)) count++;
  return count;
}
