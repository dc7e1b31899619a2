/** Tells what happens to those who do not see the screen: politely, and not more often than can be listened to. */
import { h } from "./dom";

const PAUSE = 1_500;

export class Announcer {
  readonly element = h("div", { class: "hidden-text", role: "status", "aria-live": "polite" });
  private waiting: string[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  tell(news: string[]): void {
    this.waiting.push(...news);
    if (this.waiting.length > 0 && this.timer === undefined) this.speak();
  }

  private speak(): void {
    this.element.textContent = this.waiting.slice(-3).join(". ");
    this.waiting = [];
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.waiting.length > 0) this.speak();
    }, PAUSE);
  }
}
