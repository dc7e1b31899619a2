/** A page without a browser, for what is drawn. What draws looks for it when it draws. */
import assert from "node:assert/strict";
import { Window } from "happy-dom";
import { isOfPage } from "../../../src/host/pageMessages";
import type { WebviewMessage } from "../../../src/shared/messages";
import type { Host, Kept } from "../../../src/webview/host";

const window = new Window({ url: "https://page.invalid/" });

/** How often a frame was asked for. */
export const frames = { count: 0 };

Object.assign(globalThis, {
  window,
  document: window.document,
  HTMLElement: window.HTMLElement,
  Node: window.Node,
  requestAnimationFrame(act: () => void) {
    frames.count++;
    return setTimeout(act, 0);
  },
  getComputedStyle: window.getComputedStyle.bind(window),
  ResizeObserver: class {
    observe() {}
    unobserve() {}
  },
});

/** A host that notes what it is told. */
export class NotedHost implements Host {
  readonly posted: WebviewMessage[] = [];
  kept: Kept = {};

  post(message: WebviewMessage): void {
    assert.ok(isOfPage(structuredClone(message)), `the host takes ${JSON.stringify(message)}`);
    this.posted.push(message);
  }

  read(): Kept {
    return this.kept;
  }

  keep(more: Partial<Kept>): void {
    this.kept = { ...this.kept, ...more };
  }
}

/** Presses a key on an element; false: what it would do was prevented. */
export function press(element: HTMLElement, key: string, more: KeyboardEventInit = {}): boolean {
  const event = new window.KeyboardEvent("keydown", {
    key,
    bubbles: true,
    cancelable: true,
    ...(more as object),
  });
  return element.dispatchEvent(event as unknown as Event);
}

/** Writes into a box, as a person does. */
export function type(input: HTMLTextAreaElement | HTMLInputElement, text: string): void {
  input.value = text;
  input.setSelectionRange(text.length, text.length);
  input.dispatchEvent(new window.Event("input", { bubbles: true }) as unknown as Event);
}

/** Sends an event with fields of its own. */
export function send(element: HTMLElement, name: string, fields: object): void {
  const event = new window.Event(name, { bubbles: true, cancelable: true });
  element.dispatchEvent(Object.assign(event, fields) as unknown as Event);
}

/** What has to be drawn is drawn after this. */
export function drawn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0)).then(() => undefined);
}

/** The button with these words on it, or this name. */
export function find(root: ParentNode, name: string): HTMLButtonElement {
  const all = [...root.querySelectorAll("button")];
  const found = all.find((one) => one.textContent === name || one.getAttribute("aria-label") === name);
  if (!found) throw new Error(`no button ${name}: ${all.map((one) => one.textContent).join(", ")}`);
  return found as HTMLButtonElement;
}
