/** The list of a chat in a plain browser: it keeps its place, follows its end, and is never long at work. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { tasksOf, tellLongest } from "./rig/trace.mts";
import { until } from "./rig/until.mts";
import { launch } from "./rig/window.mts";

/** What `test/bench/page.ts` offers. */
declare const bench: {
  say(message: unknown): void;
  scroll(selector: string, step: number): Promise<number>;
  write(size?: number): Promise<void>;
  posted: { type: string }[];
  scenes: {
    snapshot(messages: unknown[], more?: unknown): { messages: { hasMore: boolean } };
    user(text: string): unknown;
  };
};

const PAGE = join(import.meta.dirname, "../bench/out/index.html");

let browser: Browser;

before(async () => {
  execFileSync(process.execPath, ["test/bench/build.mjs"], { stdio: "inherit" });
  browser = await launch();
});

after(() => browser?.close());

async function withPage(scene: string, play: (page: Page) => Promise<void>): Promise<void> {
  const page = await browser.newPage({ viewport: { width: 420, height: 900 } });
  const refused: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") refused.push(message.text());
  });
  try {
    await page.goto(`${pathToFileURL(PAGE)}#${scene}/dark`);
    await page.locator(".row").first().waitFor();
    await play(page);
    assert.deepEqual(refused, [], "nothing was refused by the policy of the page");
  } finally {
    await page.close();
  }
}

/** Pixels between what is seen and the end. */
function toEnd(page: Page): Promise<number> {
  return page.locator(".scroller").evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight);
}

function scrollBy(page: Page, by: number): Promise<void> {
  return page.locator(".scroller").evaluate((one, top) => one.scrollBy({ top }), by);
}

/** A row that is seen, and where it stands. */
function seenRow(page: Page): Promise<{ key: string; top: number }> {
  return page.evaluate(() => {
    for (const row of document.querySelectorAll<HTMLElement>(".row")) {
      const { top } = row.getBoundingClientRect();
      if (top >= 100) return { key: row.dataset.key ?? "", top };
    }
    throw new Error("no row is seen");
  });
}

function topOf(page: Page, key: string): Promise<number> {
  return page.locator(`.row[data-key="${key}"]`).evaluate((one) => one.getBoundingClientRect().top);
}

/** Until nothing is left to be drawn. */
async function settled(page: Page): Promise<void> {
  let before = "";
  await until("the list stands still", async () => {
    const now = await page.evaluate(async () => {
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const tops = [...document.querySelectorAll<HTMLElement>(".row")].map((row) => row.style.transform);
      return JSON.stringify([tops, document.querySelector(".scroller")?.scrollTop]);
    });
    const same = now === before;
    before = now;
    return same;
  });
}

test("of 5,000 messages only what is seen is in the page, and scrolling is never long at work", () =>
  withPage("long", async (page) => {
    assert.ok((await page.locator(".row").count()) < 80);
    for (const step of [8_000, 40_000]) {
      const tasks = await tasksOf(browser, page, async () => {
        await page.evaluate((by) => bench.scroll(".scroller", by), step);
      });
      tellLongest(`by ${step} pixels`, tasks);
    }
    assert.ok((await page.locator(".row").count()) < 80);
  }));

test("an output of 200 KB scrolls without a long task", () =>
  withPage("long", async (page) => {
    const tasks = await tasksOf(browser, page, async () => {
      await page.evaluate(() => bench.scroll(".row:last-child .lines", 2_000));
    });
    tellLongest("an output", tasks);
  }));

test("a long reply is drawn while it is written, without a long task, and its end is followed", () =>
  withPage("chat", async (page) => {
    const tasks = await tasksOf(browser, page, async () => {
      await page.evaluate(() => bench.write(200));
    });
    tellLongest("a reply", tasks);
    await settled(page);
    assert.ok((await toEnd(page)) < 2);
    await page.getByText("Part 39").waitFor();
  }));

test("who has scrolled up stays there while more is written, and follows again from the end", () =>
  withPage("long", async (page) => {
    await scrollBy(page, -3_000);
    await settled(page);
    const { key, top } = await seenRow(page);
    await page.evaluate(() => bench.write(2_000));
    await settled(page);
    assert.ok(Math.abs((await topOf(page, key)) - top) <= 1, "what is read has not moved");
    await page.getByRole("button", { name: "Go to the end" }).click();
    await settled(page);
    assert.ok((await toEnd(page)) < 2);
    const prompt = page.getByRole("textbox", { name: "Message to pi" });
    for (const lines of [5, 2, 8, 1]) {
      await prompt.fill("line\n".repeat(lines));
      await settled(page);
      assert.ok((await toEnd(page)) < 2, `the end is still seen when the prompt box has ${lines} lines`);
    }
  }));

test("what is read stays where it is when older messages come before it", () =>
  withPage("chat", async (page) => {
    await page.evaluate(() => {
      const messages = Array.from({ length: 60 }, (_, at) => bench.scenes.user(`Later ${at}`));
      const session = bench.scenes.snapshot(messages);
      session.messages.hasMore = true;
      bench.say({ type: "session", session });
    });
    await settled(page);
    await page.locator(".scroller").evaluate((one) => {
      one.scrollTop = 200;
    });
    await page.waitForFunction(() => bench.posted.some(({ type }) => type === "loadOlder"));
    await settled(page);
    const { key, top } = await seenRow(page);
    await page.evaluate(() => {
      const messages = Array.from({ length: 200 }, (_, at) =>
        bench.scenes.user(`Earlier ${at}\nof two lines`),
      );
      const entryIds = messages.map((_, at) => `older-${at}`);
      bench.say({
        type: "older",
        beforeEntryId: "e0",
        page: { messages, entryIds, hasMore: false, lastSeq: 0 },
      });
    });
    await settled(page);
    assert.ok(Math.abs((await topOf(page, key)) - top) <= 1);
    assert.ok((await page.locator(".scroller").evaluate((one) => one.scrollTop)) > 5_000);
  }));

test("what has the focus is not taken away by scrolling", () =>
  withPage("long", async (page) => {
    const toggle = page.locator(".tool-toggle").last();
    await toggle.focus();
    await scrollBy(page, -20_000);
    await settled(page);
    assert.equal(await page.evaluate(() => document.activeElement?.className), "tool-toggle");
  }));

test("a request that is out of sight is named above the prompt box, and shown from there", () =>
  withPage("running", async (page) => {
    await page.evaluate(() => bench.write(4_000));
    await settled(page);
    const strip = page.locator(".banner.waiting");
    await strip.getByText("pi asks").waitFor();
    await strip.getByRole("button", { name: "Show" }).click();
    await settled(page);
    assert.match((await page.evaluate(() => document.activeElement?.textContent)) ?? "", /^Allow/);
    assert.ok(await page.evaluate(() => document.activeElement?.closest(".asked") !== null));
  }));

test("the end is still seen when the daemon has gone and come back", () =>
  withPage("chat", async (page) => {
    await page.evaluate(async () => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const messages = Array.from({ length: 60 }, (_, at) =>
        bench.scenes.user(`Question ${at}\nof two lines`),
      );
      bench.say({ type: "session", session: bench.scenes.snapshot(messages) });
      await bench.write(2_000);
      bench.say({ type: "gone" });
      const actions = [{ id: "restart", label: "Restart pi" }];
      const banner = { id: "daemon", severity: "error", text: "pi-rpc ended unasked.", actions };
      bench.say({ type: "banners", banners: [banner] });
      await frame();
      bench.say({ type: "banners", banners: [] });
      await frame();
      // What was being written is lost.
      bench.say({ type: "session", session: bench.scenes.snapshot(messages, { interrupted: true }) });
    });
    await page.getByText("This session was interrupted").waitFor();
    await settled(page);
    assert.ok((await toEnd(page)) < 2);
    await page.getByText("Question 59").waitFor();
  }));
