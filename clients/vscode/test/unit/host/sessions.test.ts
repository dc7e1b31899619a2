import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentEventParams, PermissionRequestParams } from "../../../src/generated/protocol";
import { Daemon } from "../../../src/host/daemon";
import { Permissions } from "../../../src/host/permissions";
import { Sessions } from "../../../src/host/sessions";
import { isUndone } from "../../../src/view/changes";
import { next, scene } from "./playing";

scene(
  "events come in their order without a gap, and the state follows them",
  [[{ text: "Hello!" }]],
  async ({ daemon }) => {
    const sessions = new Sessions(daemon);
    const seen: AgentEventParams[] = [];
    sessions.onEvent((params) => void seen.push(params));
    sessions.onBreak(() => assert.fail("nothing was missed"));
    const session = await sessions.create({});
    const first = session.state.lastSeq;
    const wire = await daemon.use();
    await wire.call("prompt", { sessionId: session.id, message: "Say hello." });
    assert.equal(seen.at(-1)?.event.type, "agent_settled");
    assert.deepEqual(
      seen.map(({ seq }) => seq),
      seen.map((_, index) => first + 1 + index),
    );
    assert.equal(session.state.messageCount, 2);
    assert.equal(session.state.phase, "idle");
  },
);

scene(
  "a picture in the midst of a run has what goes on, and the events after it go on from there",
  [
    [
      { text: "One two three four five six seven eight nine ten.", pieces: 10 },
      { delayMs: 50 },
      { text: " Done." },
    ],
  ],
  async ({ daemon }) => {
    const sessions = new Sessions(daemon);
    const later: AgentEventParams[] = [];
    const session = await sessions.create({});
    const wire = await daemon.use();
    sessions.onEvent((params) => void later.push(params));
    const settled = next(sessions.onEvent, "the run settles", ({ event }) => event.type === "agent_settled");
    await wire.call("prompt", { sessionId: session.id, message: "Count.", wait: "accepted" });
    const { messages, state } = await sessions.picture(wire, session.id);
    assert.ok(state.lastSeq >= messages.lastSeq);
    await settled;
    const after = later.filter(({ seq }) => seq > messages.lastSeq);
    assert.deepEqual(
      after.map(({ seq }) => seq),
      after.map((_, index) => messages.lastSeq + 1 + index),
    );
  },
);

scene("a gap in the numbers asks for another picture", [], async ({ daemon }) => {
  const sessions = new Sessions(daemon);
  const wire = await daemon.use();
  const session = await sessions.create({});
  const broken = next(sessions.onBreak, "the gap is told");
  session.state = { ...session.state, lastSeq: session.state.lastSeq - 3 };
  await wire.call("session/configure", { sessionId: session.id, name: "another" });
  assert.equal(await broken, session);
  assert.equal(session.state.name, "another");
});

scene(
  "a session that another process writes is opened to be looked at",
  [[{ text: "Kept." }]],
  async ({ daemon, launch, folder }) => {
    const mine = new Sessions(daemon);
    const session = await mine.create({});
    const wire = await daemon.use();
    await wire.call("prompt", { sessionId: session.id, message: "Keep it." });
    const silent = { info() {}, warn() {}, error() {} };
    const other = new Daemon(
      () => launch,
      () => ({ processId: process.pid, cwd: folder }),
      silent,
    );
    try {
      const theirs = await new Sessions(other).open({ sessionId: session.id });
      assert.ok(theirs.readOnly);
      assert.equal(theirs.state.messageCount, 2);
    } finally {
      await other.stop();
    }
  },
);

scene(
  "a permission request reaches whoever answers, and the answer counts once",
  [[{ toolCall: { name: "bash", arguments: { command: "touch made" } } }], [{ text: "Then not." }]],
  async ({ daemon, folder }) => {
    const permissions = new Permissions();
    daemon.onConnect((wire) =>
      wire.answers("permission/request", (params, token) => permissions.ask(params, token)),
    );
    const sessions = new Sessions(daemon);
    const session = await sessions.create({});
    const asked = next<PermissionRequestParams>(permissions.onAsk, "the question");
    const wire = await daemon.use();
    const run = wire.call("prompt", { sessionId: session.id, message: "Make it." });
    const request = await asked;
    assert.equal(request.sessionId, session.id);
    const reject = request.options.find(({ kind }) => kind === "reject_once");
    assert.ok(permissions.answer(request.requestId, reject?.id, { feedback: "Use the editor." }));
    assert.ok(!permissions.answer(request.requestId, reject?.id));
    assert.equal((await run).text, "Then not.");
    const { messages } = await wire.call("session/messages", { sessionId: session.id });
    assert.match(JSON.stringify(messages), /Use the editor\./);
    const { existsSync } = await import("node:fs");
    assert.ok(!existsSync(join(folder, "made")));
  },
);

scene(
  "a request is over when its run is aborted",
  [[{ toolCall: { name: "bash", arguments: { command: "touch made" } } }]],
  async ({ daemon, folder }) => {
    writeFileSync(join(folder, "README.md"), "");
    const permissions = new Permissions();
    daemon.onConnect((wire) => {
      wire.answers("permission/request", (params, token) => permissions.ask(params, token));
      wire.hears("request/resolved", ({ requestId, reason }) => permissions.resolved(requestId, reason));
    });
    const sessions = new Sessions(daemon);
    const session = await sessions.create({});
    const asked = next(permissions.onAsk, "the question");
    const settled = next(permissions.onSettle, "it is over");
    const wire = await daemon.use();
    await wire.call("prompt", { sessionId: session.id, message: "Make it.", wait: "accepted" });
    await asked;
    await wire.call("abort", { sessionId: session.id });
    assert.equal((await settled).choice, undefined);
    assert.deepEqual(permissions.of(session.id), []);
  },
);

scene(
  "a picture has what its runs changed, by the entry of what was asked for, and what was taken back of it",
  [[{ toolCall: { name: "write", arguments: { path: "a.txt", content: "a" } } }], [{ text: "Done." }]],
  async ({ daemon }) => {
    const sessions = new Sessions(daemon);
    const { id: sessionId } = await sessions.create({ permissionMode: "full" });
    const wire = await daemon.use();
    await wire.call("prompt", { sessionId, message: "Write it." });
    const { messages, checkpoints } = await sessions.picture(wire, sessionId);
    assert.deepEqual(
      checkpoints.map(({ kind, entryId, settled }) => ({ kind, entryId, settled })),
      [{ kind: "run", entryId: messages.entryIds[0], settled: true }],
    );
    const [run] = checkpoints;
    assert.ok(run);
    await wire.call("checkpoint/restore", { sessionId, checkpointId: run.checkpointId });
    const later = await sessions.checkpoints(wire, sessionId);
    assert.deepEqual(
      later.map((one) => isUndone(one, later)),
      [false, true],
    );
  },
);
