/**
 * A window of VS Code in a real browser, and what a person does in it.
 *
 * Owns the workbench: palette, notifications, editors, status bar. The chat is in chat.mts.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";
import { Chat } from "./chat.mts";
import type { Server } from "./server.mts";
import { PATIENCE, until } from "./until.mts";

/** Start the browser; close it in the end. */
export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--disable-component-update",
    ],
  });
}

export interface Look {
  width?: number;
  height?: number;
}

/** What takes the focus closes a palette, and notifications go by themselves: then they are opened again. */
const SOON = { timeout: 20_000 };

export class Window {
  readonly page: Page;
  readonly chat: Chat;

  private constructor(page: Page) {
    this.page = page;
    this.chat = new Chat(page);
  }

  /** Open a folder, or a `.code-workspace`, in a window of its own, and wait until one can work in it. */
  static async open(browser: Browser, server: Server, folder: string, look: Look = {}): Promise<Window> {
    // One for all windows: what the first has loaded of the workbench the next need not load again.
    const context =
      browser.contexts()[0] ??
      (await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"] }));
    const page = await context.newPage();
    await page.setViewportSize({ width: look.width ?? 1280, height: look.height ?? 800 });
    page.setDefaultTimeout(PATIENCE);
    const window = new Window(page);
    const what = folder.endsWith(".code-workspace") ? "workspace" : "folder";
    await page.goto(`${server.url}/?${what}=${encodeURIComponent(folder)}`, {
      waitUntil: "domcontentloaded",
    });
    await window.#ready();
    return window;
  }

  async #ready(): Promise<void> {
    await this.page.locator(".monaco-workbench").waitFor();
    await this.page.locator(".activitybar [aria-label^='pi']").first().waitFor();
  }

  /**
   * Wait until the browser has stored a text among the window's states. It does so a moment after the extension has
   * asked for it, and what is loaded anew before that knows nothing of it.
   */
  async stored(text: string): Promise<void> {
    await until(`${text} is stored`, () => this.page.evaluate(isStored, text));
  }

  /** Load it anew, as the command "Reload Window" does. */
  async reload(): Promise<void> {
    await this.page.reload({ waitUntil: "domcontentloaded" });
    await this.#ready();
  }

  /** Close it, as a person closes the tab: its extension host ends, and what that had started. */
  async close(): Promise<void> {
    await this.page.close();
  }

  /** Run a command by its title in the command palette. */
  async run(title: string): Promise<void> {
    const entry = this.picked(title);
    await until(`there is a command ${title}`, async () => {
      await this.page.keyboard.press("F1");
      await this.page.locator(".quick-input-widget input").first().fill(`>${title}`, SOON);
      // The palette is not filled again when commands come later, as they do in a window that is just loaded.
      await this.page.locator(".quick-input-list .monaco-list-row").first().waitFor(SOON);
      if (await entry.isVisible()) {
        await entry.click(SOON);
        return true;
      }
      await this.page.keyboard.press("Escape");
      return false;
    });
  }

  /** Show the chat in the side bar. */
  async openChat(): Promise<Chat> {
    await this.run("pi: Focus Chat");
    await this.chat.ready();
    return this.chat;
  }

  /** Show the files in the side bar instead. */
  async hideChat(): Promise<void> {
    await this.run("View: Show Explorer");
    await this.page.locator(".part.sidebar .title-label").filter({ hasText: "Explorer" }).waitFor();
  }

  /** Open a file of the folder in an editor. */
  async openFile(name: string): Promise<Locator> {
    await until(`${name} is chosen`, async () => {
      await this.page.keyboard.press("Control+P");
      await this.page.locator(".quick-input-widget input").first().fill(name, SOON);
      await this.picked(name).click(SOON);
      return true;
    });
    const editor = this.page.locator(`.editor-instance [data-uri$='/${name}']`).first();
    await editor.waitFor();
    return editor;
  }

  /** Go on with the session that this is said of. */
  async resume(text: string | RegExp): Promise<void> {
    await until("the session is chosen", async () => {
      await this.run("pi: Resume Session…");
      await this.picked(text).click(SOON);
      return true;
    });
  }

  /** A choice of the picker that is open. */
  picked(text: string | RegExp): Locator {
    return this.page.locator(".quick-input-list .monaco-list-row").filter({ hasText: text }).first();
  }

  /** A notification that says this. */
  notification(text: string | RegExp): Locator {
    return this.page
      .locator(".notification-toast, .notifications-list-container .monaco-list-row")
      .filter({ hasText: text })
      .first();
  }

  /** Press a button of the notification that says this. */
  async press(text: string | RegExp, label: string): Promise<void> {
    const button = this.notification(text)
      .locator(".notification-list-item-buttons-container a, .monaco-button")
      .filter({ hasText: label })
      .first();
    await until(`${label} is pressed`, async () => {
      try {
        await button.click(SOON);
      } catch (error) {
        await this.run("Notifications: Show Notifications");
        throw error;
      }
      return true;
    });
  }

  /** An entry of the status bar. */
  status(text: string | RegExp): Locator {
    return this.page.locator(".statusbar-item").filter({ hasText: text }).first();
  }

  /** A tab of an editor. */
  tab(text: string | RegExp): Locator {
    return this.page.locator(".tabs-container .tab").filter({ hasText: text }).first();
  }

  /** The lines of the editor that has the focus, as they are drawn. */
  async lines(editor: Locator): Promise<string> {
    const lines = await editor.locator(".view-line").evaluateAll((found) =>
      found
        .map((line) => ({
          top: Number.parseFloat((line as HTMLElement).style.top),
          text: line.textContent ?? "",
        }))
        .sort((one, other) => one.top - other.top)
        .map(({ text }) => text.replaceAll("\u00a0", " ")),
    );
    return lines.join("\n");
  }

  /** Drag the edge of the side bar until it is so wide, in pixels. */
  async widenSideBar(width: number): Promise<void> {
    const bar = await this.page.locator(".part.sidebar").boundingBox();
    if (!bar) throw new Error("the side bar is hidden");
    await this.page.mouse.move(bar.x + bar.width, 400);
    await this.page.mouse.down();
    await this.page.mouse.move(bar.x + width, 400, { steps: 4 });
    await this.page.mouse.up();
    await this.page.mouse.move(bar.x + width + 200, 400);
  }

  /** Wait until the theme is of this kind: `vs`, `vs-dark`, `hc-black`, `hc-light`. */
  async themed(kind: string): Promise<void> {
    await this.page.locator(`.monaco-workbench.${kind}`).waitFor();
    const kinds: Record<string, string> = {
      vs: "light",
      "vs-dark": "dark",
      "hc-black": "high-contrast",
      "hc-light": "high-contrast-light",
    };
    await this.chat.root.locator(`body.vscode-${kinds[kind]}`).waitFor();
  }

  /** Save a picture of it, if pictures are wanted; `name` without an ending. */
  async picture(name: string): Promise<void> {
    const folder = process.env.PI_PICTURES;
    if (!folder) return;
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: join(folder, `${name}.png`) });
  }
}

/** Whether a text is in what the workbench keeps in the browser. Runs in the page. */
async function isStored(text: string): Promise<boolean> {
  const done = <T,>(request: IDBRequest<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  for (const { name } of await indexedDB.databases()) {
    if (!name?.startsWith("vscode-web-state-db-")) continue;
    const database = await done(indexedDB.open(name));
    try {
      for (const table of database.objectStoreNames) {
        const values = await done(database.transaction(table).objectStore(table).getAll());
        if (values.some((value) => typeof value === "string" && value.includes(text))) return true;
      }
    } finally {
      database.close();
    }
  }
  return false;
}
