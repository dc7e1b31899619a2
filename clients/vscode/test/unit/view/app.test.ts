import assert from "node:assert/strict";
import { test } from "node:test";
import { App } from "../../../src/webview/app";
import { chat, events, running, snapshot, user } from "../../bench/scenes";
import { drawn, find, frames, NotedHost, press, type } from "./page";

async function started(...said: Parameters<App["take"]>[0][]) {
  const host = new NotedHost();
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  const app = new App(root, host);
  for (const one of said) app.take(one);
  await drawn();
  const input = root.querySelector("textarea");
  assert.ok(input);
  return { host, root, app, input };
}

function shown(root: HTMLElement, selector: string): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>(selector)].filter((one) => one.closest("[hidden]") === null);
}

test("without a message there is something to begin with, and sessions to go on with", async () => {
  const summary = {
    sessionId: "s9",
    path: "",
    cwd: "",
    created: "",
    modified: "",
    messageCount: 3,
    firstMessage: "Mend it",
  };
  const { root, host } = await started(
    { type: "session", session: snapshot([]) },
    { type: "recent", sessions: [summary] },
  );
  assert.equal(shown(root, ".empty").length, 1);
  root.querySelector<HTMLElement>(".recent")?.click();
  assert.deepEqual(host.posted.at(-1), { type: "openRecent", sessionId: "s9" });
});

test("a message goes to the host and stands in the conversation at once", async () => {
  const { host, app, input } = await started({ type: "session", session: snapshot([]) });
  type(input, "Hello");
  press(input, "Enter");
  const sent = host.posted.at(-1);
  assert.ok(sent?.type === "send" && sent.how === "prompt" && sent.text === "Hello");
  assert.equal(app.conversation.rows().length, 1);
});

test("a message that was not taken is given back with the reason", async () => {
  const { host, app, input, root } = await started({ type: "session", session: snapshot([]) });
  type(input, "Hello");
  press(input, "Enter");
  const sent = host.posted.at(-1);
  assert.ok(sent?.type === "send");
  app.take({
    type: "refused",
    clientMessageId: sent.clientMessageId,
    error: "There is no key for anthropic.",
  });
  assert.equal(input.value, "Hello");
  assert.equal(app.conversation.rows().length, 0);
  assert.equal(shown(root, ".prompt-error")[0]?.textContent, "There is no key for anthropic.");
});

test("a message that lacks a model is given back, and the banner alone says what is missing", async () => {
  const { host, app, input, root } = await started({ type: "session", session: snapshot([]) });
  type(input, "Hello");
  press(input, "Enter");
  const sent = host.posted.at(-1);
  assert.ok(sent?.type === "send");
  const error = "no model is configured";
  app.take({ type: "refused", clientMessageId: sent.clientMessageId, error, kind: "modelRequired" });
  assert.equal(input.value, "Hello");
  assert.deepEqual(shown(root, ".prompt-error"), []);
});

test("the state of a run is seen: what waits, what goes on, what is asked, and what is wrong", async () => {
  const { root, host, input } = await started(...running());
  assert.deepEqual(
    shown(root, ".queue-item .queue-text").map((one) => one.textContent),
    ["Only the valve, not the pump.", "Then write the changelog."],
  );
  assert.match(shown(root, ".activity")[0]?.textContent ?? "", /Waiting for your answer/);
  assert.match(shown(root, ".banner.error")[0]?.textContent ?? "", /pi-rpc has stopped/);
  find(root, "Restart").click();
  assert.deepEqual(host.posted.at(-1), { type: "banner", id: "x", action: "restart" });
  find(root, "Take back to edit").click();
  assert.deepEqual(host.posted.at(-1), { type: "dequeue", itemId: "q1", edit: true });
  press(input, "Escape");
  assert.deepEqual(host.posted.at(-1), { type: "stop" });
});

test("after the daemon has ended nothing goes on, and what waited is in the prompt box", async () => {
  const { root, app, input } = await started(...running());
  app.take({ type: "gone" });
  await drawn();
  assert.deepEqual(shown(root, ".queue-item"), []);
  assert.deepEqual(shown(root, ".activity"), []);
  assert.equal(input.value, "Only the valve, not the pump.\n\nThen write the changelog.");
});

test("an interrupted session offers to go on, a locked one says that it is read-only", async () => {
  const interrupted = await started({
    type: "session",
    session: snapshot([user("Go.")], { interrupted: true }),
  });
  find(interrupted.root, "Continue").click();
  assert.deepEqual(interrupted.host.posted.at(-1), { type: "continue" });
  const locked = await started({ type: "session", session: { ...snapshot([user("Go.")]), readOnly: true } });
  assert.match(shown(locked.root, ".banner")[0]?.textContent ?? "", /read-only/);
  assert.equal(locked.input.disabled, true);
});

test("context, cost and model are seen", async () => {
  const { root } = await started(...chat());
  assert.equal(root.querySelector(".gauge")?.getAttribute("aria-valuenow"), "21");
  assert.equal(root.querySelector(".cost")?.textContent, "$0.31");
  assert.equal(root.querySelector(".picker.model")?.textContent, "Claude Sonnet 4.5");
});

test("many events are drawn in one frame", async () => {
  const { app } = await started({ type: "session", session: snapshot([]) });
  const before = frames.count;
  for (let at = 0; at < 500; at++)
    app.take(events([{ type: "diagnostic", severity: "info", message: `${at}` }]));
  assert.equal(frames.count - before, 1);
});

test("nothing is attached by itself: what is attached is asked for", async () => {
  const { root, host } = await started({ type: "session", session: snapshot([]) });
  assert.equal(shown(root, ".chip").length, 0);
  find(root, "Attach").click();
  find(root, "The selection").click();
  assert.deepEqual(host.posted.at(-1), { type: "command", command: "attachSelection" });
});

test("older messages are asked for once, at the beginning of what is there", async () => {
  const session = snapshot([user("Later.")]);
  session.messages.hasMore = true;
  const { host, app } = await started({ type: "session", session });
  const asked = () => host.posted.filter((one) => one.type === "loadOlder").length;
  assert.equal(asked(), 1);
  app.take(events([{ type: "diagnostic", severity: "info", message: "x" }]));
  await drawn();
  assert.equal(asked(), 1);
  const page = { messages: [user("Earlier.")], entryIds: ["o0"], hasMore: false, lastSeq: 0 };
  app.take({ type: "older", beforeEntryId: "e0", page });
  await drawn();
  assert.equal(asked(), 1);
  assert.equal(app.conversation.rows().length, 3);
});

test("what happened is told politely", async () => {
  const { root, app } = await started({ type: "session", session: snapshot([user("Go.")]) });
  const region = root.querySelector("[aria-live=polite]");
  app.take(
    events([
      { type: "agent_settled", runId: "r", stopReason: "error", aborted: false, errorMessage: "No credit." },
    ]),
  );
  await drawn();
  assert.equal(region?.textContent, "No credit.");
});

test("while the daemon is away the page does not forget which session it is to show again", async () => {
  const { host } = await started(
    { type: "session", session: snapshot([]) },
    { type: "session", session: null },
  );
  assert.equal(host.kept.sessionId, snapshot([]).state.sessionId);
});
