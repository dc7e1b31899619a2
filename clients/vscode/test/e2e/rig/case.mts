/**
 * A case: a window of its own on a folder of its own, with a model that says what the case scripts.
 *
 * Owns the server and the browser of a test file, and closes both; of a case that fails it keeps a picture.
 */
import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import type { Chat } from "./chat.mts";
import { type Kind, Server, type Step } from "./server.mts";
import { until } from "./until.mts";
import { type Look, launch, Window } from "./window.mts";

export interface Scene {
  /** What the model says, a reply after the other. */
  replies?: Step[][];
  /** What is in the folder: name to text. */
  files?: Record<string, string>;
  /** Settings beside the quiet ones. */
  settings?: Record<string, unknown>;
  look?: Look;
}

export interface Stage {
  server: Server;
  browser: Browser;
  window: Window;
  /** Not yet shown: `window.openChat()` does that. */
  chat: Chat;
  /** The project's folder. */
  folder: string;
}

/** A server and a browser for the cases of this file; the answer declares a case. */
export function stage(
  kind: Kind = {},
): (outcome: string, scene: Scene, play: (stage: Stage) => Promise<void>) => Promise<void> {
  let server: Server;
  let browser: Browser;
  let count = 0;
  before(async () => {
    server = await Server.start(kind);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });
  return (outcome, scene, play) =>
    test(outcome, async () => {
      server.settings(scene.settings ?? {});
      if (scene.replies) server.script(...scene.replies);
      const folder = server.folder(`project-${++count}`, scene.files);
      const window = await Window.open(browser, server, folder, scene.look);
      try {
        await play({ server, browser, window, chat: window.chat, folder });
      } catch (error) {
        await keepPicture(window, outcome);
        throw error;
      } finally {
        await window.close();
        await until("the window's daemon has ended with it", () => server.daemons().length === 0);
      }
    });
}

async function keepPicture(window: Window, outcome: string): Promise<void> {
  const folder = process.env.PI_FAILED ?? join(tmpdir(), "pi-vscode-failed");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${outcome.replaceAll(/[^A-Za-z0-9]+/g, "-")}.png`);
  await window.page.screenshot({ path });
  console.error(`what it looked like: ${path}`);
}
