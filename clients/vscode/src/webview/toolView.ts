/** The card of a tool call: what it is, how it went, what it printed or changed. */

import { plainly } from "../shared/asked";
import { parseDiff } from "../view/diff";
import { duration, tokens } from "../view/format";
import { proposal } from "../view/proposal";
import type { ToolRow } from "../view/rows";
import { argsText, wasRejected } from "../view/tools";
import { copyButton } from "./code";
import { diffView } from "./diffView";
import { button, h, iconButton, link, setExpanded, show } from "./dom";
import type { Folds } from "./folds";
import type { Host } from "./host";
import { type IconName, icon, spinner } from "./icons";
import { imagesView } from "./images";
import { type LinesView, linesView } from "./linesView";
import type { RowView } from "./list";
import { permissionView } from "./permissionView";

const ICONS: Record<string, IconName> = { read: "read", edit: "edit", execute: "terminal" };
const FEW_LINES = 8;
const MANY_LINES = 30;
const FEW_DIFF_LINES = 16;
const MOST_ARGS = 1_000;

export function toolView(row: ToolRow, host: Host, folds: Folds): RowView {
  const mark = h("span", { class: "tool-mark" });
  const title = h("span", { class: "tool-title" });
  const meta = h("span", { class: "tool-meta" });
  const chevron = h("span", { class: "chevron" }, icon("chevron"));
  const toggle = h("button", { class: "tool-toggle", type: "button" }, mark, title, meta, chevron);
  const files = h("div", { class: "tool-files" });
  const asked = h("div", { class: "tool-asked" });
  const args = h("pre", { class: "tool-args" });
  const body = h("div", { class: "tool-body" }, args);
  const element = h(
    "div",
    { class: "tool-row" },
    h("div", { class: "tool-head" }, toggle, files),
    asked,
    body,
  );
  let lines: LinesView | null = null;
  let tools: RowView | null = null;
  let drawnPatch: string | undefined;
  let drawnAsked = "";
  let drawnImages = 0;

  toggle.addEventListener("click", () => {
    folds.set(row.key, !isOpen());
    update();
  });

  const waits = () => row.asked !== undefined && row.asked.outcome === undefined;
  const isOpen = () => folds.get(row.key) ?? (row.tool !== "read" || row.phase === "failed");

  const drawHead = () => {
    const busy = row.phase === "writing" || row.phase === "running" || row.phase === "waiting";
    const failed = row.phase === "failed";
    mark.replaceChildren(
      busy && !waits()
        ? spinner()
        : icon(waits() ? "shield" : failed ? "error" : (ICONS[row.tool] ?? "tool")),
    );
    title.textContent = plainly(row.title);
    title.classList.toggle("mono", row.tool === "execute");
    toggle.title = row.title;
    meta.textContent = metaOf(row, waits());
    element.className = `row tool-row ${row.phase} ${waits() ? "asks" : ""}`;
    element.setAttribute("aria-label", `${row.title}: ${wordOf(row, waits())}`);
    setExpanded(toggle, isOpen());
    const target = row.locations[0];
    const path = typeof row.args.path === "string" ? row.args.path : undefined;
    const range = target?.range ? { range: target.range } : {};
    const uri = target?.uri ?? (row.tool === "read" || row.tool === "edit" ? path : undefined);
    if (uri === undefined) files.replaceChildren();
    else if (files.dataset.uri !== uri) {
      files.dataset.uri = uri;
      files.replaceChildren(
        link("open", `Open ${path ?? uri}`, () => host.post({ type: "openFile", uri, ...range })),
      );
    }
  };

  const drawAsked = () => {
    const state = row.asked
      ? JSON.stringify([row.asked.request.requestId, row.asked.outcome, row.asked.review])
      : "";
    if (state === drawnAsked) return;
    drawnAsked = state;
    asked.replaceChildren(...(row.asked ? [permissionView(row.asked, host)] : []));
    // What would change is read before it is answered; what came of it stands above the output.
    if (waits()) element.append(asked);
    else element.insertBefore(asked, body);
  };

  // Of a tool that is not known, the title says little.
  const drawArgs = () => {
    const text = row.tool === "other" && !waits() ? argsText(row.args) : "";
    args.textContent = text.length > MOST_ARGS ? `${text.slice(0, MOST_ARGS)}…` : text;
    show(args, text !== "");
  };

  const drawOutput = () => {
    const wanted = !row.output.isEmpty && (row.patch === undefined || row.phase === "failed");
    if (!wanted) {
      lines?.element.remove();
      tools?.element.remove();
      lines = tools = null;
      return;
    }
    if (!lines) {
      lines = linesView(row.output, { label: "Output", most: FEW_LINES, follow: true });
      tools = outputTools(row, lines, host);
      body.append(lines.element, tools.element);
    } else lines.update();
    tools?.update();
  };

  const drawPatch = () => {
    const patch = row.patch ?? (row.phase === "done" ? undefined : proposalKey(row));
    if (patch === drawnPatch) return;
    drawnPatch = patch;
    body.querySelector(":scope > .diff")?.remove();
    const shown =
      row.patch === undefined ? proposal(row) : parseDiff(row.patch).flatMap((file) => file.lines);
    if (patch !== undefined && shown.length > 0)
      body.prepend(diffView(shown, FEW_DIFF_LINES, openDiff(row, host)));
  };

  const update = () => {
    drawHead();
    drawAsked();
    const open = isOpen();
    show(body, open);
    if (!open) return;
    drawArgs();
    drawPatch();
    drawOutput();
    if (row.images.length !== drawnImages) {
      drawnImages = row.images.length;
      body.querySelector(":scope > .images")?.remove();
      body.append(imagesView(row.images));
    }
  };
  update();
  return { element, update };
}

// What is proposed is told piece by piece: first the arguments, then, perhaps more than once, the request.
function proposalKey(row: ToolRow): string {
  return `proposal ${Object.keys(row.args).length} ${row.asked?.request.requestId ?? ""}`;
}

function openDiff(row: ToolRow, host: Host): (() => void) | undefined {
  const { patch } = row;
  const uri = row.locations[0]?.uri ?? (typeof row.args.path === "string" ? row.args.path : "");
  return patch === undefined
    ? undefined
    : () => host.post({ type: "openDiff", title: row.title, uri, diff: patch });
}

function outputTools(row: ToolRow, lines: LinesView, host: Host): RowView {
  const many = button("Show more", () => {
    const more = many.textContent === "Show more";
    lines.setMost(more ? MANY_LINES : FEW_LINES);
    many.textContent = more ? "Show less" : "Show more";
  });
  many.classList.add("quiet");
  const all = button("Load all", () => {
    if (row.truncatedEntryId !== undefined) host.post({ type: "loadEntry", entryId: row.truncatedEntryId });
  });
  all.classList.add("quiet");
  const open = iconButton(icon("newFile"), "Open the output in an editor", () => {
    if (row.fullOutputPath !== undefined) host.post({ type: "openFile", uri: row.fullOutputPath });
    else host.post({ type: "openText", text: row.output.text, language: "plaintext", title: row.title });
  });
  const copy = copyButton(() => row.output.text, host, "Copy the output");
  const element = h("div", { class: "output-tools" }, many, all, open, copy);
  const update = () => {
    show(many, row.output.shown > FEW_LINES);
    show(all, row.truncatedEntryId !== undefined);
  };
  update();
  return { element, update };
}

function metaOf(row: ToolRow, waits: boolean): string {
  if (waits) return "asks";
  const parts: string[] = [];
  // A long text is being written: that it grows is seen.
  if (row.phase === "writing" && row.argsText.length > 500)
    parts.push(`${tokens(row.argsText.length)} characters`);
  if (row.patch !== undefined) {
    const files = parseDiff(row.patch);
    const [added, removed] = files.reduce(([a, r], file) => [a + file.added, r + file.removed], [0, 0]);
    parts.push(`+${added} −${removed}`);
  }
  if (row.exitCode !== undefined && row.exitCode !== 0) parts.push(`exit ${row.exitCode}`);
  if (row.phase === "failed" && row.exitCode === undefined)
    parts.push(wasRejected(row) ? "rejected" : "failed");
  if (row.phase === "stopped") parts.push("stopped");
  if (row.durationMs !== undefined && row.durationMs >= 1_000) parts.push(duration(row.durationMs));
  return parts.join(" · ");
}

function wordOf(row: ToolRow, waits: boolean): string {
  if (waits) return "asks for permission";
  return row.phase === "failed" && wasRejected(row) ? "rejected" : row.phase;
}
