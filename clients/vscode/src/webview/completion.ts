/** The list of files or commands above the prompt box. */
import { type Child, h, show } from "./dom";

export interface Choice {
  /** What is put into the text. */
  value: string;
  label: string;
  detail: string;
  icon: Node;
  /** More may be written behind it at once: a directory. */
  more: boolean;
}

export class CompletionList {
  readonly element: HTMLElement;
  private choices: Choice[] = [];
  private at = 0;
  private typed = "";

  constructor(
    private readonly input: HTMLTextAreaElement,
    private readonly choose: (choice: Choice) => void,
  ) {
    this.element = h("div", {
      class: "completion",
      role: "listbox",
      id: "completion",
      "aria-label": "Suggestions",
    });
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", "completion");
    this.close();
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** Shows `choices` for what was `typed` of one. */
  open(choices: Choice[], typed: string): void {
    if (choices.length === 0) {
      this.close();
      return;
    }
    this.choices = choices;
    this.typed = typed;
    this.at = 0;
    this.element.replaceChildren(...choices.map((choice, index) => this.option(choice, index)));
    show(this.element, true);
    this.mark();
  }

  close(): void {
    show(this.element, false);
    this.choices = [];
    this.element.replaceChildren();
    this.input.removeAttribute("aria-activedescendant");
  }

  /** Takes a key while it is open; true: it was for the list. */
  key(event: KeyboardEvent): boolean {
    if (!this.isOpen) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : this.choices.length - 1;
      this.at = (this.at + step) % this.choices.length;
      this.mark();
      return true;
    }
    if (event.key === "Escape") {
      this.close();
      return true;
    }
    const takes = event.key === "Tab" || (event.key === "Enter" && !event.altKey && !event.shiftKey);
    const choice = this.choices[this.at];
    if (!takes || !choice) return false;
    if (event.key === "Enter" && choice.value === this.typed) {
      // Nothing is left to complete: the key is for the message.
      this.close();
      return false;
    }
    this.choose(choice);
    return true;
  }

  private option(choice: Choice, index: number): HTMLElement {
    const detail: Child =
      choice.detail === "" ? null : h("span", { class: "completion-detail" }, choice.detail);
    const props = { class: "completion-option", role: "option", id: `completion-${index}` };
    const pick = (event: Event) => {
      event.preventDefault();
      this.choose(choice);
    };
    return h("div", { ...props, on: { mousedown: pick } }, choice.icon, h("span", {}, choice.label), detail);
  }

  private mark(): void {
    [...this.element.children].forEach((option, index) => {
      option.setAttribute("aria-selected", String(index === this.at));
      if (index === this.at) option.scrollIntoView?.({ block: "nearest" });
    });
    this.input.setAttribute("aria-activedescendant", `completion-${this.at}`);
  }
}
