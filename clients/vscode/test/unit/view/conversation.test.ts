import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import type {
  AgentEvent,
  AgentEventParams,
  AssistantMessage,
  CheckpointSummary,
} from "../../../src/generated/protocol";
import { Conversation } from "../../../src/view/conversation";
import type { ChangesRow, ToolRow } from "../../../src/view/rows";
import { call, reply, result, snapshot, state, user } from "../../bench/scenes";
import { beginning, inWords, played, recorded, storedBy, words } from "./recorded";

test("every recorded conversation can be drawn, and nothing is left running", () => {
  for (const name of readdirSync("../../tests/golden/transcripts/v1/0.1.0")) {
    const conversation = played(name.replace(".jsonl", ""));
    for (const row of conversation.rows()) {
      if (row.kind === "tool") assert.notEqual(row.phase, "writing", `${name}: ${inWords(row)}`);
      if (row.kind === "text" || row.kind === "thinking")
        assert.equal(row.open, false, `${name}: ${inWords(row)}`);
    }
  }
});

test("a tool call becomes a card between what was asked and what was answered", () => {
  assert.deepEqual(words(played("tool")), [
    "user: What is this?",
    "tool: read README.md done: # The engine\n\nIt runs on steam.\n",
    "text: A steam engine.",
  ]);
});

test("steers and follow-ups show as messages where they were delivered, and leave the queue", () => {
  const conversation = played("queue");
  assert.deepEqual(
    words(conversation).filter((word) => word.startsWith("user")),
    ["user: Do the tests pass?", "user: In two words.", "user: Then say done."],
  );
  assert.deepEqual(conversation.state?.queue.items, []);
});

test("what waits is known while it waits", () => {
  const { events } = recorded("queue");
  const conversation = beginning(events[0]?.sessionId ?? "");
  const most = events.map((event) => {
    conversation.apply(event);
    return conversation.state?.queue.items.map((item) => `${item.kind}: ${item.text}`) ?? [];
  });
  assert.ok(most.some((items) => items.join() === "steer: In two words.,followUp: Then say done."));
});

test("attachments behind a message are chips and no text", () => {
  const [first] = words(played("attachments"));
  assert.equal(first, "user: What does this do? [main.py] [main.py:12-13] [main.py: problems] [log]");
});

test("a permission request stands in the card of its call until it is answered", () => {
  const { events, permissions } = recorded("permissions");
  const conversation = beginning(events[0]?.sessionId ?? "");
  const [ask] = permissions;
  assert.ok(ask);
  for (const event of events) {
    conversation.apply(event);
    if (event.event.type !== "tool_execution_start" || event.event.toolCallId !== ask.toolCallId) continue;
    conversation.permission(ask);
    assert.equal(conversation.waiting()[0]?.title, "edit valve.txt");
    conversation.review(ask.requestId, 2, 1, false);
    conversation.resolved(ask.requestId, "answered", "Allow");
    assert.deepEqual(conversation.waiting(), []);
  }
  const row = conversation.rows().find((one): one is ToolRow => one.kind === "tool");
  assert.equal(row?.asked?.outcome?.answer, "Allow");
  assert.equal(row?.phase, "done");
  assert.match(row?.patch ?? "", /\+The valve is blue/);
});

test("a rejected call is a failed one, with what the person said", () => {
  const rejected = played("permissions")
    .rows()
    .find((row) => row.kind === "tool" && row.phase === "failed");
  assert.match(rejected ? inWords(rejected) : "", /rm -r docs && make failed: .*Keep the docs\./s);
});

test("a call that was rejected here is told of as rejected", () => {
  const { events, permissions } = recorded("permissions");
  const conversation = beginning(events[0]?.sessionId ?? "");
  const ask = permissions.find(({ title }) => title.includes("rm -r docs"));
  const reject = ask?.options.find(({ kind }) => kind === "reject_once");
  assert.ok(ask && reject);
  const news: string[] = [];
  for (const event of events) {
    conversation.apply(event);
    news.push(...conversation.takeNews());
    if (event.event.type !== "tool_execution_start" || event.event.toolCallId !== ask.toolCallId) continue;
    conversation.permission(ask);
    conversation.resolved(ask.requestId, "answered", reject.name);
  }
  assert.ok(
    news.some((each) => /rm -r docs.*: rejected$/.test(each)),
    news.join("\n"),
  );
});

test("a run that changed files ends with what it changed", () => {
  assert.equal(words(played("checkpoints")).at(-1), "changes: docs/valve.md, valve.txt");
});

/** A recorded run that changed files as it is read later. */
function changed() {
  const { events, results } = recorded("checkpoints");
  const list = results.find((one) => (one as { checkpoints?: unknown }).checkpoints !== undefined);
  const { checkpoints } = list as { checkpoints: CheckpointSummary[] };
  const [run] = checkpoints;
  assert.ok(run?.entryId);
  const shot = snapshot([user(run.text), reply({ type: "text", text: "Done." })], {
    sessionId: run.sessionId,
  });
  shot.messages.entryIds[0] = run.entryId;
  return { events, shot: { ...shot, checkpoints }, run };
}

function restoring(of: CheckpointSummary, checkpointId: string, files = of.files): CheckpointSummary {
  return { ...of, kind: "restore", checkpointId, files, restored: of.checkpointId };
}

function changesIn(conversation: Conversation): ChangesRow {
  const rows = conversation.rows().filter((row): row is ChangesRow => row.kind === "changes");
  assert.equal(rows.length, 1);
  return rows[0] as ChangesRow;
}

test("a session that is resumed shows what its runs changed, as it was shown when they ended", () => {
  const { shot } = changed();
  const conversation = new Conversation();
  conversation.load(shot);
  assert.equal(words(conversation).at(-1), words(played("checkpoints")).at(-1));
});

test("a run whose end comes behind a picture that holds its changes shows them once", () => {
  const { events, shot } = changed();
  const conversation = new Conversation();
  conversation.load(shot);
  for (const event of events) if (event.event.type === "agent_settled") conversation.apply(event);
  changesIn(conversation);
});

test("a run that goes on has no changes yet, one that was killed has", () => {
  const { shot, run } = changed();
  const open = { ...shot, checkpoints: [{ ...run, settled: false }] };
  const conversation = new Conversation();
  conversation.load({ ...open, state: { ...shot.state, phase: "turn" } });
  assert.deepEqual(
    conversation.rows().filter(({ kind }) => kind === "changes"),
    [],
  );
  conversation.load(open);
  changesIn(conversation);
});

test("changes that were taken back are marked so, until that is taken back as well", () => {
  const { shot, run } = changed();
  const conversation = new Conversation();
  conversation.load(shot);
  assert.equal(changesIn(conversation).undone, false);
  const back = restoring(run, "cp_2");
  conversation.transcript.setCheckpoints([back, run]);
  assert.equal(changesIn(conversation).undone, true);
  conversation.transcript.setCheckpoints([restoring(back, "cp_3"), back, run]);
  assert.equal(changesIn(conversation).undone, false);
  conversation.transcript.setCheckpoints([restoring(run, "cp_2", run.files.slice(1)), run]);
  assert.equal(changesIn(conversation).undone, false, "a part of it is not all of it");
  conversation.load({ ...shot, checkpoints: [back, run] });
  assert.equal(changesIn(conversation).undone, true);
});

test("a compaction leaves its summary, a stopped one a note", () => {
  const all = words(played("compact"));
  assert.ok(all.includes("summary: ## Goal\nLearn of engines."));
  assert.ok(all.includes("info: Compaction stopped; nothing has changed."));
});

test("a run that reached its limit can be continued", () => {
  const note = played("settings")
    .rows()
    .find((row) => row.kind === "note");
  assert.ok(note?.kind === "note" && note.canContinue && /limit of 1 turns/.test(note.text));
});

test("commands of the person show once, with their output, where they were typed", () => {
  const { events } = recorded("bash");
  const conversation = beginning(events[0]?.sessionId ?? "");
  conversation.runs("b-1", "echo one; exit 3", false);
  assert.equal(words(conversation)[0], "bash: echo one; exit 3 runs: ");
  for (const event of events) conversation.apply(event);
  const ours = words(conversation).filter((word) => word.startsWith("bash"));
  assert.equal(ours[0], "bash: echo one; exit 3 3: one\n");
  assert.equal(ours.filter((word) => word.includes("echo one")).length, 1);
});

test("a message that was sent shows at once, and is not shown twice when the daemon tells of it", () => {
  const { events } = recorded("tool");
  const conversation = beginning(events[0]?.sessionId ?? "");
  conversation.sending("m-17", { text: "What is this?" });
  assert.deepEqual(words(conversation), ["user: What is this?"]);
  for (const event of events) conversation.apply(event);
  assert.equal(words(conversation).filter((word) => word.startsWith("user")).length, 1);
});

test("a message that was sent before there was a session stays when one begins", () => {
  const { events } = recorded("tool");
  const conversation = new Conversation();
  conversation.load(null);
  conversation.sending("m-17", { text: "What is this?" });
  conversation.load(snapshot([], { sessionId: events[0]?.sessionId ?? "" }));
  assert.deepEqual(words(conversation), ["user: What is this?"]);
  for (const event of events) conversation.apply(event);
  assert.deepEqual(words(conversation), words(played("tool")));
});

test("a message that was refused goes away", () => {
  const conversation = beginning("s");
  conversation.sending("m", { text: "Hello" });
  conversation.refused("m");
  assert.deepEqual(words(conversation), []);
});

test("a message that a command took stays, and is not waited for", () => {
  const conversation = beginning("s");
  conversation.sending("m", { text: "/deploy" });
  conversation.handled("m");
  const [row] = conversation.rows();
  assert.equal(row?.kind === "user" && row.handled, true);
  assert.deepEqual(words(conversation), ["user: /deploy"]);
});

test("reading a stored session shows what was seen when it happened", () => {
  for (const name of ["tool", "lines", "attachments", "reopen"]) {
    const { events } = recorded(name);
    const session = events[0]?.sessionId;
    const live = words(played(name));
    const stored = storedBy(events.filter((event) => event.sessionId === session));
    const later = new Conversation();
    later.load(snapshot([], { sessionId: session ?? "" }));
    later.older({ ...stored, hasMore: false, lastSeq: 0 });
    assert.deepEqual(words(later), live, name);
  }
});

test("a window that joins at any moment of a run ends up with the same rows", () => {
  const { events } = recorded("tool");
  const whole = words(played("tool"));
  for (let cut = 0; cut <= events.length; cut++) {
    for (let behind = 0; behind <= Math.min(cut, 3); behind++) {
      const conversation = new Conversation();
      conversation.load(joined(events, cut - behind, cut));
      for (const event of events) conversation.apply(event);
      assert.deepEqual(words(conversation), whole, `messages up to ${cut - behind}, state up to ${cut}`);
    }
  }
});

// The snapshot of a host that asked for the messages after one event, and for the state after a later one.
function joined(events: AgentEventParams[], messagesAt: number, stateAt: number) {
  const seen = events.slice(0, messagesAt);
  const lastSeq = events[stateAt - 1]?.seq ?? 0;
  const shot = snapshot([], {
    sessionId: events[0]?.sessionId ?? "",
    lastSeq,
    phase: "turn",
    isStreaming: true,
  });
  shot.messages = { ...storedBy(seen), hasMore: false, lastSeq: seen.at(-1)?.seq ?? 0 };
  const live: AssistantMessage[] = [];
  const tools = new Map<
    string,
    { toolCallId: string; toolName: string; args: Record<string, unknown>; output: string }
  >();
  for (const { event } of events.slice(0, stateAt)) {
    if (event.type === "message_start" && event.message.role === "assistant") {
      live.push({ ...event.message, content: [] });
    }
    if (event.type === "message_end" && event.message.role === "assistant") live.pop();
    if (event.type === "tool_execution_start") tools.set(event.toolCallId, { ...event, output: "" });
    if (event.type === "tool_execution_end") tools.delete(event.toolCallId);
    if (event.type === "message_update" && live[0]) grow(live[0], event.assistantMessageEvent);
  }
  shot.state.live = { tools: [...tools.values()], requests: [], ...(live[0] ? { message: live[0] } : {}) };
  return shot;
}

function grow(
  message: AssistantMessage,
  event: (AgentEvent & { type: "message_update" })["assistantMessageEvent"],
): void {
  const at = event.contentIndex;
  if (event.type === "text_start") message.content[at] = { type: "text", text: "" };
  const block = message.content[at];
  if (event.type === "text_delta" && block?.type === "text") block.text += event.delta;
  if (event.type === "toolcall_end") message.content[at] = event.toolCall;
}

test("the result of a call that stands on an older page joins its call when that page comes", () => {
  const messages = [
    user("Look."),
    reply(call("c", "read", { path: "a.txt" })),
    result("c", "read", "a\n"),
    reply({ type: "text", text: "Seen." }),
  ];
  const conversation = new Conversation();
  const shot = snapshot(messages.slice(2));
  shot.messages.hasMore = true;
  conversation.load(shot);
  assert.deepEqual(words(conversation), ["tool: read done: a\n", "text: Seen."]);
  conversation.older({ messages: messages.slice(0, 2), entryIds: ["o0", "o1"], hasMore: false, lastSeq: 0 });
  assert.deepEqual(words(conversation), ["user: Look.", "tool: read a.txt done: a\n", "text: Seen."]);
});

test("a call without a result stands still when nothing runs any more", () => {
  const conversation = new Conversation();
  conversation.load(
    snapshot([user("Go."), reply(call("c", "bash", { command: "sleep 9" }))], { interrupted: true }),
  );
  assert.deepEqual(words(conversation), ["user: Go.", "tool: $ sleep 9 stopped: "]);
});

test("a truncated message is replaced by the whole one", () => {
  const conversation = new Conversation();
  const cut = { ...result("c", "bash", "beginning…"), truncated: true };
  conversation.load(snapshot([reply(call("c", "bash", { command: "ls" })), cut]));
  const row = conversation.rows()[0] as ToolRow;
  assert.equal(row.truncatedEntryId, "e1");
  conversation.transcript.whole("e1", result("c", "bash", "beginning and end"));
  assert.equal(row.output.text, "beginning and end");
  assert.equal(row.truncatedEntryId, undefined);
});

test("a reply that was cut offers the whole, and is replaced by it", () => {
  const conversation = new Conversation();
  const cut = { ...reply({ type: "text", text: "beginning…" }), truncated: true };
  conversation.load(snapshot([user("Tell."), cut]));
  const note = conversation.rows().at(-1);
  assert.ok(note?.kind === "note" && note.cutEntryId === "e1");
  conversation.transcript.whole("e1", reply({ type: "text", text: "beginning and end" }));
  assert.deepEqual(words(conversation), ["user: Tell.", "text: beginning and end"]);
});

test("a long reply grows in its last row alone", () => {
  const conversation = beginning("bench");
  let seq = 0;
  const apply = (event: AgentEvent) => conversation.apply({ sessionId: "bench", seq: ++seq, event });
  apply({ type: "message_start", messageId: "m", message: { ...reply(), stopReason: "pending" } });
  for (let at = 0; at < 200; at++) {
    const before = conversation.rows().map((row) => row.version);
    const delta = `Paragraph ${at} ${"word ".repeat(30)}\n\n`;
    apply({
      type: "message_update",
      messageId: "m",
      assistantMessageEvent: { type: "text_delta", contentIndex: 0, delta },
    });
    const changed = before.filter((version, index) => conversation.rows()[index]?.version !== version).length;
    assert.ok(changed <= 1, `${changed} rows changed`);
  }
  assert.ok(conversation.rows().length > 10);
});

test("when the daemon is gone, nothing goes on and nothing waits any more", () => {
  const { events, permissions } = recorded("permissions");
  const conversation = beginning(events[0]?.sessionId ?? "");
  conversation.apply({
    sessionId: conversation.state?.sessionId ?? "",
    seq: 0.5,
    event: { type: "session_changed", phase: "turn" },
  });
  const [ask] = permissions;
  assert.ok(ask);
  conversation.permission(ask);
  conversation.runs("b", "sleep 9", false);
  conversation.gone();
  assert.equal(conversation.running, false);
  assert.deepEqual(conversation.waiting(), []);
  assert.deepEqual(words(conversation), ["tool: edit valve.txt stopped: ", "bash: sleep 9 stopped: "]);
});

test("events of another session are not shown", () => {
  const conversation = beginning("mine");
  conversation.apply({
    sessionId: "other",
    seq: 1,
    event: { type: "diagnostic", severity: "error", message: "no" },
  });
  assert.deepEqual(words(conversation), []);
});

test("a failed reply that is retried says so until the retry ends", () => {
  const conversation = beginning("s");
  let seq = 0;
  const apply = (event: AgentEvent) => conversation.apply({ sessionId: "s", seq: ++seq, event });
  apply({ type: "auto_retry_start", attempt: 1, maxAttempts: 3, delayMs: 2_000, errorMessage: "overloaded" });
  assert.deepEqual(words(conversation), ["busy: Trying again in 2 s (1 of 3)"]);
  apply({ type: "auto_retry_end", success: true, attempt: 1 });
  assert.deepEqual(words(conversation), []);
});

test("a retry is told of below the reply that failed last", () => {
  const conversation = beginning("s");
  let seq = 0;
  const apply = (event: AgentEvent) => conversation.apply({ sessionId: "s", seq: ++seq, event });
  const retry = {
    type: "auto_retry_start" as const,
    maxAttempts: 3,
    delayMs: 2_000,
    errorMessage: "overloaded",
  };
  apply({ ...retry, attempt: 1 });
  apply({ type: "diagnostic", severity: "error", message: "overloaded" });
  apply({ ...retry, attempt: 2 });
  assert.equal(words(conversation).at(-1), "busy: Trying again in 2 s (2 of 3)");
  assert.equal(words(conversation).filter((each) => each.startsWith("busy")).length, 1);
});

test("the session's state follows its changes", () => {
  const conversation = new Conversation();
  conversation.load({ ...snapshot([]), state: state({ interrupted: true }) });
  const event = {
    type: "session_changed" as const,
    phase: "turn" as const,
    isStreaming: true,
    removed: ["interrupted"],
  };
  conversation.apply({ sessionId: "bench", seq: 1, event });
  assert.equal(conversation.running, true);
  assert.equal(conversation.state?.interrupted, undefined);
});

test("what happens is told in words, for those who do not see it", () => {
  const conversation = played("tool");
  assert.deepEqual(conversation.takeNews(), ["A steam engine.", "Done"]);
  assert.deepEqual(conversation.takeNews(), []);
});
