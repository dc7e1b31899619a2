import assert from "node:assert/strict";
import test from "node:test";
import { Chats } from "../../../src/host/chats";
import { Tabs } from "../../../src/host/tabs";
import * as vscode from "../vscode";

/** What VS Code keeps of a window. */
class Memory {
  readonly #values = new Map<string, unknown>();

  get<T>(key: string, usual?: T): T {
    return (this.#values.get(key) ?? usual) as T;
  }

  async update(key: string, value: unknown): Promise<void> {
    this.#values.set(key, value);
  }
}

function panel() {
  const closed = new vscode.EventEmitter<void>();
  return {
    webview: {
      onDidReceiveMessage: () => undefined,
      asWebviewUri: (uri: unknown) => uri,
      postMessage: async () => true,
    },
    visible: true,
    active: true,
    onDidDispose: closed.event,
    onDidChangeViewState: () => undefined,
    close: () => closed.fire(),
  };
}

/** A window on a memory. */
function opened(memory: Memory) {
  const chats = new Chats(vscode.Uri.file("/extension") as never, new Tabs(memory as never));
  return {
    chats,
    tab(sessionId: string) {
      const shown = panel();
      vscode.window.createWebviewPanel = () => shown;
      return { chat: chats.openTab(sessionId), shown };
    },
    async back(kept: unknown): Promise<string | undefined> {
      await chats.deserializeWebviewPanel(panel() as never, kept);
      return chats.all.at(-1)?.sessionId;
    },
  };
}

test("a tab that comes back before its page remembers anything shows its session, and not a new one", async () => {
  const memory = new Memory();
  opened(memory).tab("s1");
  assert.equal(await opened(memory).back(undefined), "s1");
});

test("a tab shows after a reload what it showed last, also when another session was opened in it", async () => {
  const memory = new Memory();
  const { chats, tab } = opened(memory);
  chats.shows(tab("s1").chat, "s2");
  assert.equal(await opened(memory).back(undefined), "s2");
});

test("of several tabs each has its session again, whatever of them a page remembers", async () => {
  const memory = new Memory();
  const first = opened(memory);
  for (const id of ["s1", "s2", "s3"]) first.tab(id);
  const second = opened(memory);
  assert.equal(await second.back({ sessionId: "s2" }), "s2");
  assert.equal(await second.back(undefined), "s3");
  // One was not looked at in that window.
  assert.equal(await opened(memory).back({ sessionId: "s3" }), "s3");
  const third = opened(memory);
  assert.equal(await third.back({ sessionId: "s3" }), "s3");
  assert.equal(await third.back({ sessionId: "s2" }), "s2");
  assert.equal(await third.back(undefined), "s1");
});

test("a tab that a person closed does not come back in another one", async () => {
  const memory = new Memory();
  opened(memory).tab("s1").shown.close();
  assert.equal(await opened(memory).back(undefined), undefined);
});

test("what a page remembers is not believed to be a session's name when it is none", async () => {
  assert.equal(await opened(new Memory()).back({ sessionId: { toString: "x" } }), undefined);
});
