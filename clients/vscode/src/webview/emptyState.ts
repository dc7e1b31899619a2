/** What a chat without a message shows. */
import type { SessionSummary } from "../generated/protocol";
import { ago } from "../view/format";
import { h } from "./dom";
import type { Host } from "./host";

const HINTS: [string, string][] = [
  ["@", "mention a file"],
  ["/", "use a command or skill"],
  ["!", "run a shell command"],
  ["+", "attach the selection or problems"],
];

export function emptyState(recent: SessionSummary[], host: Host, now: number): HTMLElement {
  const hints = HINTS.map(([key, text]) => h("div", { class: "hint" }, h("kbd", {}, key), text));
  const element = h(
    "div",
    { class: "empty" },
    h("div", { class: "empty-mark", "aria-hidden": "true" }, "π"),
    h("h2", {}, "What should pi do?"),
    h(
      "p",
      {},
      "It reads, edits and runs things in this workspace. It asks before it changes anything, unless you tell it otherwise.",
    ),
    h("div", { class: "hints" }, ...hints),
  );
  const stored = recent.filter((one) => one.messageCount > 0).slice(0, 6);
  if (stored.length === 0) return element;
  const list = stored.map((session) => {
    const open = () => host.post({ type: "openRecent", sessionId: session.sessionId });
    const name = h("span", { class: "recent-name" }, session.name ?? (session.firstMessage || "Untitled"));
    const when = h("span", { class: "recent-when" }, ago(session.modified, now));
    return h("button", { class: "recent", type: "button", on: { click: open } }, name, when);
  });
  element.append(h("div", { class: "recents" }, h("h3", {}, "Recent sessions"), ...list));
  return element;
}
