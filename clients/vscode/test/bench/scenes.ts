/** Sessions to look at and to measure, as the host would send them. */
import type {
  AgentEvent,
  AssistantMessage,
  Message,
  PermissionRequestParams,
  SessionState,
  ToolCall,
  Usage,
} from "../../src/generated/protocol";
import type { HostMessage, SessionSnapshot } from "../../src/shared/messages";

const SESSION = "bench";
const USAGE: Usage = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

export function state(more: Partial<SessionState> = {}): SessionState {
  return {
    sessionId: SESSION,
    cwd: "/home/ada/engine",
    additionalDirectories: [],
    thinkingLevel: "medium",
    phase: "idle",
    isStreaming: false,
    steeringMode: "one-at-a-time",
    followUpMode: "one-at-a-time",
    autoCompaction: true,
    autoRetry: true,
    permissionMode: "ask",
    activeTools: ["read", "bash", "edit", "write"],
    messageCount: 0,
    queue: { steering: [], followUp: [], items: [] },
    lastSeq: 0,
    epoch: "1",
    tokens: { input: 31_200, output: 4_100, cacheRead: 120_000, cacheWrite: 8_000, total: 163_300 },
    cost: 0.31,
    contextUsage: { tokens: 42_000, contextWindow: 200_000, percent: 21 },
    model: {
      provider: "scripted",
      id: "scripted",
      name: "Claude Sonnet 4.5",
      contextWindow: 200_000,
      maxTokens: 64_000,
      input: ["text", "image"],
      thinkingLevels: ["off", "low", "medium", "high"],
    },
    ...more,
  };
}

export function user(text: string): Message {
  return { role: "user", content: text, timestamp: 0 };
}

export function reply(...content: AssistantMessage["content"]): AssistantMessage {
  const stopReason = content.some((block) => block.type === "toolCall") ? "toolUse" : "stop";
  return {
    role: "assistant",
    content,
    api: "s",
    provider: "s",
    model: "s",
    usage: USAGE,
    stopReason,
    timestamp: 0,
  };
}

export function call(id: string, name: string, args: Record<string, unknown>): ToolCall {
  return { type: "toolCall", id, name, arguments: args };
}

export function result(
  id: string,
  name: string,
  text: string,
  more: { isError?: boolean; details?: unknown } = {},
): Message {
  const content = [{ type: "text" as const, text }];
  return {
    role: "toolResult",
    toolCallId: id,
    toolName: name,
    content,
    isError: false,
    timestamp: 0,
    ...more,
  };
}

export function snapshot(messages: Message[], more: Partial<SessionState> = {}): SessionSnapshot {
  const entryIds = messages.map((_, index) => `e${index}`);
  return {
    messages: { messages, entryIds, hasMore: false, lastSeq: 0 },
    state: state(more),
    permissions: [],
    readOnly: false,
  };
}

const PROSE = `The valve is opened by **one** place only, \`src/valve.ts:42\`, so the fix is small:

1. Ask the sensor first, and trust it only when it is *younger* than a second.
2. Close the valve when it is not.

| state | before | after |
|---|---|---|
| cold | open | closed |
| hot | open | open |

\`\`\`ts
export function shouldOpen(sensor: Sensor, now: number): boolean {
  // An old reading says nothing.
  if (now - sensor.time > 1_000) return false;
  return sensor.degrees > 80 && sensor.name !== "spare";
}
\`\`\`

> See [the manual](https://example.org/manual) and [the test](test/valve.test.ts#L12).
`;

const PATCH = `--- src/valve.ts
+++ src/valve.ts
@@ -40,5 +40,7 @@
 export function shouldOpen(sensor: Sensor, now: number): boolean {
-  return sensor.degrees > 80;
+  // An old reading says nothing.
+  if (now - sensor.time > 1_000) return false;
+  return sensor.degrees > 80 && sensor.name !== "spare";
 }
 
`;

/** A conversation with most of what there is. */
export function chat(): HostMessage[] {
  const messages: Message[] = [
    user(
      'The valve opens while the boiler is cold. Why?\n\n<selection path="/home/ada/engine/src/valve.ts:40-44">\nexport function\n</selection>',
    ),
    reply(
      { type: "thinking", thinking: "I should look at the **valve** first, then at who calls it." },
      { type: "text", text: "I'll look at the valve and run its tests." },
      call("c1", "read", { path: "src/valve.ts" }),
      call("c2", "bash", { command: "npm test -- valve" }),
    ),
    result("c1", "read", "export function shouldOpen() {}\n"),
    result(
      "c2",
      "bash",
      `> engine@1.0.0 test\n> vitest valve\n\n${Array.from({ length: 30 }, (_, i) => ` ✓ valve ${i} opens when hot`).join("\n")}\n\n 1 failed: valve opens when cold\n\nCommand exited with code 1`,
      { isError: true },
    ),
    reply(call("c3", "edit", { path: "src/valve.ts" })),
    result("c3", "edit", "Edited src/valve.ts", { details: { patch: PATCH } }),
    reply({ type: "text", text: PROSE }),
    {
      role: "bashExecution",
      command: "git status --short",
      output: " M src/valve.ts\n",
      cancelled: false,
      truncated: false,
      timestamp: 0,
      exitCode: 0,
    },
    { role: "compactionSummary", summary: "## Goal\nMend the valve.", tokensBefore: 181_000, timestamp: 0 },
  ];
  const shot = snapshot(messages);
  return [
    { type: "session", session: shot },
    events([
      {
        type: "agent_settled",
        runId: "r",
        stopReason: "stop",
        aborted: false,
        checkpointId: "cp",
        diff: `diff --git a/src/valve.ts b/src/valve.ts\n${PATCH}`,
      },
      {
        type: "diagnostic",
        severity: "warning",
        message: "The skill `weld` has no description and was left out.",
        source: "~/.pi/agent/skills/weld",
      },
    ]),
  ];
}

const OPTIONS: PermissionRequestParams["options"] = [
  { id: "allow", name: "Allow", kind: "allow_once" },
  { id: "s1", name: "Allow in this session", kind: "allow_session", rule: "commands like `npm run *`" },
  { id: "a1", name: "Always allow in this project", kind: "allow_always", rule: "commands like `npm run *`" },
  { id: "reject", name: "Reject", kind: "reject_once" },
  {
    id: "r1",
    name: "Always reject in this project",
    kind: "reject_always",
    rule: "the command `npm run release`",
  },
];

/** A run that asks, with a queue, while it writes. */
export function running(): HostMessage[] {
  const items = [
    { id: "q1", kind: "steer" as const, text: "Only the valve, not the pump." },
    { id: "q2", kind: "followUp" as const, text: "Then write the changelog." },
  ];
  const shot = snapshot(
    [user("Release it."), reply({ type: "text", text: "First the edit, then the release." })],
    {
      phase: "turn",
      isStreaming: true,
      queue: { steering: [], followUp: [], items },
    },
  );
  const ask = (id: string, more: Partial<PermissionRequestParams>): HostMessage => ({
    type: "permission",
    request: {
      requestId: id,
      sessionId: SESSION,
      toolCallId: id,
      toolName: "bash",
      kind: "execute",
      title: "$ npm run release",
      args: { command: "npm run release -- --tag latest && git push --tags" },
      locations: [],
      options: OPTIONS,
      reason: "Commands need permission in the mode ask.",
      ...more,
    },
  });
  return [
    { type: "session", session: shot },
    ask("p1", {
      toolName: "edit",
      kind: "edit",
      title: "edit package.json",
      args: { path: "package.json" },
      reason: "Changing files needs permission in the mode ask.",
      edits: [
        {
          uri: "file:///home/ada/engine/package.json",
          oldText: '{\n  "name": "engine",\n  "version": "1.0.0"\n}\n',
          newText: '{\n  "name": "engine",\n  "version": "1.1.0"\n}\n',
        },
      ],
    }),
    { type: "review", requestId: "p1", hunks: 3, rejected: 1, edited: false },
    ask("p2", {}),
    { type: "attach", attachments: [{ type: "file", uri: "file:///home/ada/engine/src/valve.ts" }] },
    {
      type: "banners",
      banners: [
        {
          id: "x",
          severity: "error",
          text: "pi-rpc has stopped.",
          actions: [
            { id: "restart", label: "Restart" },
            { id: "log", label: "Show log" },
          ],
        },
      ],
    },
  ];
}

/** A session of 5,000 messages, the last of which printed 200 KB. */
export function long(count = 5_000): HostMessage[] {
  const messages: Message[] = [];
  for (let at = 0; messages.length < count - 2; at++) {
    messages.push(user(`Question ${at}: what about the valve?`));
    messages.push(
      reply({
        type: "text",
        text: at % 3 === 0 ? PROSE : `Answer ${at}. ${"It is a valve. ".repeat(1 + (at % 12))}`,
      }),
    );
    messages.push(reply(call(`c${at}`, "bash", { command: `make valve-${at}` })));
    messages.push(result(`c${at}`, "bash", `${"compiling…\n".repeat(at % 9)}done\n`));
  }
  messages.push(reply(call("big", "bash", { command: "make everything" })));
  messages.push(result("big", "bash", output(200_000)));
  return [{ type: "session", session: snapshot(messages) }];
}

/** Lines as a compiler prints them. */
export function output(size: number): string {
  const lines: string[] = [];
  for (let length = 0, at = 0; length < size; at++) {
    const line = `[${at}] src/part-${at % 97}.c: compiling with -O2 -Wall ${"=".repeat(at % 60)}`;
    lines.push(line);
    length += line.length + 1;
  }
  return lines.join("\n");
}

let seq = 0;

export function events(list: AgentEvent[]): HostMessage {
  return { type: "events", events: list.map((event) => ({ sessionId: SESSION, seq: ++seq, event })) };
}

/** The events of a reply that is written in pieces. */
export function* writing(text: string, size: number): Generator<HostMessage> {
  const message = reply();
  yield events([{ type: "message_start", message: { ...message, stopReason: "pending" }, messageId: "w" }]);
  for (let at = 0; at < text.length; at += size) {
    const delta = text.slice(at, at + size);
    yield events([
      {
        type: "message_update",
        messageId: "w",
        assistantMessageEvent: { type: "text_delta", contentIndex: 0, delta },
      },
    ]);
  }
  const whole = reply({ type: "text", text });
  yield events([{ type: "message_end", message: whole, messageId: "w", entryId: "w", parentId: null }]);
}

export const LONG_REPLY = Array.from({ length: 40 }, (_, at) => `## Part ${at}\n\n${PROSE}`).join("\n");
