import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import type * as vscode from "vscode";
import { launch, newSession, permissionMode } from "../../../src/host/settings";
import { settings, Uri, workspace } from "../vscode";

beforeEach(() => {
  settings.clear();
  workspace.isTrusted = true;
  workspace.workspaceFolders = [];
});

const folder = (path: string) => ({ uri: Uri.file(path) });

test("in a window of several folders the others are further directories", () => {
  workspace.workspaceFolders = [folder("/one"), folder("/two"), folder("/three")];
  const begun = newSession(Uri.file("/two") as unknown as vscode.Uri);
  assert.equal(begun.cwd, "/two");
  assert.deepEqual(begun.additionalDirectories, ["/one", "/three"]);
  workspace.workspaceFolders = [folder("/one"), { uri: Uri.parse("vscode-vfs://github/two") }];
  assert.equal(newSession(Uri.file("/one") as unknown as vscode.Uri).additionalDirectories, undefined);
});

test("in a workspace that is not trusted no mode asks less than ask", () => {
  for (const mode of ["full", "edits", "ask"]) {
    settings.set("permissionMode", mode);
    workspace.isTrusted = true;
    assert.equal(permissionMode(), mode);
    workspace.isTrusted = false;
    assert.equal(permissionMode(), "ask");
  }
  settings.set("permissionMode", "readonly");
  assert.equal(permissionMode(), "readonly");
});

test("the daemon is started in the first folder, with the mode, and the person's arguments behind it", () => {
  workspace.workspaceFolders = [folder("/one"), folder("/two")];
  settings.set("arguments", ["--log-level", "debug"]);
  settings.set("environment", { A: "1", B: null });
  const { cwd, args, env } = launch();
  assert.equal(cwd, "/one");
  assert.deepEqual(args, ["--permission-mode", "ask", "--log-level", "debug"]);
  assert.deepEqual(env, { A: "1", B: null });
});
