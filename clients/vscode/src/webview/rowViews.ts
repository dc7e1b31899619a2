/** How each kind of row is drawn, and how high it may turn out. */
import { baseName, count, tokens } from "../view/format";
import type {
  BashRow,
  ChangesRow,
  CustomRow,
  NoteRow,
  Row,
  SummaryRow,
  ThinkingRow,
  UserRow,
} from "../view/rows";
import { attachmentChip } from "./chips";
import { copyButton } from "./code";
import { button, h, iconButton, link, setExpanded, show } from "./dom";
import type { Folds } from "./folds";
import type { Host } from "./host";
import { icon, spinner } from "./icons";
import { imagesView } from "./images";
import { linesView } from "./linesView";
import type { RowMaker, RowView } from "./list";
import { renderMarkdown } from "./markdown";
import { textView } from "./textView";
import { toolView } from "./toolView";

const SHORT_TEXT = 1_200;
const SHORT_LINES = 14;

export interface RowContext {
  host: Host;
  folds: Folds;
  /** Thinking is shown unfolded. */
  expandThinking: boolean;
  readOnly: () => boolean;
}

export function rowMaker(context: RowContext): RowMaker {
  return { make: (row) => make(row, context), estimate };
}

function make(row: Row, context: RowContext): RowView {
  switch (row.kind) {
    case "user":
      return userView(row, context);
    case "text":
      return textView(row, context.host);
    case "thinking":
      return thinkingView(row, context);
    case "tool":
      return toolView(row, context.host, context.folds);
    case "bash":
      return bashView(row, context.host);
    case "custom":
      return customView(row, context.host);
    case "summary":
      return summaryView(row, context);
    case "note":
      return noteView(row, context.host);
    case "changes":
      return changesView(row, context);
  }
}

function estimate(row: Row, width: number): number {
  const perLine = Math.max(20, (width - 32) / 7);
  const lines = (text: string) =>
    Math.ceil(text.length / perLine) + (text.length < 4_000 ? text.split("\n").length - 1 : 40);
  switch (row.kind) {
    case "text":
      return 16 + 20 * lines(row.text);
    case "user":
      return 44 + 18 * Math.min(SHORT_LINES, lines(row.text));
    case "tool":
      return 40 + 18 * (row.tool === "read" ? 0 : Math.min(8, row.output.shown));
    case "bash":
      return 60 + 18 * Math.min(12, row.output.shown);
    case "changes":
      return 64 + 22 * row.files.length;
    default:
      return 34;
  }
}

function userView(row: UserRow, { host, folds, readOnly }: RowContext): RowView {
  const text = h("div", { class: "user-text" });
  const more = button("Show more", () => {
    folds.set(row.key, folds.get(row.key) !== true);
    update();
  });
  more.classList.add("quiet");
  const chips = h("div", { class: "chips" });
  const images = h("div");
  const actions = h("div", { class: "row-actions" });
  const bubble = h("div", { class: "bubble" }, images, text, more, chips);
  const element = h("div", { class: "user-row", "aria-label": "You" }, bubble, actions);
  const update = () => {
    const long = row.text.length > SHORT_TEXT || row.text.split("\n", SHORT_LINES + 1).length > SHORT_LINES;
    const open = !long || folds.get(row.key) === true;
    text.textContent = open
      ? row.text
      : `${row.text.split("\n").slice(0, SHORT_LINES).join("\n").slice(0, SHORT_TEXT)}…`;
    more.textContent = open ? "Show less" : "Show more";
    show(more, long);
    show(text, row.text !== "");
    chips.replaceChildren(...row.attachments.map((one) => attachmentChip(one, host)));
    images.replaceChildren(...(row.images.length > 0 ? [imagesView(row.images)] : []));
    element.classList.toggle("sending", row.entryId === undefined && row.handled !== true);
    actions.replaceChildren(copyButton(() => row.text, host, "Copy the message"));
    const { entryId } = row;
    if (entryId === undefined || readOnly()) return;
    const branch = () => host.post({ type: "branch", entryId });
    const fork = () => host.post({ type: "fork", entryId });
    actions.prepend(
      iconButton(icon("edit"), "Go back to here and say it differently", branch),
      iconButton(icon("fork"), "Fork a new session from here", fork),
    );
  };
  update();
  return { element, update };
}

// A line that unfolds.
function folded(
  head: HTMLElement,
  body: HTMLElement,
  isOpen: () => boolean,
  act: () => void,
): HTMLButtonElement {
  const toggle = h("button", { class: "fold-toggle", type: "button" }, icon("chevron"), head);
  toggle.addEventListener("click", act);
  setExpanded(toggle, isOpen());
  show(body, isOpen());
  return toggle;
}

function thinkingView(row: ThinkingRow, { host, folds, expandThinking }: RowContext): RowView {
  const name = h("span", { class: "fold-name" });
  const body = h("div", { class: "thinking-text markdown" });
  const isOpen = () => folds.get(row.key) ?? expandThinking;
  const toggle = folded(name, body, isOpen, () => {
    folds.set(row.key, !isOpen());
    update();
  });
  const element = h("div", { class: "thinking-row", "aria-label": "Thinking" }, toggle, body);
  let drawn = "";
  const update = () => {
    name.textContent = row.open
      ? "Thinking…"
      : row.redacted
        ? "Thought (withheld by the provider)"
        : "Thought";
    element.classList.toggle("open", row.open);
    setExpanded(toggle, isOpen());
    show(body, isOpen() && row.text !== "");
    toggle.disabled = row.text === "";
    if (!isOpen() || drawn === row.text) return;
    drawn = row.text;
    // While it grows it is plain text; parsing all of it at every frame would be wasted.
    if (row.open) body.textContent = row.text;
    else renderMarkdown(body, row.text, host);
  };
  update();
  return { element, update };
}

function bashView(row: BashRow, host: Host): RowView {
  const mark = h("span", { class: "tool-mark" });
  const meta = h("span", { class: "tool-meta" });
  const title = h(
    "span",
    { class: "tool-title mono" },
    `${row.excludeFromContext ? "!!" : "!"} ${row.command}`,
  );
  const stop = button(
    "Stop",
    () => row.token !== undefined && host.post({ type: "cancelBash", token: row.token }),
  );
  const head = h("div", { class: "tool-head static", title: row.command }, mark, title, meta, stop);
  const lines = linesView(row.output, { label: "Output", most: 12, follow: true });
  const element = h(
    "div",
    { class: "tool-row bash-row" },
    head,
    h("div", { class: "tool-body" }, lines.element),
  );
  const update = () => {
    const failed = row.error !== undefined || (row.exitCode ?? 0) !== 0;
    mark.replaceChildren(row.running ? spinner() : icon(failed ? "error" : "terminal"));
    const parts = [row.excludeFromContext ? "not told to the model" : ""];
    if (row.cancelled) parts.push("stopped");
    else if ((row.exitCode ?? 0) !== 0) parts.push(`exit ${row.exitCode}`);
    meta.textContent = parts.filter(Boolean).join(" · ");
    if (row.error !== undefined && row.output.isEmpty) row.output.append(row.error);
    element.className = `row tool-row bash-row ${failed ? "failed" : ""}`;
    element.setAttribute("aria-label", `Your command: ${row.command}`);
    show(stop, row.running);
    show(lines.element, !row.output.isEmpty);
    lines.update();
  };
  update();
  return { element, update };
}

function customView(row: CustomRow, host: Host): RowView {
  const body = h("div", { class: "markdown" });
  const name = h("div", { class: "custom-name" }, row.customType);
  const element = h("div", { class: "custom-row", "aria-label": row.customType }, name, body);
  const update = () => {
    renderMarkdown(body, row.text, host);
    if (row.images.length > 0) body.append(imagesView(row.images));
  };
  update();
  return { element, update };
}

function summaryView(row: SummaryRow, { host, folds }: RowContext): RowView {
  const body = h("div", { class: "markdown summary-text" });
  const isOpen = () => folds.get(row.key) === true;
  const name = h("span", { class: "fold-name" });
  const toggle = folded(name, body, isOpen, () => {
    folds.set(row.key, !isOpen());
    update();
  });
  const element = h("div", { class: "summary-row" }, toggle, body);
  const update = () => {
    const was = row.tokensBefore === undefined ? "" : ` · ${tokens(row.tokensBefore)} tokens`;
    const is = row.tokensAfter === undefined ? "" : ` → ${tokens(row.tokensAfter)}`;
    name.textContent =
      row.of === "compaction" ? `Conversation compacted${was}${is}` : "Summary of the branch that was left";
    setExpanded(toggle, isOpen());
    show(body, isOpen());
    if (isOpen() && body.childNodes.length === 0) renderMarkdown(body, row.text, host);
  };
  update();
  return { element, update };
}

function noteView(row: NoteRow, host: Host): RowView {
  const text = h("div", { class: "note-text" });
  const mark = h("span", { class: "note-mark" });
  const again = button("Continue", () => host.post({ type: "continue" }));
  const { cutEntryId } = row;
  const whole = button("Load all", () => cutEntryId && host.post({ type: "loadEntry", entryId: cutEntryId }));
  show(whole, cutEntryId !== undefined);
  const element = h("div", { class: "note-row" }, mark, text, again, whole);
  const update = () => {
    mark.replaceChildren(row.severity === "busy" ? spinner() : icon(row.severity));
    text.replaceChildren(row.text, ...(row.detail ? [h("div", { class: "note-detail" }, row.detail)] : []));
    element.className = `row note-row ${row.severity}`;
    show(again, row.canContinue);
  };
  update();
  return { element, update };
}

function changesView(row: ChangesRow, { host, readOnly }: RowContext): RowView {
  const act = (action: "diff" | "restore") => () =>
    host.post({ type: "checkpoint", action, checkpointId: row.checkpointId });
  const undo = button("Undo", act("restore"));
  undo.title = "Put these files back as they were before the run";
  const name = `${count(row.files.length, "file")} changed`;
  const head = h(
    "div",
    { class: "changes-head" },
    icon("diff"),
    h("span", { class: "spring" }, name),
    button("View changes", act("diff")),
  );
  const undone = h("span", { class: "note-detail", role: "status" });
  head.append(undone, undo);
  const list = h("div", { class: "changes-files" });
  for (const file of row.files.slice(0, 8)) {
    const open = () => host.post({ type: "openFile", uri: file.uri ?? file.path });
    const path =
      file.kind === "deleted" ? h("s", {}, file.path) : link(shortPath(file.path), `Open ${file.path}`, open);
    const sums = [
      file.added ? h("span", { class: "sum added" }, `+${file.added}`) : null,
      file.removed ? h("span", { class: "sum removed" }, `−${file.removed}`) : null,
    ];
    list.append(
      h(
        "div",
        { class: "changes-file" },
        path,
        ...sums,
        file.kind === "created" ? h("span", { class: "sum" }, "new") : null,
      ),
    );
  }
  if (row.files.length > 8)
    list.append(h("div", { class: "changes-file" }, `and ${row.files.length - 8} more`));
  if (row.partial)
    list.append(
      h("div", { class: "note-detail" }, "There is more that is not shown here, or cannot be taken back."),
    );
  const element = h("div", { class: "changes-row", "aria-label": name }, head, list);
  const update = () => {
    undone.textContent = row.undone ? "Undone" : "";
    show(undo, !row.undone && !readOnly());
  };
  update();
  return { element, update };
}

function shortPath(path: string): string {
  return path.length > 60 ? `…/${baseName(path)}` : path;
}
