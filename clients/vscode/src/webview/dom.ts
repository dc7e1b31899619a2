/** Makes elements. Text is only ever set as text: nothing here, or in this folder, takes HTML. */

export type Child = Node | string | null | undefined | false;

interface Props {
  class?: string;
  on?: { [E in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[E]) => void };
  [attribute: string]: unknown;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value as Record<string, EventListener>)) {
        element.addEventListener(type, listener);
      }
    } else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false)
      element.setAttribute(name, String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** A button with an icon, named for those who do not see it. */
export function iconButton(icon: Node, label: string, act: () => void, extra = ""): HTMLButtonElement {
  const props = { class: `icon-button ${extra}`.trim(), type: "button", title: label, "aria-label": label };
  return h("button", { ...props, on: { click: act } }, icon);
}

/** A button with words on it. */
export function button(label: string, act: () => void, extra = ""): HTMLButtonElement {
  return h("button", { class: `button ${extra}`.trim(), type: "button", on: { click: act } }, label);
}

/** Something to follow that is no address of the page: the host decides. */
export function link(text: Child, title: string, act: () => void, extra = ""): HTMLElement {
  const open = (event: Event) => {
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const keydown = (event: KeyboardEvent) => event.key === "Enter" && open(event);
  const props = { class: `link ${extra}`.trim(), role: "link", tabindex: "0", title };
  return h("a", { ...props, on: { click: open, keydown } }, text);
}

/** Shows or hides without taking it out. */
export function show(element: HTMLElement, shown: boolean): void {
  element.hidden = !shown;
}

/** A button that folds something; tells its state to screen readers. */
export function setExpanded(toggle: HTMLElement, expanded: boolean): void {
  toggle.setAttribute("aria-expanded", String(expanded));
}
