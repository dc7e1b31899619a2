import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";
import { EditorTruth } from "../../../src/host/editorTruth";
import type { Wire } from "../../../src/host/wire";
import { Document, EndOfLine, Uri, workspace } from "../vscode";
import { until } from "./playing";

const question = { requestId: "q1" };
const told: { openDocuments: { uri: string; dirty: boolean }[] }[] = [];
const wire = {
  tell: (_: string, params: (typeof told)[number]) => void told.push(params),
  onEnd: () => undefined,
} as unknown as Wire;

beforeEach(() => {
  workspace.textDocuments = [];
  workspace.meanwhile = () => undefined;
  told.length = 0;
});

function truth(...texts: string[]): { truth: EditorTruth; documents: Document[] } {
  const made = new EditorTruth();
  const documents = texts.map((text, index) =>
    workspace.open(new Document(Uri.file(`/project/${index}.py`), text)),
  );
  made.begin(wire);
  return { truth: made, documents };
}

function edit(document: Document, version: number, newText: string) {
  const range = { start: { line: 1, character: 0 }, end: { line: 1, character: 3 } };
  return {
    ...question,
    edit: {
      documentChanges: [
        { textDocument: { uri: document.uri.toString(), version }, edits: [{ range, newText }] },
      ],
    },
  };
}

test("a document is read as the editor shows it, unsaved changes included", () => {
  const { truth: made, documents } = truth("one\n");
  const [document] = documents as [Document];
  document.eol = EndOfLine.CRLF;
  document.change("one\ntwo\n");
  const read = made.read({ ...question, uri: document.uri.toString() });
  assert.deepEqual(read, { open: true, text: "one\ntwo\n", version: 2, eol: "\r\n" });
  assert.deepEqual(made.read({ ...question, uri: "file:///project/closed.py" }), { open: false });
});

test("an edit of the version that was read is one step to undo, and leaves the document unsaved", async () => {
  const { truth: made, documents } = truth("one\ntwo\nthree\n");
  const [document] = documents as [Document];
  assert.deepEqual(await made.apply(edit(document, 1, "TWO")), { applied: true });
  assert.equal(document.text, "one\nTWO\nthree\n");
  assert.deepEqual(document.undo, ["one\ntwo\nthree\n"]);
  assert.ok(document.isDirty);
  assert.equal(document.saves, 0);
});

test("an edit of another version changes nothing", async () => {
  const { truth: made, documents } = truth("one\ntwo\nthree\n");
  const [document] = documents as [Document];
  document.change("one\ntwo and a half\nthree\n");
  const answer = await made.apply(edit(document, 1, "TWO"));
  assert.deepEqual(answer, { applied: false, failureReason: "version" });
  assert.equal(document.text, "one\ntwo and a half\nthree\n");
});

test("an edit that the person outran changes nothing, and says so", async () => {
  const { truth: made, documents } = truth("one\ntwo\nthree\n");
  const [document] = documents as [Document];
  workspace.meanwhile = () => document.change("mine\n");
  const answer = await made.apply(edit(document, 1, "TWO"));
  assert.deepEqual(answer, { applied: false, failureReason: "version" });
  assert.equal(document.text, "mine\n");
});

test("only the version that is meant is saved", async () => {
  const { truth: made, documents } = truth("one\n");
  const [document] = documents as [Document];
  document.change("two\n");
  const uri = document.uri.toString();
  assert.deepEqual(await made.save({ ...question, uri, version: 1 }), { saved: false });
  assert.equal(document.saves, 0);
  assert.deepEqual(await made.save({ ...question, uri, version: 2 }), { saved: true });
  assert.equal(document.saves, 1);
});

test("all open documents are told at first, and again when one becomes dirty, is saved, opened or closed", async () => {
  const { documents } = truth("one\n", "two\n");
  const [one, two] = documents as [Document, Document];
  const last = () => told.at(-1)?.openDocuments.map(({ uri, dirty }) => `${uri.at(-4)}${dirty ? "*" : ""}`);
  assert.deepEqual(last(), ["0", "1"]);
  one.change("ONE\n");
  await until("the change is told", () => last()?.join() === "0*,1");
  await one.save();
  await until("the saving is told", () => last()?.join() === "0,1");
  workspace.close(two);
  await until("the closing is told", () => last()?.join() === "0");
  workspace.open(new Document(Uri.parse("untitled:/Untitled-1"), ""));
  workspace.open(new Document(Uri.file("/project/3.py"), ""));
  await until("the opening is told", () => last()?.join() === "0,3");
});

test("typing on in a dirty document tells nothing new", () => {
  const { truth: made, documents } = truth("one\n");
  const [document] = documents as [Document];
  document.change("two\n");
  made.tell();
  const before = told.length;
  document.change("three\n");
  made.tell();
  assert.equal(told.length, before);
});

test("an answer comes after what is open was told", () => {
  const { truth: made, documents } = truth("one\n");
  const [document] = documents as [Document];
  document.change("two\n");
  made.read({ ...question, uri: document.uri.toString() });
  assert.deepEqual(
    told.at(-1)?.openDocuments.map(({ dirty }) => dirty),
    [true],
  );
});
