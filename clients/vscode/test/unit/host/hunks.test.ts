import assert from "node:assert/strict";
import test from "node:test";
import { standing } from "../../../src/host/review";
import { hunksOf, linesOf, showsAsProposed, withLineEnds, without } from "../../../src/shared/hunks";

test("lines keep their ends, and put together they are the text", () => {
  for (const text of ["", "a", "a\n", "a\r\nb\rc\nd", "\n\n", "\r\n", "a\n\nb"]) {
    assert.equal(linesOf(text).join(""), text);
  }
  assert.deepEqual(linesOf("a\r\nb\rc\nd"), ["a\r\n", "b\r", "c\n", "d"]);
});

test("hunks are the least that differs", () => {
  const hunks = hunksOf(linesOf("a\nb\nc\nd\ne\n"), linesOf("a\nB\nc\nd\nnew\ne\n"));
  assert.deepEqual(hunks, [
    { oldStart: 1, oldEnd: 2, newStart: 1, newEnd: 2 },
    { oldStart: 4, oldEnd: 4, newStart: 4, newEnd: 5 },
  ]);
  assert.deepEqual(hunksOf(["a\n"], ["a\n"]), []);
  assert.deepEqual(hunksOf([], ["a\n"]), [{ oldStart: 0, oldEnd: 0, newStart: 0, newEnd: 1 }]);
});

test("whatever hunks are rejected: with all the old text is there, with none the new one", () => {
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % below;
  };
  for (let round = 0; round < 300; round++) {
    const lines = () => Array.from({ length: random(12) }, () => `${random(4)}\n`);
    const [old, now] = [lines(), lines()];
    const hunks = hunksOf(old, now);
    assert.equal(without(old, now, hunks), old.join(""));
    assert.equal(without(old, now, []), now.join(""));
    for (const [index, hunk] of hunks.entries()) {
      const left = hunksOf(old, linesOf(without(old, now, [hunk])));
      const before = hunks[index - 1];
      assert.ok(left.every(({ oldStart }) => oldStart !== hunk.oldStart || before?.oldEnd === oldStart));
    }
  }
});

test("two long texts with nothing in common are one hunk, and soon", () => {
  const old = Array.from({ length: 20_000 }, (_, index) => `old ${index}\n`);
  const now = Array.from({ length: 20_000 }, (_, index) => `new ${index}\n`);
  assert.deepEqual(hunksOf(old, now), [{ oldStart: 0, oldEnd: 20_000, newStart: 0, newEnd: 20_000 }]);
});

test("what an editor shows of mixed line ends and a mark is written as it was proposed", () => {
  const proposed = "\ufeffone\r\ntwo\nthree\r\nfour";
  const shown = "one\r\ntwo\r\nthree\r\nfour";
  assert.ok(showsAsProposed(shown, proposed));
  assert.equal(withLineEnds("one\r\ntwo\r\nTHREE\r\nfour", proposed), "\ufeffone\r\ntwo\nTHREE\r\nfour");
  assert.ok(!showsAsProposed("one\r\ntwo\r\nthree\r\nfour\r\n", proposed));
  assert.ok(showsAsProposed("", ""));
});

test("how much of an edit stands: kept, taken out, written anew", () => {
  const edit = { oldText: "a\nb\nc\nd\ne\n", newText: "A\nb\nc\nd\nE\n" };
  assert.deepEqual(standing(edit, "A\nb\nc\nd\nE\n"), { hunks: 2, rejected: 0, edited: false });
  assert.deepEqual(standing(edit, "a\nb\nc\nd\nE\n"), { hunks: 2, rejected: 1, edited: false });
  assert.deepEqual(standing(edit, "A\nb\nc\nd\nEE\n"), { hunks: 2, rejected: 0, edited: true });
  assert.deepEqual(standing(edit, edit.oldText), { hunks: 2, rejected: 2, edited: false });
  assert.deepEqual(standing({ newText: "new\n" }, "new\n"), { hunks: 1, rejected: 0, edited: false });
});
