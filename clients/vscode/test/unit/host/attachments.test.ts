import assert from "node:assert/strict";
import { test } from "node:test";
import type { TextEditor } from "vscode";
import { selectionOf } from "../../../src/host/attachments";

function editor(scheme: string, path: string): TextEditor {
  const at = { line: 2, character: 0 };
  const selection = { start: at, end: { line: 3, character: 4 }, active: at, isEmpty: false };
  const uri = { scheme, path, toString: () => `${scheme}://${path}` };
  return { document: { uri, getText: () => "two lines" }, selection } as unknown as TextEditor;
}

test("what is selected in a file is attached with its place", () => {
  assert.deepEqual(selectionOf(editor("file", "/a/pump.py")), {
    type: "selection",
    uri: "file:///a/pump.py",
    range: { start: { line: 2, character: 0 }, end: { line: 3, character: 4 } },
    text: "two lines",
  });
});

test("what is selected in a document that was never saved is attached as a text", () => {
  const attached = selectionOf(editor("untitled", "Untitled-1"));
  assert.deepEqual(attached, { type: "text", name: "Untitled-1", text: "two lines" });
});
