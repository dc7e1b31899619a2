/** A box of lines of which only those that are seen are in the page; it follows its end while that is looked at. */
import type { Output } from "../view/output";
import { h } from "./dom";

/** Lines beyond those that are seen. */
const AROUND = 20;

export interface LinesView {
  readonly element: HTMLElement;
  readonly output: Output;
  /** Draws what is there now. */
  update(): void;
  /** The most lines that are seen at once. */
  setMost(most: number): void;
}

export function linesView(
  output: Output,
  options: { label: string; most: number; follow?: boolean },
): LinesView {
  const text = document.createTextNode("");
  const shown = h("pre", { class: "lines-text" }, text);
  const canvas = h("div", { class: "lines-canvas" }, shown);
  const props = { class: "lines", tabindex: "0", role: "group", "aria-label": options.label };
  const element = h("div", { ...props, on: { scroll: () => scrolled() } }, canvas);
  let most = options.most;
  let atEnd = options.follow === true;
  let lineHeight = 0;
  let [first, last] = [-1, -1];

  const scrolled = () => {
    atEnd = options.follow === true && element.scrollHeight - element.scrollTop - element.clientHeight < 4;
    draw(false);
  };

  const draw = (anew: boolean) => {
    const height = lineHeight || 18;
    const from = Math.max(0, Math.floor(element.scrollTop / height) - AROUND);
    const to = Math.min(output.shown, from + most + 2 * AROUND);
    if (!anew && from === first && to === last) return;
    [first, last] = [from, to];
    const lines: string[] = [];
    for (let index = from; index < to; index++) lines.push(output.line(index));
    text.data = lines.join("\n");
    shown.style.transform = `translateY(${from * height}px)`;
  };

  const update = () => {
    // Known once it stands in the page; until then a guess.
    if (lineHeight === 0 && element.isConnected)
      lineHeight = Number.parseFloat(getComputedStyle(shown).lineHeight) || 0;
    const height = lineHeight || 18;
    canvas.style.height = `${output.shown * height}px`;
    element.style.maxHeight = `${most * height + 12}px`;
    if (atEnd) element.scrollTop = output.shown * height;
    draw(true);
  };

  const setMost = (next: number) => {
    most = next;
    update();
  };
  update();
  if (!element.isConnected) requestAnimationFrame(update);
  return { element, output, update, setMost };
}
