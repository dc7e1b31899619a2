/** Which processes are ours: those that inherited a mark in their environment. Linux alone. */
import { readdirSync, readFileSync } from "node:fs";

export interface Process {
  pid: number;
  /** The command line, its arguments separated by spaces. */
  command: string;
}

/** The name of the variable that marks everything a test starts. */
export const MARK = "PI_VSCODE_TEST";

/** Everything that runs with this mark, except ourselves; what has ended and waits to be read does not count. */
export function marked(mark: string): Process[] {
  const found: Process[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    try {
      if (!readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(`${MARK}=${mark}`)) continue;
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
      if (command !== "") found.push({ pid, command });
    } catch {
      // It ended while we looked.
    }
  }
  return found;
}

/** End them all, at once and without asking. */
export function killAll(mark: string): void {
  for (const { pid } of marked(mark)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
}

/** The daemons among them. */
export function daemons(mark: string): Process[] {
  return marked(mark).filter(({ command }) => command.includes("pi-rpc") && command.includes("--stdio"));
}
