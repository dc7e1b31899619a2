/** The chat of a window: the page in the webview, and what a person does in it. */
import type { Frame, FrameLocator, Locator, Page } from "playwright-core";
import { until } from "./until.mts";

type Text = string | RegExp;

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

  /** The conversation. */
  get log(): Locator {
    return this.root.getByRole("log");
  }

  /** The box to type in. */
  get prompt(): Locator {
    return this.root.getByRole("textbox", { name: /message|prompt/i }).first();
  }

  async ready(): Promise<void> {
    await this.prompt.waitFor();
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
    await this.root.getByRole("button", { name: /^stop/i }).waitFor();
  }

  /** Wait until nothing runs. */
  async idle(): Promise<void> {
    await this.root.getByRole("button", { name: /^stop/i }).waitFor({ state: "hidden" });
  }

  /** The card of the tool call that has this in it. */
  tool(text: Text): Locator {
    return this.log.locator(".tool").filter({ hasText: text }).first();
  }

  /** What a tool call has put out. */
  output(card: Locator, text: Text): Locator {
    return card.locator("pre").filter({ hasText: text }).first();
  }

  /** The card, if it says that it failed. */
  failed(card: Locator): Locator {
    return card.getByText(/failed|exit code/i).first();
  }

  /** A message that waits its turn. */
  queued(text: Text): Locator {
    return this.root.locator(".queue").getByText(text).first();
  }

  /** The card that asks for permission for this. */
  permission(text: Text): Locator {
    return this.tool(text);
  }

  /** A choice of such a card. */
  choice(card: Locator, label: RegExp): Locator {
    return card.getByRole("button", { name: label }).first();
  }

  /** Reject with a word. */
  async reject(card: Locator, word: string): Promise<void> {
    await this.choice(card, /reject with/i).click();
    const box = card.getByRole("textbox").first();
    await box.fill(word);
    await box.press("Enter");
  }

  /** The choice that allows for longer, and says what in these words. */
  async allowing(card: Locator, label: RegExp, rule: RegExp): Promise<Locator> {
    const choice = this.choice(card, label).filter({ hasText: rule });
    await choice.waitFor();
    return choice;
  }

  /** Open the edits of a request in the diff editor. */
  async review(card: Locator): Promise<void> {
    await this.choice(card, /review|diff/i).click();
  }

  /** A notice above the prompt. */
  banner(text: Text): Locator {
    return this.root.locator(".banner").filter({ hasText: text }).first();
  }
}
