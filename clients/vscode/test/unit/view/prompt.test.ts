import assert from "node:assert/strict";
import { test } from "node:test";
import { labelOf, splitStored } from "../../../src/view/attachments";
import { ago, dollars, duration, tokens } from "../../../src/view/format";
import { complete, completingAt, fitting, History, joined, meaningOf } from "../../../src/view/prompt";

test("a file is completed behind @, a command behind the first slash, and nothing elsewhere", () => {
  assert.deepEqual(completingAt("look at @sr", 11), { kind: "file", query: "sr", start: 8, end: 11 });
  assert.deepEqual(completingAt("/comp", 5), { kind: "command", query: "comp", start: 0, end: 5 });
  for (const text of ["mail a@b", "/compact now", "a /b", "@a b"])
    assert.equal(completingAt(text, text.length), null, text);
});

test("a choice takes the place of what was written, and a folder goes on", () => {
  const at = { kind: "file" as const, query: "va", start: 8, end: 11 };
  assert.deepEqual(complete("look at @va now", at, "src/valve.ts", false), {
    text: "look at @src/valve.ts now",
    caret: 22,
  });
  assert.deepEqual(complete("look at @va", at, "src/", true), { text: "look at @src/", caret: 13 });
});

test("commands that begin with what is written come first", () => {
  const commands = ["review", "preview", "fix"].map((name) => ({ name }));
  assert.deepEqual(
    fitting(commands, "re").map((one) => one.name),
    ["review", "preview"],
  );
});

test("one mark runs a command that the model is told of, two one that it is not", () => {
  assert.deepEqual(meaningOf("! ls -l"), { kind: "bash", command: "ls -l", excludeFromContext: false });
  assert.deepEqual(meaningOf("!!env"), { kind: "bash", command: "env", excludeFromContext: true });
  assert.deepEqual(meaningOf(" hi! "), { kind: "message", text: "hi!" });
  assert.equal(meaningOf("  \n"), null);
});

test("history goes back and forth, and keeps what was being written", () => {
  const history = new History(["one", "two"]);
  assert.equal(history.move(-1, "draft"), "two");
  assert.equal(history.move(-1, "two"), "one");
  assert.equal(history.move(-1, "one"), null);
  assert.equal(history.move(1, "one"), "two");
  assert.equal(history.move(1, "two"), "draft");
  assert.equal(history.move(1, "draft"), null);
  history.add("one");
  assert.deepEqual(history.texts, ["two", "one"]);
});

test("texts that are given back stand before what is being written", () => {
  assert.equal(joined(["a", "b"], " "), "a\n\nb");
  assert.equal(joined(["a"], "c"), "a\n\nc");
});

test("an attachment is called by its file and its lines", () => {
  const range = { start: { line: 11, character: 0 }, end: { line: 13, character: 0 } };
  assert.equal(
    labelOf({ type: "selection", uri: "file:///e/a%20b.ts", range, text: "x" }).label,
    "a b.ts:12-13",
  );
  const diagnostics = [{ range, message: "unused" }];
  assert.equal(labelOf({ type: "diagnostics", uri: "file:///e/a.ts", diagnostics }).label, "a.ts: 1 problem");
});

test("only what stands behind a message as attachments do is taken for one", () => {
  const text = 'What does <selection path="x"> mean?\n\n<selection path="x">\n\nno end';
  assert.deepEqual(splitStored(text), { text, attachments: [] });
  const both = splitStored(
    'Hi\n\n<attached-file path="/e/a&amp;b.py:3-4" />\n\n<attached-text name="log">\n<\\/attached-text>\n</attached-text>',
  );
  assert.equal(both.text, "Hi");
  assert.deepEqual(
    both.attachments.map((one) => [one.label, one.target, one.line]),
    [
      ["a&b.py:3-4", "/e/a&b.py", 2],
      ["log", undefined, undefined],
    ],
  );
});

test("numbers are short", () => {
  assert.deepEqual([950, 1_000, 12_340, 999_600, 1_250_000].map(tokens), [
    "950",
    "1k",
    "12.3k",
    "1M",
    "1.3M",
  ]);
  assert.deepEqual([0, 0.0042, 0.31, 12.4].map(dollars), ["$0.00", "$0.0042", "$0.31", "$12.40"]);
  assert.deepEqual([120, 3_400, 125_000].map(duration), ["120 ms", "3.4 s", "2 min 5 s"]);
  assert.equal(ago("2026-01-01T00:00:00Z", Date.parse("2026-01-01T03:10:00Z")), "3 h ago");
});

test("a duration is never told with sixty seconds", () => {
  const told = [59_940, 59_960, 119_600, 125_000].map(duration);
  assert.deepEqual(told, ["59.9 s", "1 min 0 s", "2 min 0 s", "2 min 5 s"]);
});
