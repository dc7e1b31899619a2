/** What stands between the conversation and the prompt box: notices, what waits, what goes on. */
import type { QueueItem } from "../generated/protocol";
import type { Banner } from "../shared/messages";
import type { Conversation } from "../view/conversation";
import { button, h, iconButton, show } from "./dom";
import type { Host } from "./host";
import { icon, spinner } from "./icons";

/** The notices that hold: the host's, and those that follow from the session's state. */
export function drawBanners(
  into: HTMLElement,
  banners: Banner[],
  conversation: Conversation,
  host: Host,
): void {
  const all = [...banners];
  if (conversation.readOnly && !banners.some((one) => one.id === "readOnly")) {
    const text = "Another window or program writes this session. It is shown read-only.";
    all.push({ id: "readOnly", severity: "info", text, actions: [] });
  }
  if (conversation.state?.interrupted === true && !conversation.running && !conversation.readOnly) {
    const actions = [{ id: "continue", label: "Continue" }];
    all.push({
      id: "interrupted",
      severity: "warning",
      text: "This session was interrupted in the middle of a run.",
      actions,
    });
  }
  if (isDrawn(into, all)) return;
  into.replaceChildren(...all.map((banner) => bannerView(banner, host)));
}

// What stands there already is left alone: it may have the focus, and an alert would be read out once more.
function isDrawn(into: HTMLElement, shown: unknown): boolean {
  const drawn = JSON.stringify(shown);
  if (into.dataset.drawn === drawn) return true;
  into.dataset.drawn = drawn;
  return false;
}

function bannerView(banner: Banner, host: Host): HTMLElement {
  const act = (action: string) => {
    if (banner.id === "interrupted") host.post({ type: "continue" });
    else host.post({ type: "banner", id: banner.id, action });
  };
  const buttons = banner.actions.map(({ id, label }, index) =>
    button(label, () => act(id), index === 0 ? "primary" : ""),
  );
  const role = banner.severity === "error" ? "alert" : "status";
  const props = { class: `banner ${banner.severity}`, role };
  const text = h("span", { class: "banner-text" }, banner.text);
  return h("div", props, icon(banner.severity), text, h("div", { class: "banner-actions" }, ...buttons));
}

/** Messages that wait to be delivered. */
export function drawQueue(into: HTMLElement, items: QueueItem[], readOnly: boolean, host: Host): void {
  show(into, items.length > 0);
  const seen = items.map(({ id, text, images }) => [id, text, images?.length ?? 0]);
  if (isDrawn(into, [readOnly, seen])) return;
  into.replaceChildren(...items.map((item) => queueItem(item, readOnly, host)));
}

function queueItem(item: QueueItem, readOnly: boolean, host: Host): HTMLElement {
  const kind = item.kind === "steer" ? "steers" : "follows up";
  const text = item.text || (item.images?.length ? "image" : "attachment");
  const element = h(
    "div",
    { class: "queue-item" },
    h("span", { class: "queue-kind" }, kind),
    h("span", { class: "queue-text", title: text }, text),
  );
  if (readOnly) return element;
  const take = (edit: boolean) => () => host.post({ type: "dequeue", itemId: item.id, edit });
  element.append(
    iconButton(icon("edit"), "Take back to edit", take(true), "small"),
    iconButton(icon("close"), "Remove from the queue", take(false), "small"),
  );
  return element;
}

/** A request that waits where it is not seen. */
export function drawWaiting(into: HTMLElement, title: string | null, reveal: () => void): void {
  show(into, title !== null);
  if (isDrawn(into, title)) return;
  const text = h("span", { class: "banner-text" }, `pi asks: ${title}`);
  into.replaceChildren(icon("shield"), text, button("Show", reveal, "primary"));
}

/** What goes on, in a few words; empty: nothing. */
export function activityOf(conversation: Conversation): string {
  if (!conversation.running) return "";
  const phase = conversation.state?.phase;
  if (phase === "compaction") return "Compacting the conversation…";
  if (phase === "branch_summary") return "Summarising the branch…";
  if (phase === "retry") return "Waiting to try again…";
  if (conversation.waiting().length > 0) return "Waiting for your answer";
  const last = conversation.rows().at(-1);
  if (last?.kind === "tool" && last.phase === "running") return `Running ${last.name}…`;
  if (last?.kind === "tool" && last.phase === "writing") return `Preparing ${last.name}…`;
  if (last?.kind === "thinking" && last.open) return "Thinking…";
  if (last?.kind === "text" && last.open) return "Writing…";
  return "Working…";
}

export function activityView(): { element: HTMLElement; set(text: string): void } {
  const text = h("span", {});
  const element = h(
    "div",
    { class: "activity" },
    spinner(),
    text,
    h("span", { class: "activity-hint" }, "Esc stops"),
  );
  const set = (next: string) => {
    show(element, next !== "");
    if (text.textContent !== next) text.textContent = next;
  };
  set("");
  return { element, set };
}
