/** Long sessions scroll smoothly, and the extension is up at once and small. */
import assert from "node:assert/strict";
import { stage } from "./rig/case.mts";
import { writeLongSession } from "./rig/long.mts";
import { tasksOf, tellLongest } from "./rig/trace.mts";
import { until } from "./rig/until.mts";

const scene = stage();

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

scene("the extension is active at once, by the editor's own watch", {}, async ({ window, server }) => {
  await window.openChat();
  await window.run("Developer: Show Running Extensions");
  const mine = window.page.locator(".runtime-extensions-editor .monaco-list-row", {
    has: window.page.locator(".name").filter({ hasText: /^pi$/ }),
  });
  const time = (await mine.locator(".activation-time").textContent()) ?? "";
  const ms = Number(/(\d+)\s*ms/.exec(time)?.[1]);
  console.log(`activation: ${time.trim()}`);
  assert.ok(ms < 1_000, time);
  assert.ok(server.daemons().length <= 1);
});
