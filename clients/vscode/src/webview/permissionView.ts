/** A permission request inside of its tool's card: what would happen, what can be answered, what is remembered. */
import type { PermissionChoice } from "../generated/protocol";
import { commandOf, plainly } from "../shared/asked";
import { count } from "../view/format";
import type { Asked } from "../view/rows";
import { argsText, isRecord } from "../view/tools";
import { button, h, show } from "./dom";
import type { Host } from "./host";
import { icon } from "./icons";

const ENDINGS: Record<string, string> = {
  aborted: "No longer needed",
  timed_out: "Not answered in time: refused",
  answered: "Answered",
};

export function permissionView(asked: Asked, host: Host): HTMLElement {
  const { request, outcome } = asked;
  if (outcome) {
    const text = outcome.answer ?? ENDINGS[outcome.reason] ?? outcome.reason;
    return h("div", { class: "asked-outcome" }, icon("shield"), text);
  }
  const element = h("div", { class: "asked", role: "group", "aria-label": `Permission: ${request.title}` });
  const answer = (optionId: string, feedback?: string) => {
    for (const one of element.querySelectorAll("button")) one.disabled = true;
    host.post({ type: "answer", requestId: request.requestId, optionId, ...(feedback ? { feedback } : {}) });
  };
  if (request.reason) element.append(h("p", { class: "asked-reason" }, plainly(request.reason)));
  const whole = wholeOf(request);
  if (whole !== null) element.append(h("pre", { class: "asked-command", tabindex: "0" }, plainly(whole)));
  element.append(choices(asked, host, answer), remembered(request.options, answer));
  return element;
}

// All of what is asked about: the title is a line and may be cut. Edits are shown as the changes that they are.
function wholeOf({ kind, args, edits }: Asked["request"]): string | null {
  const command = commandOf(args);
  if (command !== null) return command;
  if (kind === "edit" && edits && edits.length > 0) return null;
  return isRecord(args) && Object.keys(args).length > 0 ? argsText(args) : null;
}

function choices(asked: Asked, host: Host, answer: (id: string, feedback?: string) => void): HTMLElement {
  const { request, review } = asked;
  const of = (kind: PermissionChoice["kind"]) => request.options.find((option) => option.kind === kind);
  const row = h("div", { class: "asked-buttons" });
  const [allow, reject] = [of("allow_once"), of("reject_once")];
  if (allow) row.append(button(allowLabel(allow.name, review), () => answer(allow.id), "primary"));
  if (request.edits && request.edits.length > 0) {
    row.append(button("Review", () => host.post({ type: "openReview", requestId: request.requestId })));
  }
  if (!reject) return row;
  const word = h("input", {
    class: "asked-word",
    type: "text",
    "aria-label": "What to do instead",
    placeholder: "What to do instead",
  });
  const send = () => word.value.trim() !== "" && answer(reject.id, word.value.trim());
  const line = h("div", { class: "asked-feedback" }, word, button("Reject and tell", send));
  word.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) send();
    else if (event.key === "Escape") {
      event.stopPropagation();
      show(line, false);
    }
  });
  show(line, false);
  const openLine = () => {
    show(line, true);
    word.focus();
  };
  row.append(
    button(reject.name, () => answer(reject.id)),
    button("Reject with a word…", openLine, "quiet"),
    line,
  );
  return row;
}

function allowLabel(name: string, review: Asked["review"]): string {
  if (!review) return name;
  if (review.rejected > 0)
    return `${name} ${review.hunks - review.rejected} of ${count(review.hunks, "change")}`;
  return review.edited ? `${name} as edited` : name;
}

// Answers that hold for longer, each with its rule in words.
function remembered(options: PermissionChoice[], answer: (id: string) => void): HTMLElement {
  const kinds = ["allow_session", "allow_always", "reject_always"];
  const lasting = options.filter((option) => kinds.includes(option.kind));
  const list = h("div", { class: "asked-lasting" });
  for (const option of lasting) {
    const rule = option.rule === undefined ? [] : [": ", ...inCode(plainly(option.rule))];
    const act = () => answer(option.id);
    list.append(
      h("button", { type: "button", class: "asked-choice", on: { click: act } }, option.name, ...rule),
    );
  }
  return list;
}

function inCode(text: string): (string | HTMLElement)[] {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? h("code", {}, part) : part));
}
