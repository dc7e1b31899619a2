/**
 * The daemon's process: started with its first use, ended with the window, never started again by itself.
 *
 * Owns finding, spawning, greeting and ending it. After it crashed or could not be started, whoever uses it is
 * told so, until a person asks for `restart`. What is said over the connection is the listeners' of `onStart`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

import vscode = require("vscode");

import type { InitializeParams, InitializeResult } from "../generated/protocol";
import { DaemonGone } from "./errors";
import { checkVersion, findProgram } from "./program";
import type { Wire } from "./wire";

/** What to start, as the settings have it. */
export interface Launch {
  /** A path, or a name to look for; empty: `pi-rpc`. */
  program: string;
  /** Arguments behind `--stdio`. */
  args: string[];
  /** Variables beside those that we have; null takes one away. */
  env: Record<string, string | null>;
  /** Where to start it. */
  cwd: string;
}

/** Where lines for people go. */
export interface Log {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** How a daemon came to its end, or why it did not begin. */
export interface Failure {
  /** What happened. */
  error: Error;
  /** It had been running. */
  crashed: boolean;
}

const ENDING_MS = 2_500;
/** The slowest machine has begun by then. */
const GREETING_MS = 60_000;

/** The one daemon of a window. */
export class Daemon {
  readonly #launch: () => Launch;
  readonly #greeting: () => InitializeParams;
  readonly #log: Log;
  readonly #begins = new vscode.EventEmitter<Promise<unknown>>();
  readonly #started = new vscode.EventEmitter<{ wire: Wire; answer: InitializeResult }>();
  readonly #greets = new vscode.EventEmitter<Wire>();
  readonly #failed = new vscode.EventEmitter<Failure>();
  #running: { child: ChildProcess; wire: Wire } | undefined;
  #starting: Promise<Wire> | undefined;
  #failure: Failure | undefined;
  #ending = false;
  /** How often it was ended on purpose. */
  #stops = 0;

  constructor(launch: () => Launch, greeting: () => InitializeParams, log: Log) {
    this.#launch = launch;
    this.#greeting = greeting;
    this.#log = log;
  }

  /** It is being started; the promise settles when it answers, and when it is clear that it will not. */
  get onBegin(): vscode.Event<Promise<unknown>> {
    return this.#begins.event;
  }

  /** A connection exists and nothing was said yet: the moment to register who answers. */
  get onConnect(): vscode.Event<Wire> {
    return this.#greets.event;
  }

  /** It was greeted and answers. */
  get onStart(): vscode.Event<{ wire: Wire; answer: InitializeResult }> {
    return this.#started.event;
  }

  /** It could not be started, or ended though nobody had asked it to. */
  get onFail(): vscode.Event<Failure> {
    return this.#failed.event;
  }

  /** Why it is not there, until `restart`. */
  get failure(): Failure | undefined {
    return this.#failure;
  }

  /** Its process id while it runs. */
  get pid(): number | undefined {
    return this.#running?.child.pid;
  }

  /** The connection, with the daemon started if this is its first use. Fails as `failure` does. */
  use(): Promise<Wire> {
    if (this.#failure) return Promise.reject(this.#failure.error);
    if (this.#starting) return this.#starting;
    const stops = this.#stops;
    const starting = this.#start().catch((error: Error) => {
      // One that was stopped before it answered has not failed.
      if (stops === this.#stops) this.#fail(error, false);
      throw error;
    });
    this.#starting = starting;
    this.#begins.fire(starting);
    return starting;
  }

  /** Start anew, because a person asked for it. */
  async restart(): Promise<Wire> {
    await this.stop();
    this.#failure = undefined;
    this.#ending = false;
    return this.use();
  }

  /** End it in order: what it has begun is stopped and stored. After a while by force. */
  async stop(): Promise<void> {
    this.#ending = true;
    this.#stops += 1;
    const running = this.#running;
    this.#starting = undefined;
    if (!running) return;
    this.#running = undefined;
    const { child, wire } = running;
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    const late = setTimeout(() => child.kill("SIGKILL"), ENDING_MS);
    wire.call("shutdown", {}).catch((error: Error) => this.#log.warn(error.message));
    wire.tell("exit", {});
    await ended;
    clearTimeout(late);
    wire.end("it was stopped");
  }

  async #start(): Promise<Wire> {
    const launch = this.#launch();
    const program = findProgram(launch.program, process.env);
    const child = spawn(program, ["--stdio", ...launch.args], {
      cwd: launch.cwd,
      env: environment(launch.env),
      stdio: ["pipe", "pipe", "pipe"],
      windowsHide: true,
    });
    this.#log.info(`started ${program} in ${launch.cwd}`);
    const ended = new Promise<string>((resolve) => {
      child.once("error", (error) => resolve(error.message));
      child.once("exit", (code, signal) => resolve(signal ? `ended by ${signal}` : `exit code ${code}`));
    });
    let lastWords = "";
    createInterface({ input: child.stderr }).on("line", (line) => {
      lastWords = line;
      this.#log.warn(line);
    });
    child.stdin.on("error", (error) => this.#log.warn(`writing to pi-rpc: ${error.message}`));
    let fault = "";
    // Not before it is needed: the activation of the extension need not wait for it to be loaded.
    const { Wire: Connection } = require("./wire") as typeof import("./wire");
    const wire = new Connection(child.stdout, child.stdin, (what) => {
      fault = what;
      this.#log.error(what);
    });
    // One that is not listened to any more is not left behind.
    wire.onEnd(() => finish(child, fault !== ""));
    const running = { child, wire };
    this.#running = running;
    let greeted = false;
    const gone = ended.then((how) => {
      const why = fault || (lastWords && !greeted ? `${how}: ${lastWords}` : how);
      wire.end(why);
      if (this.#running !== running) return;
      this.#running = undefined;
      this.#starting = undefined;
      this.#log.error(`pi-rpc stopped unexpectedly: ${why}`);
      if (greeted && !this.#ending) this.#fail(new DaemonGone(`pi-rpc stopped unexpectedly (${why}).`), true);
    });
    this.#greets.fire(wire);
    try {
      const answer = await within(GREETING_MS, wire.call("initialize", this.#greeting()), program);
      checkVersion(answer);
      greeted = true;
      wire.tell("initialized", {});
      this.#log.info(`pi-rpc ${answer.serverInfo.version} answers, process ${child.pid}`);
      this.#started.fire({ wire, answer });
      return wire;
    } catch (error) {
      // The reason that the process itself gives says more than that its output ended.
      if (error instanceof DaemonGone) {
        await gone;
        if (fault) throw new DaemonGone(`${program} does not speak as pi-rpc does: ${fault}. Is it pi-rpc?`);
        throw new DaemonGone(`${program} could not be started: ${await ended}. ${lastWords}`.trim());
      }
      this.#running = undefined;
      finish(child, true);
      wire.end("it was not wanted");
      throw error;
    }
  }

  #fail(error: Error, crashed: boolean): void {
    this.#starting = undefined;
    this.#failure = { error, crashed };
    this.#failed.fire(this.#failure);
  }
}

/** See to it that a process ends: at first by asking, when it should not end by itself, then by force. */
function finish(child: ChildProcess, ask: boolean): void {
  if (child.exitCode !== null || child.signalCode !== null) return;
  if (ask) child.kill();
  const late = setTimeout(() => child.kill("SIGKILL"), ENDING_MS);
  child.once("exit", () => clearTimeout(late));
}

async function within<R>(limitMs: number, answer: Promise<R>, program: string): Promise<R> {
  let late: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    const error = new Error(`${program} does not answer. Is it pi-rpc?`);
    late = setTimeout(() => reject(error), limitMs);
  });
  try {
    return await Promise.race([answer, silence]);
  } finally {
    clearTimeout(late);
  }
}

function environment(changes: Record<string, string | null>): NodeJS.ProcessEnv {
  const env = { ...process.env };
  // What makes a child of the editor behave as a Node.js process is not the daemon's business.
  delete env.ELECTRON_RUN_AS_NODE;
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) delete env[name];
    else env[name] = value;
  }
  return env;
}
