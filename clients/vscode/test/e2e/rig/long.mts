/** A long session, made up: its file as pi and we write it. */
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const AT = "2026-01-01T00:00:00.000Z";
const USAGE = {
  input: 1200,
  output: 350,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 1550,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

const answer = (number: number) =>
  [
    `Answer ${number} has **strong words**, \`code\` and a [link](https://example.com/${number}).`,
    "",
    "- the first point of it",
    "- the second point, which is rather long so that it needs more than a line in a side bar",
    "",
    "```python",
    ...Array.from({ length: 4 + (number % 9) }, (_, line) => `def step_${line}(x):  # of ${number}`),
    "```",
  ].join("\n");

/**
 * Write a session of about `messages` messages for a folder: questions, answers, commands with their output.
 * `first` is its first question, in place of "Question 1".
 *
 * The last command's output has `outputBytes`. Questions are called `Question 1`, 2, …
 */
export function writeLongSession(
  agentDir: string,
  cwd: string,
  messages: number,
  outputBytes: number,
  first = "Question 1",
): { id: string; questions: number } {
  const id = randomUUID();
  const lines: object[] = [{ type: "session", version: 3, id, timestamp: AT, cwd }];
  let parentId: string | null = null;
  const add = (message: object) => {
    const entryId = lines.length.toString(16).padStart(8, "0");
    lines.push({ type: "message", id: entryId, parentId, timestamp: AT, message });
    parentId = entryId;
  };
  const assistant = (content: object[], stopReason: string) => ({
    role: "assistant",
    content,
    api: "scripted",
    provider: "scripted",
    model: "scripted",
    usage: USAGE,
    stopReason,
    timestamp: 1_767_225_600_000,
  });
  const questions = Math.ceil(messages / 4);
  for (let number = 1; number <= questions; number++) {
    const last = number === questions;
    const output = last ? "a line of output, as compilers write them\n" : `${number} tests passed\n`;
    const text = output.repeat(last ? Math.ceil(outputBytes / output.length) : 3);
    const call = {
      type: "toolCall",
      id: `call_${number}`,
      name: "bash",
      arguments: { command: `make ${number}` },
    };
    add({ role: "user", content: number === 1 ? first : `Question ${number}`, timestamp: 1_767_225_600_000 });
    add(assistant([{ type: "thinking", thinking: `Hm, ${number}.` }, call], "toolUse"));
    const result = { role: "toolResult", toolCallId: call.id, toolName: "bash", isError: false };
    add({ ...result, content: [{ type: "text", text }], timestamp: 1_767_225_600_000 });
    add(assistant([{ type: "text", text: answer(number) }], "stop"));
  }
  const folder = join(agentDir, "sessions", `--${cwd.replaceAll("/", "-").slice(1)}--`);
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `2026-01-01T00-00-00-000Z_${id}.jsonl`);
  writeFileSync(file, `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
  return { id, questions };
}
