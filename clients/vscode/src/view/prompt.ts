/** The prompt box without its box: what is being completed, what will be sent, what was sent before. */

import type { HostCommand } from "../shared/messages";

/** What the caret stands in. */
export interface Completing {
  kind: "file" | "command";
  query: string;
  /** What the choice replaces. */
  start: number;
  end: number;
}

/** Whether `@file` or `/command` is being written at the caret. */
export function completingAt(text: string, caret: number): Completing | null {
  const before = text.slice(0, caret);
  const command = /^\/([^\s]*)$/.exec(before);
  if (command) return { kind: "command", query: command[1] ?? "", start: 0, end: caret };
  const file = /(?:^|[\s(])@([^\s@]*)$/.exec(before);
  if (!file) return null;
  const query = file[1] ?? "";
  return { kind: "file", query, start: caret - query.length - 1, end: caret };
}

/** The text with a choice in place, and where the caret goes. */
export function complete(
  text: string,
  at: Completing,
  choice: string,
  more: boolean,
): { text: string; caret: number } {
  const sign = at.kind === "file" ? "@" : "/";
  const rest = text.slice(at.end);
  const space = more || rest.startsWith(" ") ? "" : " ";
  const head = `${text.slice(0, at.start)}${sign}${choice}${space}`;
  return { text: head + rest, caret: head.length + (space === "" && rest.startsWith(" ") && !more ? 1 : 0) };
}

/** Commands whose name fits, those that begin with the query first. */
export function fitting<T extends { name: string; description?: string }>(commands: T[], query: string): T[] {
  const wanted = query.toLowerCase();
  const rank = (one: T) => {
    const at = one.name.toLowerCase().indexOf(wanted);
    return at === 0 ? 0 : at > 0 ? 1 : 2;
  };
  return commands.filter((one) => rank(one) < 2).sort((a, b) => rank(a) - rank(b));
}

/** Commands of ours that can be written as well as clicked. One of the daemon's with the same name comes first. */
export const OWN_COMMANDS: { name: string; description: string; command: HostCommand }[] = [
  { name: "new", description: "Begin a new session", command: "newSession" },
  { name: "resume", description: "Open another session", command: "openSession" },
  { name: "name", description: "Name this session", command: "renameSession" },
  { name: "compact", description: "Shorten the conversation", command: "compact" },
  { name: "model", description: "Choose the model", command: "pickModel" },
  { name: "thinking", description: "Choose how much the model thinks", command: "pickThinking" },
  { name: "permissions", description: "Choose what is asked about", command: "pickPermissionMode" },
];

export type Meaning =
  | { kind: "bash"; command: string; excludeFromContext: boolean }
  | { kind: "own"; command: HostCommand }
  | { kind: "message"; text: string };

/** What a text means: a shell command (`!` tells the model of it, `!!` does not), a command of ours, or a message. */
export function meaningOf(text: string, daemonCommands: { name: string }[] = []): Meaning | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  const bash = /^(!!?)\s*(\S[\s\S]*)$/.exec(trimmed);
  if (bash) return { kind: "bash", command: bash[2] ?? "", excludeFromContext: bash[1] === "!!" };
  const own = OWN_COMMANDS.find(({ name }) => trimmed === `/${name}`);
  const isOurs = own && !daemonCommands.some(({ name }) => name === own.name);
  return isOurs ? { kind: "own", command: own.command } : { kind: "message", text: trimmed };
}

/** Texts that were sent, to be had again with the arrow keys. */
export class History {
  private at: number;
  private unsent = "";

  constructor(
    readonly texts: string[] = [],
    private readonly most = 100,
  ) {
    this.at = texts.length;
  }

  add(text: string): void {
    const same = this.texts.indexOf(text);
    if (same >= 0) this.texts.splice(same, 1);
    this.texts.push(text);
    if (this.texts.length > this.most) this.texts.shift();
    this.at = this.texts.length;
    this.unsent = "";
  }

  /** The text before or after the one that is shown; null: there is none. What was being written is kept. */
  move(step: -1 | 1, shown: string): string | null {
    const next = this.at + step;
    if (next < 0 || next > this.texts.length) return null;
    if (this.at === this.texts.length) this.unsent = shown;
    this.at = next;
    return next === this.texts.length ? this.unsent : (this.texts[next] ?? null);
  }
}

/** The text that gave-back texts and what is being written make together. */
export function joined(givenBack: string[], written: string): string {
  return [...givenBack, written].filter((text) => text.trim() !== "").join("\n\n");
}
