/** Long sessions scroll smoothly, and the extension is up at once and small. */
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { after } from "node:test";
import { stage } from "./rig/case.mts";
import { writeLongSession } from "./rig/long.mts";
import { PROBE, packProbe } from "./rig/probe.mts";
import { tasksOf, tellLongest } from "./rig/trace.mts";
import { until } from "./rig/until.mts";
import type { Window } from "./rig/window.mts";

const probe = packProbe();
after(() => rmSync(probe.folder, { recursive: true }));
const scene = stage({ extensions: [probe.path] });

scene(
  "a session of 5,000 messages and an output of 200 KB scroll without a long task",
  { replies: [[{ text: "Here I am." }]] },
  async ({ browser, server, window, folder }) => {
    const { questions } = writeLongSession(server.agentDir, folder, 5_000, 200_000);
    const chat = await window.openChat();
    await window.resume(/^Question 1/);
    await chat.text(`Answer ${questions} has`).waitFor();
    const box = await chat.log.boundingBox();
    assert.ok(box);
    await window.page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const tasks = await tasksOf(browser, window.page, async () => {
      await until(
        "the first question is reached",
        async () => {
          await window.page.mouse.wheel(0, -4_000);
          return (await chat.text(/^Question 1$/).count()) > 0;
        },
        120_000,
      );
    });
    tellLongest("scrolling", tasks);
  },
);

const median = (numbers: number[]): number =>
  [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)] as number;

/** What the editor says that an extension's activation took, in ms. */
async function activation(window: Window, name: string): Promise<number> {
  const row = window.page.locator(".runtime-extensions-editor .monaco-list-row", {
    has: window.page.locator(".name").filter({ hasText: new RegExp(`^${name}$`) }),
  });
  const time = row.locator(".activation-time").filter({ hasText: /\d+\s*ms/ });
  return Number.parseInt(/\d+/.exec((await time.textContent()) ?? "")?.[0] ?? "", 10);
}

scene(
  "the extension is activated without a daemon, and it is told what that takes beside one that does nothing",
  // So high that the list has all of them in sight.
  { look: { height: 3_000 } },
  async ({ window, server }) => {
    const [ours, nothing]: [number[], number[]] = [[], []];
    for (let round = 0; round < 3; round++) {
      if (round > 0) await window.reload();
      await window.run("Developer: Show Running Extensions");
      ours.push(await activation(window, "pi"));
      nothing.push(await activation(window, PROBE));
      assert.deepEqual(server.daemons(), []);
    }
    const [mine, least] = [median(ours), median(nothing)];
    const ratio = (mine / least).toFixed(2);
    console.log(
      `activation, by the editor's own watch, medians of ${ours.length}: ${mine} ms, one that does nothing ${least} ms; ` +
        `${mine - least} ms more, ${ratio} times (${ours.join(", ")} to ${nothing.join(", ")})`,
    );
    for (const ms of [...ours, ...nothing]) assert.ok(Number.isFinite(ms));
  },
);
