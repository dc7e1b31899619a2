/**
 * Plays the host for the chat view in a plain browser: `index.html#<scene>/<theme>`, and `window.bench` for a driver.
 *
 * `bench.tasks` holds the lengths of tasks over 50 ms, as the browser saw them.
 */
import type { HostMessage, WebviewMessage } from "../../src/shared/messages";
import * as scenes from "./scenes";
import { setTheme } from "./themes";

const [scene = "chat", theme = "dark"] = location.hash.slice(1).split("/");
const posted: WebviewMessage[] = [];
const tasks: number[] = [];
new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({
  type: "longtask",
  buffered: true,
});
setTheme(theme);

function say(message: HostMessage): void {
  window.postMessage(message, "*");
}

const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));

/** Writes a long reply, a piece for each frame. */
async function write(size = 120): Promise<void> {
  for (const message of scenes.writing(scenes.LONG_REPLY, size)) {
    say(message);
    await frame();
  }
}

/** Scrolls from the end to the beginning and back, by a screen or by jumps. */
async function scroll(selector: string, step: number): Promise<number> {
  const element = document.querySelector(selector);
  if (!element) throw new Error(`no ${selector}`);
  let frames = 0;
  for (const way of [-1, 1]) {
    for (let last = -1; last !== element.scrollTop && frames < 4_000; frames++) {
      last = element.scrollTop;
      element.scrollTop += way * step;
      await frame();
    }
  }
  return frames;
}

const SCENES: Record<string, () => HostMessage[]> = {
  chat: scenes.chat,
  running: scenes.running,
  long: scenes.long,
  empty: () => [
    { type: "session", session: scenes.snapshot([]) },
    {
      type: "recent",
      sessions: ["Mend the valve", "Why is the boiler cold?"].map((firstMessage, at) => ({
        sessionId: `s${at}`,
        path: "",
        cwd: "",
        created: "",
        modified: new Date(Date.now() - (at + 1) * 7_000_000).toISOString(),
        messageCount: 4,
        firstMessage,
      })),
    },
  ],
};

Object.assign(window, {
  bench: { say, scroll, write, tasks, posted, scenes },
  acquireVsCodeApi: () => ({
    postMessage(message: WebviewMessage) {
      posted.push(message);
      if (message.type === "ready") for (const one of SCENES[scene]?.() ?? []) say(one);
      if (message.type === "searchFiles") {
        const files = ["src/valve.ts", "src/pump.ts", "docs"].map((path) => ({
          uri: `file:///e/${path}`,
          path,
          kind: path === "docs" ? ("directory" as const) : ("file" as const),
        }));
        say({ type: "files", id: message.id, files, truncated: false });
      }
    },
    getState: () => undefined,
    setState: () => {},
  }),
});
