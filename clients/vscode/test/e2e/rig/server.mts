/**
 * A real VS Code: code-server on a free port of this machine, with a home of its own and our package installed.
 *
 * Owns the server's life and its folders. What is in its windows is in window.mts.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { daemons, killAll, MARK, marked, type Process } from "./processes.mts";
import { until } from "./until.mts";

/** A variable of `make test-vscode`, without which there is nothing to test. */
export function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run these tests with \`make test-vscode\``);
  return value;
}

/** What kind of a VS Code. */
export interface Kind {
  /** The model is the scripted one; so it is unless this is false. */
  scripted?: boolean;
  /** Folders are not trusted before the person says so. */
  restricted?: boolean;
  /** Packages of extensions to install beside ours. */
  extensions?: string[];
}

/** One step of a reply of the scripted model; README.md of the project tells which there are. */
export type Step = Record<string, unknown>;

/** A line of a session's file. */
export interface Entry {
  type: string;
  id: string;
  parentId: string | null;
  [field: string]: unknown;
  message?: { role: string; content: unknown; stopReason?: string; toolName?: string; isError?: boolean };
}

const QUIET = {
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "window.menuBarVisibility": "hidden",
  "security.workspace.trust.startupPrompt": "never",
  "chat.disableAIFeatures": true,
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "extensions.autoUpdate": false,
  "extensions.ignoreRecommendations": true,
  "git.enabled": false,
  "files.autoSave": "off",
  "editor.minimap.enabled": false,
  "workbench.reduceMotion": "on",
};

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((listening) => probe.listen(0, "127.0.0.1", listening));
  const address = probe.address();
  await new Promise((closed) => probe.close(closed));
  if (address === null || typeof address === "string") throw new Error("no port is free");
  return address.port;
}

export class Server {
  /** The scratch folder that holds everything. */
  readonly root = mkdtempSync(join(tmpdir(), "pi-vscode-"));
  /** In the environment of everything started from here. */
  readonly mark = this.root;
  /** The daemon's agent directory. */
  readonly agentDir = join(this.root, "agent");
  /** `http://127.0.0.1:PORT`. */
  url = "";
  readonly #script = join(this.root, "script.json");
  readonly #data = join(this.root, "data");
  readonly #extensions = join(this.root, "extensions");
  #process: ChildProcess | undefined;

  readonly #kind: Kind;

  private constructor(kind: Kind) {
    this.#kind = kind;
  }

  /** Install the package and wait until the server answers. */
  static async start(kind: Kind = {}): Promise<Server> {
    const server = new Server(kind);
    try {
      await server.#start();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  async #start(): Promise<void> {
    for (const folder of ["home", "agent", "data/User", "data/Machine", "extensions"]) {
      mkdirSync(join(this.root, folder), { recursive: true });
    }
    writeFileSync(join(this.root, "config.yaml"), "auth: none\ncert: false\n");
    this.settings({});
    this.script([{ text: "Nothing was asked of the script." }]);
    const packages = [required("PI_VSIX"), ...(this.#kind.extensions ?? [])];
    const install = packages.flatMap((path) => ["--install-extension", path]);
    execFileSync(process.execPath, [...this.#arguments(), ...install], {
      env: this.#environment(),
      stdio: ["ignore", "ignore", "pipe"],
      timeout: 120_000,
    });
    const port = await freePort();
    const log = openSync(join(this.root, "server.log"), "a");
    this.#process = spawn(process.execPath, [...this.#arguments(), "--bind-addr", `127.0.0.1:${port}`], {
      env: this.#environment(),
      stdio: ["ignore", log, log],
    });
    this.url = `http://127.0.0.1:${port}`;
    await until("code-server answers", async () => (await fetch(`${this.url}/healthz`)).ok);
  }

  #arguments(): string[] {
    const entry = join(required("CODE_SERVER"), "out/node/entry.js");
    const flags = ["--disable-telemetry", "--disable-update-check"];
    if (!this.#kind.restricted) flags.push("--disable-workspace-trust");
    // How long a window that went without a goodbye is waited for; hours otherwise.
    flags.push("--reconnection-grace-time", "5");
    const folders = ["--user-data-dir", this.#data, "--extensions-dir", this.#extensions];
    return [entry, "--config", join(this.root, "config.yaml"), "--auth", "none", ...folders, ...flags];
  }

  #environment(): NodeJS.ProcessEnv {
    // Not the rest of ours: a key or a setting of the person who runs the tests would change them.
    return {
      PATH: process.env.PATH,
      LANG: "C.UTF-8",
      HOME: join(this.root, "home"),
      PI_CODING_AGENT_DIR: this.agentDir,
      ...(this.#kind.scripted !== false && { PI_RPC_SCRIPT: this.#script }),
      [MARK]: this.mark,
    };
  }

  /** The person's settings, from the next window on. The program is the one of this checkout. */
  settings(more: Record<string, unknown>): void {
    const trust = { "security.workspace.trust.enabled": this.#kind.restricted ?? false };
    const all = JSON.stringify({ ...QUIET, ...trust, "pi.program": required("PI_RPC"), ...more }, null, 2);
    for (const where of ["User", "Machine"]) writeFileSync(join(this.#data, where, "settings.json"), all);
  }

  /** What the model says, from the next daemon on: a reply is a step or several; again from the first in a new session. */
  script(...replies: Step[][]): void {
    const script = { replies: replies.map((steps) => ({ steps })), repeat: true };
    writeFileSync(this.#script, JSON.stringify(script));
  }

  /** A new project folder with these files in it: name to text. */
  folder(name: string, files: Record<string, string> = {}): string {
    const folder = join(this.root, "projects", name);
    mkdirSync(folder, { recursive: true });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
    return folder;
  }

  /** The entries of a folder's newest session, as they are on the disk; none before its first. */
  entries(folder: string): Entry[] {
    return this.#newest(folder)
      .slice(1)
      .map((line) => JSON.parse(line) as Entry);
  }

  #newest(folder: string): string[] {
    const sessions = join(this.agentDir, "sessions");
    if (!existsSync(sessions)) return [];
    const files = readdirSync(sessions, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".jsonl"))
      .sort((one, other) => basename(one).localeCompare(basename(other)))
      // What stands behind the last line end is just being written.
      .map((name) => readFileSync(join(sessions, name), "utf8").split("\n").slice(0, -1))
      .filter(([header]) => JSON.parse(header ?? "{}").cwd === folder);
    return files.at(-1) ?? [];
  }

  /** The id of a folder's newest session. */
  sessionId(folder: string): string {
    const [header] = this.#newest(folder);
    return JSON.parse(header ?? "{}").id;
  }

  /** The daemons of its windows. */
  daemons(): Process[] {
    return daemons(this.mark);
  }

  /** Everything of it that runs. */
  processes(): Process[] {
    return marked(this.mark);
  }

  /** What the server wrote on its output. */
  log(): string {
    return readFileSync(join(this.root, "server.log"), "utf8");
  }

  /** End it as a service manager would, and say what of it is still there. */
  async end(): Promise<Process[]> {
    this.#process?.kill("SIGTERM");
    try {
      await until("nothing of it is left", () => this.processes().length === 0);
    } catch {
      return this.processes();
    }
    return [];
  }

  /** End it, whatever it does, and remove its folders. */
  async stop(): Promise<void> {
    this.#process?.kill("SIGTERM");
    killAll(this.mark);
    await until("all have ended", () => this.processes().length === 0);
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}
