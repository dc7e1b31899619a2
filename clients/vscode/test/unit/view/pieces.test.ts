import assert from "node:assert/strict";
import { test } from "node:test";
import { splitStored } from "../../../src/view/attachments";
import { parseDiff } from "../../../src/view/diff";
import { linkTarget } from "../../../src/view/links";
import { Offsets } from "../../../src/view/offsets";
import { MOST_KEPT, Output } from "../../../src/view/output";
import { between } from "../../../src/view/proposal";
import { ENOUGH, Splitter } from "../../../src/view/splitter";
import { LONG_REPLY } from "../../bench/scenes";

const TEXTS = [
  LONG_REPLY,
  "",
  "one line",
  "- a\n\n- b\n\n  more\n\n```js\nx\n```\n\nend\n",
  "```\nopen and never closed\n\n\n# no heading\n",
  `${"para graph\n\n".repeat(400)}`,
  `${"- item\n".repeat(4_000)}`,
  "text\n~~~~ python\n```\n~~~\n~~~~\nafter",
];

test("pieces joined are the text, however it came", () => {
  for (const text of TEXTS) {
    const pieces = new Set<string>();
    for (const size of [1, 2, 3, 7, 64, 100_000]) {
      const splitter = new Splitter();
      for (let at = 0; at < text.length; at += size) splitter.append(text.slice(at, at + size));
      splitter.finish();
      assert.equal(splitter.text, text);
      pieces.add(JSON.stringify(splitter.pieces));
    }
    assert.equal(pieces.size, 1, "the pieces do not depend on how the text was cut");
  }
});

test("only the last piece changes when text is added", () => {
  const splitter = new Splitter();
  for (let at = 0; at < LONG_REPLY.length; at += 50) {
    const before = [...splitter.pieces];
    const first = splitter.append(LONG_REPLY.slice(at, at + 50));
    assert.equal(first, before.length - 1);
    assert.deepEqual(splitter.pieces.slice(0, first), before.slice(0, first));
  }
});

test("a fence is a piece of its own, and pieces stay small", () => {
  const splitter = new Splitter();
  splitter.append(LONG_REPLY);
  const fences = splitter.pieces.filter((piece) => piece.includes("```"));
  assert.equal(fences.length, 40);
  for (const fence of fences) assert.match(fence, /^```ts\n[\s\S]*```\n$/);
  assert.ok(Math.max(...splitter.pieces.map((piece) => piece.length)) < 3 * ENOUGH);
});

test("output that comes in pieces is the same lines as output that comes whole", () => {
  const text = "one\ntwo\n\nthree";
  const output = new Output();
  for (const letter of text) output.append(letter);
  assert.equal(output.text, text);
  assert.deepEqual(output.lines, Output.of(text).lines);
  assert.equal(output.shown, 4);
  output.append("\n");
  assert.equal(output.shown, 4);
});

test("output that never ends keeps its end, and counts what went", () => {
  const output = new Output();
  for (let at = 0; at < 40; at++) output.append(`${String(at).padEnd(99_999, ".")}\n`);
  assert.ok(output.text.length <= MOST_KEPT * 1.3);
  assert.equal(output.text.length + output.omitted, 4_000_000);
  assert.match(output.lines.at(-2) ?? "", /^39/);
});

test("a line of any length is shown cut", () => {
  const output = Output.of("x".repeat(200_000));
  assert.ok(output.line(0).length < 2_100);
  assert.match(output.line(0), /198000 more$/);
});

test("offsets are the sums of heights, also after changes", () => {
  const heights = Array.from({ length: 1_000 }, (_, index) => 10 + (index % 7));
  const offsets = new Offsets();
  offsets.reset([...heights]);
  for (const index of [0, 3, 500, 999]) {
    offsets.set(index, 100);
    heights[index] = 100;
  }
  let top = 0;
  heights.forEach((height, index) => {
    assert.equal(offsets.top(index), top);
    assert.equal(offsets.at(top), index);
    assert.equal(offsets.at(top + height - 1), index);
    top += height;
  });
  assert.equal(offsets.total, top);
  assert.equal(offsets.at(top + 5_000), 999);
});

test("only links that are safe to follow lead anywhere", () => {
  for (const href of [
    "javascript:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "command:workbench.action.quit",
    "vscode://x",
    "JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    "//example.org",
    "",
    "#top",
    "\u0001javascript:x",
  ]) {
    assert.equal(linkTarget(href), null, href);
  }
  assert.deepEqual(linkTarget("https://example.org/a"), { kind: "web", href: "https://example.org/a" });
  assert.deepEqual(linkTarget("mailto:a@b.c"), { kind: "web", href: "mailto:a@b.c" });
  assert.deepEqual(linkTarget("src/a%20b.ts"), { kind: "file", uri: "src/a b.ts" });
  const range = { start: { line: 11, character: 0 }, end: { line: 13, character: 0 } };
  assert.deepEqual(linkTarget("src/a.ts#L12-L14"), { kind: "file", uri: "src/a.ts", range });
  assert.deepEqual(linkTarget("a.ts:12-14"), { kind: "file", uri: "a.ts", range });
});

test("a diff is read file by file, with the numbers of its lines", () => {
  const diff =
    "diff --git a/x.md b/x.md\nnew file mode 100644\n--- /dev/null\n+++ b/x.md\n@@ -0,0 +1,2 @@\n+--- one\n++++ two\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -3,3 +3,2 @@\n a\n-b\n c\n# pi-rpc: more is missing\n";
  const [one, two] = parseDiff(diff);
  assert.deepEqual([one?.path, one?.kind, one?.added, one?.removed], ["x.md", "created", 2, 0]);
  assert.deepEqual(
    one?.lines.map((line) => line.text),
    ["--- one", "+++ two"],
  );
  assert.deepEqual([two?.path, two?.kind, two?.added, two?.removed], ["y", "changed", 0, 1]);
  assert.deepEqual(two?.lines[1], { kind: "removed", text: "b", old: 4 });
  assert.equal(two?.lines.at(-1)?.kind, "note");
});

test("a proposal shows the lines that would change, and two around them", () => {
  const lines = between("1\n2\n3\n4\n5\n6\n", "1\n2\n3\nfour\n5\n6\n");
  assert.deepEqual(
    lines.map((line) => `${line.kind} ${line.text}`),
    ["same 2", "same 3", "removed 4", "added four", "same 5", "same 6"],
  );
});

test("a proposal of several changes shows each by itself, and what lies far between them not", () => {
  const before = Array.from({ length: 20 }, (_, at) => `${at + 1}\n`);
  const after = before.map((line) => (["3\n", "6\n", "18\n"].includes(line) ? `new ${line}` : line));
  after.splice(18, 1);
  const lines = between(before.join(""), after.join(""));
  assert.deepEqual(
    lines.map((line) => `${line.kind} ${line.old ?? ""} ${line.new ?? ""} ${line.text}`.trim()),
    [
      "same 1 1 1",
      "same 2 2 2",
      "removed 3  3",
      "added  3 new 3",
      "same 4 4 4",
      "same 5 5 5",
      "removed 6  6",
      "added  6 new 6",
      "same 7 7 7",
      "same 8 8 8",
      "hunk",
      "same 16 16 16",
      "same 17 17 17",
      "removed 18  18",
      "removed 19  19",
      "added  18 new 18",
      "same 20 19 20",
    ],
  );
});

test("a text that looks like attachments over and over is read at once, and is none", () => {
  const closed = '<selection path="a">\nb\n</selection>';
  for (const stored of [
    'x\n\n<selection path="a">\nb'.repeat(60_000),
    `${'x\n\n<selection path="a">\nb'.repeat(60_000)}\n</selection>x`,
    `${`${closed}\n\n`.repeat(60_000)}x`,
  ]) {
    assert.deepEqual(splitStored(stored), { text: stored, attachments: [] });
  }
  assert.equal(splitStored(`Why?\n\n${closed}\n\n${closed}`).attachments.length, 2);
  assert.equal(splitStored(`Why?\n\n${closed}\n\n${closed}`).text, "Why?");
  const behind = splitStored(`${closed}\n\n${closed}x\n\n${closed}`);
  assert.equal(behind.attachments.length, 1);
});
