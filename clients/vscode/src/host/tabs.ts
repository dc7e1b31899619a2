/**
 * Which sessions the editor tabs of a window show, so that tabs that come back after a reload show them again.
 *
 * VS Code keeps what a tab's page remembers only every few seconds; what is stored here it keeps at once. A tab that
 * comes back without a memory is one of the last that were opened.
 */
import type { Memento } from "vscode";

const KEY = "pi.tabs";
const MOST = 20;

/** The sessions of the tabs of a window, and of the one before it. */
export class Tabs {
  readonly #memory: Pick<Memento, "get" | "update">;
  readonly #shown = new Map<object, string>();
  /** Of the window before, whose tabs did not come back yet: VS Code brings a hidden one when it is looked at. */
  #awaited: string[];

  constructor(memory: Pick<Memento, "get" | "update">) {
    this.#memory = memory;
    this.#awaited = [...memory.get<string[]>(KEY, [])];
  }

  /** A tab comes back: the session it showed. `named`: as its page remembers it. */
  back(named: string | undefined): string | undefined {
    const at = named === undefined ? this.#awaited.length - 1 : this.#awaited.lastIndexOf(named);
    const [found] = at < 0 ? [] : this.#awaited.splice(at, 1);
    return named ?? found;
  }

  /** A tab shows a session. */
  shows(tab: object, sessionId: string): void {
    if (this.#shown.get(tab) === sessionId) return;
    // Behind the others: the last one is the one that a page is most likely to have forgotten.
    this.#shown.delete(tab);
    this.#shown.set(tab, sessionId);
    this.#store();
  }

  /** A tab was closed. */
  closed(tab: object): void {
    if (this.#shown.delete(tab)) this.#store();
  }

  #store(): void {
    void this.#memory.update(KEY, [...this.#awaited, ...this.#shown.values()].slice(-MOST));
  }
}
