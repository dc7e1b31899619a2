/** What a browser's own trace says about the main thread of a page. */
import assert from "node:assert/strict";
import type { Browser, Page } from "playwright-core";

/** What the browser calls a long task, in ms. A quiet machine has none; that is told, not asserted. */
const LONG = 50;
/** What no machine needs unless the work grew with the length of the session, in ms. */
const ENDLESS = 5 * LONG;

export interface Task {
  /** CPU time of it in ms: what other processes of the machine took meanwhile is not counted. */
  ms: number;
  /** What was done in it, the longest first. */
  parts: string[];
}

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string; data?: { functionName?: string; url?: string } };
}

const CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "v8.execute", "__metadata"];

/** The tasks of a page's main threads while `play` ran, the longest first. */
export async function tasksOf(browser: Browser, page: Page, play: () => Promise<void>): Promise<Task[]> {
  await browser.startTracing(page, { categories: CATEGORIES });
  let trace: Buffer;
  try {
    await play();
  } finally {
    trace = await browser.stopTracing();
  }
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const main = new Set(
    traceEvents
      .filter(({ name, args }) => name === "thread_name" && args?.name === "CrRendererMain")
      .map(({ pid, tid }) => `${pid}/${tid}`),
  );
  const ours = traceEvents.filter(({ pid, tid, ph }) => ph === "X" && main.has(`${pid}/${tid}`));
  return ours
    .filter(({ name }) => name === "RunTask")
    .map((task) => ({ ms: (task.tdur ?? 0) / 1000, parts: partsOf(task, ours) }))
    .sort((one, other) => other.ms - one.ms);
}

/** Tells how long the longest task took, and fails where it cannot be the machine. */
export function tellLongest(what: string, tasks: Task[]): void {
  const [longest] = tasks;
  assert.ok(longest, "nothing was traced");
  const verdict = longest.ms <= LONG ? "short" : `long: ${longest.parts.join(", ")}`;
  console.log(`${what}: ${tasks.length} tasks, the longest ${longest.ms.toFixed(1)} ms of CPU (${verdict})`);
  assert.ok(longest.ms <= ENDLESS, `a task of ${longest.ms} ms: ${longest.parts.join(", ")}`);
}

function partsOf(task: TraceEvent, all: TraceEvent[]): string[] {
  if ((task.tdur ?? 0) < 20_000) return [];
  const end = task.ts + (task.dur ?? 0);
  return all
    .filter(
      ({ ts, tid, pid, tdur }) =>
        tid === task.tid && pid === task.pid && ts >= task.ts && ts <= end && (tdur ?? 0) > 2_000,
    )
    .sort((one, other) => (other.tdur ?? 0) - (one.tdur ?? 0))
    .map(
      ({ name, tdur, args }) =>
        `${name} ${args?.data?.functionName ?? ""} ${((tdur ?? 0) / 1000).toFixed(1)}`,
    )
    .slice(0, 12);
}
