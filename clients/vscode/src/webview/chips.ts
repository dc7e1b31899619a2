/** Attachments as chips. */
import type { AttachmentLabel } from "../view/rows";
import { h, iconButton } from "./dom";
import type { Host } from "./host";
import { type IconName, icon } from "./icons";

const ICONS: Record<AttachmentLabel["type"], IconName> = {
  file: "file",
  selection: "selection",
  diagnostics: "warning",
  text: "summary",
};

/** A chip that opens what it stands for; with `remove` it can be taken off. */
export function attachmentChip(label: AttachmentLabel, host: Host, remove?: () => void): HTMLElement {
  const { target, line = 0 } = label;
  const place = { line, character: 0 };
  const open = () =>
    target !== undefined && host.post({ type: "openFile", uri: target, range: { start: place, end: place } });
  const props = { class: "chip-label", type: "button", title: label.detail.slice(0, 2_000) };
  const name = h(
    "button",
    { ...props, on: { click: open } },
    icon(ICONS[label.type]),
    h("span", {}, label.label),
  );
  const chip = h("span", { class: "chip" }, name);
  if (remove) chip.append(iconButton(icon("close"), `Remove ${label.label}`, remove, "small"));
  return chip;
}
