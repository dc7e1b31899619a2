import assert from "node:assert/strict";
import test from "node:test";
import { CancellationTokenSource } from "vscode-jsonrpc/node";
import type { PermissionChoice, PermissionRequestParams } from "../../../src/generated/protocol";
import { isTold, Permissions, subject } from "../../../src/host/permissions";

const OPTIONS: PermissionChoice[] = [
  { id: "1", name: "Allow once", kind: "allow_once" },
  { id: "2", name: "Always allow", kind: "allow_always", rule: "git status" },
  { id: "3", name: "Reject", kind: "reject_once" },
];

function request(requestId: string, more: Partial<PermissionRequestParams> = {}): PermissionRequestParams {
  return {
    requestId,
    sessionId: "s",
    toolCallId: "c",
    toolName: "bash",
    kind: "execute",
    title: "git st…",
    args: { command: "git status" },
    locations: [],
    options: OPTIONS,
    ...more,
  };
}

test("edits go with what allows, a word with what rejects, and neither the other way round", async () => {
  const permissions = new Permissions();
  const { token } = new CancellationTokenSource();
  const edits = [{ uri: "file:///a", newText: "b" }];
  const allowed = permissions.ask(request("1"), token);
  permissions.answer("1", "1", { feedback: "no", edits });
  assert.deepEqual(await allowed, { optionId: "1", edits });
  const rejected = permissions.ask(request("2"), token);
  permissions.answer("2", "3", { feedback: "no", edits });
  assert.deepEqual(await rejected, { optionId: "3", feedback: "no" });
  const dismissed = permissions.ask(request("3"), token);
  permissions.answer("3");
  assert.deepEqual(await dismissed, { cancelled: true });
});

test("an option that was not offered is no answer", async () => {
  const permissions = new Permissions();
  const asked = permissions.ask(request("1"), new CancellationTokenSource().token);
  assert.ok(!permissions.answer("1", "9"));
  assert.equal(permissions.of("s").length, 1);
  permissions.answer("1", "3");
  assert.deepEqual(await asked, { optionId: "3" });
});

test("options of a kind that we do not know are not offered", () => {
  const permissions = new Permissions();
  const strange = { id: "9", name: "Allow on Mondays", kind: "allow_mondays" } as unknown as PermissionChoice;
  void permissions.ask(request("1", { options: [...OPTIONS, strange] }), new CancellationTokenSource().token);
  assert.deepEqual(permissions.get("1")?.options, OPTIONS);
});

test("a cancelled request is over, with nothing allowed", async () => {
  const permissions = new Permissions();
  const source = new CancellationTokenSource();
  const reasons: string[] = [];
  permissions.onSettle(({ reason }) => void reasons.push(reason));
  const asked = permissions.ask(request("1"), source.token);
  source.cancel();
  assert.deepEqual(await asked, { cancelled: true });
  assert.deepEqual(reasons, ["aborted"]);
  assert.deepEqual(permissions.of("s"), []);
});

test("a request that was answered elsewhere says so, though it was cancelled first", () => {
  const permissions = new Permissions();
  const source = new CancellationTokenSource();
  const reasons: string[] = [];
  permissions.onSettle(({ reason }) => void reasons.push(reason));
  void permissions.ask(request("1"), source.token);
  source.cancel();
  permissions.resolved("1", "answered");
  assert.deepEqual(reasons, ["answered"]);
});

test("when the daemon is gone nothing waits any more", async () => {
  const permissions = new Permissions();
  const { token } = new CancellationTokenSource();
  const all = [permissions.ask(request("1"), token), permissions.ask(request("2"), token)];
  permissions.drop();
  assert.deepEqual(await Promise.all(all), [{ cancelled: true }, { cancelled: true }]);
});

test("of a command the whole text is shown, not its title", () => {
  assert.equal(subject(request("1")), "git status");
  assert.equal(subject(request("1", { args: { path: "a" }, title: "edit a" })), "edit a");
  assert.equal(subject(request("1", { args: { command: "ls", host: "prod" }, title: "remote" })), "remote");
});

test("where not all of a call can be told in a line, that is known", () => {
  const told = (more: Partial<PermissionRequestParams>) => isTold(request("1", more));
  assert.ok(told({}));
  assert.ok(told({ args: { command: "make", timeout: 60 } }));
  assert.ok(told({ args: { path: "/etc/hosts" }, title: "read /etc/hosts" }));
  assert.ok(!told({ args: { command: "make", host: "prod" }, title: "remote" }));
  assert.ok(!told({ args: { url: "https://example.org", body: { secret: 1 } }, title: "post" }));
  assert.ok(!told({ args: { path: "a" }, edits: [{ uri: "file:///a", newText: "b" }], title: "edit a" }));
});
