/**
 * Which program is the daemon, and whether it is one that we can talk to.
 *
 * Editors that are started from a desktop do not have the PATH of a shell, so the places where installers put
 * programs for one person are looked at as well.
 */
import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import { type InitializeResult, METHODS, PROTOCOL_VERSION } from "../generated/protocol";

/** The least version of the daemon that this extension talks to. */
export const LEAST_VERSION = "0.1.0";

/** No program was found. */
export class ProgramMissing extends Error {
  override readonly name = "ProgramMissing";
}

/** The program was found and is too old. */
export class ProgramTooOld extends Error {
  override readonly name = "ProgramTooOld";
}

/** The program's path. `named` is the setting: a path, or a name to look for. Throws `ProgramMissing`. */
export function findProgram(named: string, env: NodeJS.ProcessEnv, home: string = homedir()): string {
  const wanted = named.startsWith("~/") ? join(home, named.slice(2)) : named || "pi-rpc";
  if (isAbsolute(wanted)) {
    if (isProgram(wanted)) return wanted;
    throw new ProgramMissing(`There is no program ${wanted}, which the setting pi.program names.`);
  }
  if (wanted.includes("/")) {
    throw new ProgramMissing(`The setting pi.program is ${wanted}: give a name or an absolute path.`);
  }
  const path = (env.PATH ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  const folders = [...path, join(home, ".local", "bin"), "/usr/local/bin", "/opt/homebrew/bin"];
  const names = process.platform === "win32" ? [`${wanted}.exe`, `${wanted}.cmd`] : [wanted];
  for (const folder of folders) {
    for (const name of names) {
      if (isProgram(join(folder, name))) return join(folder, name);
    }
  }
  throw new ProgramMissing(`The program ${wanted} was not found on the PATH, nor in ~/.local/bin.`);
}

/** Look at what `initialize` was answered. Throws `ProgramTooOld`. */
export function checkVersion(answer: InitializeResult): void {
  const { name, version } = answer.serverInfo;
  if (name !== "pi-rpc") {
    throw new ProgramTooOld(`The program is ${name} ${version}, not pi-rpc.`);
  }
  const known = new Set(answer.capabilities.pi.methods);
  const missing = METHODS.filter((method) => !known.has(method));
  if (answer.protocolVersion < PROTOCOL_VERSION || isOlder(version, LEAST_VERSION) || missing.length > 0) {
    const why = missing.length > 0 ? ` (it lacks ${missing.slice(0, 3).join(", ")})` : "";
    throw new ProgramTooOld(
      `pi-rpc ${version} is too old${why}: version ${LEAST_VERSION} or later is needed.`,
    );
  }
}

/** Whether a dotted version comes before another; what is no number counts as 0. */
export function isOlder(version: string, least: string): boolean {
  const parts = (text: string) => text.split(/[.+-]/).map((part) => Number.parseInt(part, 10) || 0);
  const [left, right] = [parts(version), parts(least)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
