/** Edits: into open documents, where they are undone as any edit is, and reviewed before they are made. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stage } from "./rig/case.mts";
import { until } from "./rig/until.mts";

const scene = stage();

const edit = (path: string, oldText: string, newText: string) => ({
  toolCall: { name: "edit", arguments: { path, edits: [{ oldText, newText }] } },
});

scene(
  "an edit lands in a document with unsaved text, which stays unsaved, and the editor's undo takes it back",
  {
    settings: { "pi.permissionMode": "edits" },
    files: { "pump.txt": "one\ntwo\nthree\n" },
    replies: [[edit("pump.txt", "two", "zwei")], [{ text: "Done." }]],
  },
  async ({ window, folder }) => {
    const editor = await window.openFile("pump.txt");
    await editor.click();
    await window.page.keyboard.press("Control+Home");
    await window.page.keyboard.type("mine ");
    await until("it is typed", async () => (await window.lines(editor)).startsWith("mine one"));
    const chat = await window.openChat();
    await chat.send("Say two in German");
    await chat.text("Done.").waitFor();
    await until("the edit is in the document", async () => {
      return (await window.lines(editor)).trimEnd() === "mine one\nzwei\nthree";
    });
    assert.equal(readFileSync(join(folder, "pump.txt"), "utf8"), "one\ntwo\nthree\n");
    await editor.click();
    await window.page.keyboard.press("Control+Z");
    await until("the edit is undone in one step", async () => {
      return (await window.lines(editor)).trimEnd() === "mine one\ntwo\nthree";
    });
  },
);

const TWENTY = Array.from({ length: 20 }, (_, number) => `line ${number + 1}`);
const both = TWENTY.map((line) => (line === "line 2" || line === "line 19" ? line.toUpperCase() : line));

scene(
  "an edit is looked at in the diff editor before it is made, and a rejected hunk is not",
  {
    files: { "pump.txt": `${TWENTY.join("\n")}\n` },
    replies: [
      [
        {
          toolCall: {
            name: "edit",
            arguments: {
              path: "pump.txt",
              edits: [
                { oldText: "line 2\n", newText: "LINE 2\n" },
                { oldText: "line 19\n", newText: "LINE 19\n" },
              ],
            },
          },
        },
      ],
      [{ text: "Done." }],
    ],
  },
  async ({ window, folder, server }) => {
    const chat = await window.openChat();
    await chat.send("Louder, please");
    await chat.permission("pump.txt").waitFor();
    const proposed = window.page.locator(".monaco-diff-editor .modified .view-line");
    await proposed.filter({ hasText: "LINE 19" }).waitFor();
    await window.picture("review-dark");
    assert.equal(readFileSync(join(folder, "pump.txt"), "utf8"), `${TWENTY.join("\n")}\n`);
    await proposed.filter({ hasText: /^LINE.2$/ }).click();
    await window.run("pi: Reject the Change at the Cursor");
    await chat.permission("pump.txt").getByRole("button", { name: "Allow 1 of 2 changes" }).waitFor();
    await window.run("pi: Accept Proposed Edit");
    await chat.text("Done.").waitFor();
    const wanted = both.map((line) => (line === "LINE 2" ? "line 2" : line));
    assert.equal(readFileSync(join(folder, "pump.txt"), "utf8"), `${wanted.join("\n")}\n`);
    const result = server.entries(folder).find(({ message }) => message?.role === "toolResult");
    assert.notEqual(result?.message?.isError, true);
  },
);

const NOTEBOOK = JSON.stringify({
  cells: [{ cell_type: "code", source: ["a = 1"], metadata: {}, outputs: [], execution_count: null }],
  metadata: {},
  nbformat: 4,
  nbformat_minor: 5,
});

scene(
  "a notebook is reviewed as the text that it is, and what is in another encoding is not touched",
  {
    files: { "pump.ipynb": NOTEBOOK },
    replies: [[edit("valve.txt", "two", "zwei"), edit("pump.ipynb", "a = 1", "a = 2")], [{ text: "Done." }]],
  },
  async ({ window, folder, server }) => {
    const foreign = Buffer.from("\ufeffone\r\ntwo\r\n", "utf16le");
    writeFileSync(join(folder, "valve.txt"), foreign);
    const chat = await window.openChat();
    await chat.send("Count on");
    await chat.permission("pump.ipynb").waitFor();
    const proposed = window.page.locator(".monaco-diff-editor .modified .view-line");
    await proposed.filter({ hasText: /a.=.2/ }).waitFor();
    await window.picture("review-notebook");
    await window.run("pi: Accept Proposed Edit");
    await chat.text("Done.").waitFor();
    await window.tab(/proposed by pi/).waitFor({ state: "detached" });
    assert.equal(readFileSync(join(folder, "pump.ipynb"), "utf8"), NOTEBOOK.replace("a = 1", "a = 2"));
    assert.deepEqual(readFileSync(join(folder, "valve.txt")), foreign);
    const results = server.entries(folder).filter(({ message }) => message?.role === "toolResult");
    assert.match(JSON.stringify(results), /valve\.txt is not UTF-8 text/);
  },
);
