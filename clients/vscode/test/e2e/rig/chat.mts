/** The chat of a window: the page in the webview, and what a person does in it. */
import type { Frame, FrameLocator, Locator, Page } from "playwright-core";
import { until } from "./until.mts";

type Text = string | RegExp;

export class Chat {
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** The webview that is on the screen. VS Code keeps hidden ones in its page as well. */
  get #seen(): Locator {
    return this.#page.locator("iframe.webview.ready").filter({ visible: true }).first();
  }

  /** The webview's document: in a frame within a frame. */
  get root(): FrameLocator {
    return this.#seen.contentFrame().frameLocator("iframe#active-frame");
  }

  /** Where everything of ours is in. */
  get app(): Locator {
    return this.root.locator("#app");
  }

  /** The conversation. */
  get log(): Locator {
    return this.root.getByRole("log");
  }

  /** The box to type in. */
  get prompt(): Locator {
    return this.root.getByRole("textbox", { name: "Message to pi" });
  }

  async ready(): Promise<void> {
    await this.prompt.waitFor();
  }

  /** Wait until it shows a session. */
  async begun(): Promise<void> {
    await this.root.getByTitle("Choose the model").waitFor();
  }

  /** Its frame, to measure in. */
  frame(): Promise<Frame> {
    return until("the chat has a frame", async () => {
      const handle = await this.app.elementHandle();
      return handle?.ownerFrame();
    });
  }

  /** Type a message and send it with a key. */
  async send(text: string, key = "Enter"): Promise<void> {
    await this.prompt.fill(text);
    await this.prompt.press(key);
  }

  /** Where the conversation says this. */
  text(text: Text): Locator {
    return this.log.getByText(text).first();
  }

  /** Wait until something runs. */
  async running(): Promise<void> {
    await this.root.getByRole("button", { name: "Stop (Escape)" }).waitFor();
  }

  /** Wait until nothing runs. */
  async idle(): Promise<void> {
    await this.root.getByRole("button", { name: "Stop (Escape)" }).waitFor({ state: "hidden" });
  }

  /** The card of the first tool call that has this in its title. */
  tool(title: Text): Locator {
    return this.#tools(title).first();
  }

  #tools(title: Text): Locator {
    return this.log
      .locator(".tool-row")
      .filter({ has: this.root.locator(".tool-title").filter({ hasText: title }) });
  }

  /** What a tool call has put out. */
  output(card: Locator): Locator {
    return card.getByRole("group", { name: "Output" });
  }

  /** A message that waits its turn. */
  queued(text: Text): Locator {
    return this.root.getByRole("group", { name: "Waiting messages" }).getByText(text).first();
  }

  /** The request for permission for this. */
  permission(text: Text): Locator {
    return this.#tools(text)
      .getByRole("group", { name: /^Permission/ })
      .first();
  }

  /** A notice above the prompt. */
  banner(text: Text): Locator {
    return this.root.locator(".banner").filter({ hasText: text }).first();
  }
}
