/** The chat of a window: the page in the webview, and what a person does in it. */
import type { Frame, FrameLocator, Locator, Page } from "playwright-core";
import { until } from "./until.mts";

export class Chat {
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** The webview's document. VS Code puts it into a frame within a frame. */
  get root(): FrameLocator {
    return this.#page.frameLocator("iframe.webview.ready").first().frameLocator("iframe#active-frame");
  }

  /** Where everything of ours is in. */
  get app(): Locator {
    return this.root.locator("#app");
  }

  async ready(): Promise<void> {
    await this.app.waitFor();
  }

  /** Whether it is on the screen. */
  async visible(): Promise<boolean> {
    const outer = this.#page.locator("iframe.webview.ready").first();
    return (await outer.count()) > 0 && (await outer.isVisible());
  }

  /** Its frame, to measure in. */
  frame(): Promise<Frame> {
    return until("the chat has a frame", async () => {
      const handle = await this.app.elementHandle();
      return handle?.ownerFrame();
    });
  }
}
