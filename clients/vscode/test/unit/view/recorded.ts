/** Conversations of a daemon that were recorded, as the webview would get them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentEventParams, Message, PermissionRequestParams } from "../../../src/generated/protocol";
import { Conversation } from "../../../src/view/conversation";
import type { Row } from "../../../src/view/rows";
import { state } from "../../bench/scenes";

const FOLDER = join(process.cwd(), "../../tests/golden/transcripts/v1/0.1.0");

interface Frame {
  method?: string;
  params?: unknown;
  result?: unknown;
}

export interface Recorded {
  events: AgentEventParams[];
  permissions: PermissionRequestParams[];
  results: unknown[];
}

/** What the daemon sent in a recording. */
export function recorded(name: string): Recorded {
  const found: Recorded = { events: [], permissions: [], results: [] };
  for (const line of readFileSync(join(FOLDER, `${name}.jsonl`), "utf8").split("\n")) {
    if (line === "") continue;
    const { daemon } = JSON.parse(line) as { daemon?: Frame };
    if (daemon?.method === "agent/event") found.events.push(daemon.params as AgentEventParams);
    else if (daemon?.method === "permission/request")
      found.permissions.push(daemon.params as PermissionRequestParams);
    else if (daemon && "result" in daemon) found.results.push(daemon.result);
  }
  return found;
}

/** A conversation that begins empty. */
export function beginning(sessionId: string): Conversation {
  const conversation = new Conversation();
  conversation.load({
    messages: { messages: [], entryIds: [], hasMore: false, lastSeq: 0 },
    state: state({ sessionId }),
    permissions: [],
    readOnly: false,
  });
  return conversation;
}

/** The conversation after all events of a recording. */
export function played(name: string): Conversation {
  const { events } = recorded(name);
  const conversation = beginning(events[0]?.sessionId ?? "");
  for (const event of events) conversation.apply(event);
  return conversation;
}

/** The messages that were stored, as `session/messages` gives them. */
export function storedBy(events: AgentEventParams[]): { messages: Message[]; entryIds: string[] } {
  const ends = events.flatMap(({ event }) => (event.type === "message_end" ? [event] : []));
  return { messages: ends.map((end) => end.message), entryIds: ends.map((end) => end.entryId) };
}

/** A row in a line, without what differs between seeing it happen and reading it later. */
export function inWords(row: Row): string {
  switch (row.kind) {
    case "user":
      return `user: ${row.text}${row.attachments.map((one) => ` [${one.label}]`).join("")}`;
    case "text":
      return `text: ${row.text}${row.open ? " (open)" : ""}`;
    case "thinking":
      return `thinking: ${row.text}${row.open ? " (open)" : ""}`;
    case "tool":
      return `tool: ${row.title} ${row.phase}: ${row.output.text}`;
    case "bash":
      return `bash: ${row.command} ${row.running ? "runs" : (row.exitCode ?? "stopped")}: ${row.output.text}`;
    case "custom":
      return `custom: ${row.customType}: ${row.text}`;
    case "summary":
      return `summary: ${row.text}`;
    case "note":
      return `${row.severity}: ${row.text}`;
    case "changes":
      return `changes: ${row.files.map((file) => file.path).join(", ")}`;
  }
}

export function words(conversation: Conversation): string[] {
  return conversation.rows().map(inWords);
}
