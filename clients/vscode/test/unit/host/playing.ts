/** A real daemon for a test: a home of its own, and a model that says what the test scripts. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Event } from "vscode-jsonrpc/node";
import { Daemon, type Launch, type Log } from "../../../src/host/daemon";
import { findProgram } from "../../../src/host/program";

export type Step = Record<string, unknown>;

/** However slow the machine: after this a wait has failed. */
export const DEADLINE_MS = 60_000;

export interface Stage {
  daemon: Daemon;
  launch: Launch;
  /** The project's folder. */
  folder: string;
  /** What was logged. */
  lines: string[];
}

/** The program of the checkout; a test without it fails. */
export function program(): string {
  return process.env.PI_RPC || findProgram("", process.env);
}

/** A test with a folder and a daemon that is not yet started. */
export function scene(outcome: string, replies: Step[][], play: (stage: Stage) => Promise<void>) {
  test(outcome, { timeout: 2 * DEADLINE_MS }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "pi-vscode-unit-"));
    const script = join(folder, "script.json");
    writeFileSync(script, JSON.stringify({ replies: replies.map((steps) => ({ steps })) }));
    const launch: Launch = {
      program: program(),
      args: ["--model", "scripted/scripted"],
      env: { HOME: folder, PI_CODING_AGENT_DIR: join(folder, "agent"), PI_RPC_SCRIPT: script },
      cwd: folder,
    };
    const lines: string[] = [];
    const say = (line: string) => void lines.push(line);
    const log: Log = { info: say, warn: say, error: say };
    const daemon = new Daemon(
      () => launch,
      () => greeting(folder),
      log,
    );
    try {
      await play({ daemon, launch, folder, lines });
    } finally {
      await daemon.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

/** The first value of an event that fits. */
export function next<T>(event: Event<T>, what: string, fits: (value: T) => boolean = () => true): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`it never came: ${what}`)), DEADLINE_MS);
    const listener = event((value) => {
      if (!fits(value)) return;
      clearTimeout(late);
      listener.dispose();
      resolve(value);
    });
  });
}

/** Until something is so. */
export async function until(what: string, isSo: () => boolean): Promise<void> {
  const end = Date.now() + DEADLINE_MS;
  while (!isSo()) {
    if (Date.now() > end) throw new Error(`it never was so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Whether a process runs. */
export function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function greeting(cwd: string) {
  return {
    processId: process.pid,
    clientInfo: { name: "unit tests" },
    cwd,
    capabilities: { permission: true, ui: true },
  };
}
