import assert from "node:assert/strict";
import test from "node:test";
import type { TreeNode } from "../../../src/generated/protocol";
import { type Strand, strandsOf, telling } from "../../../src/host/sessionTree";

function node(entryId: string, parentId?: string): TreeNode {
  return {
    entryId,
    type: "message",
    preview: entryId,
    timestamp: "",
    ...(parentId !== undefined && { parentId }),
  };
}

function drawn(strand: Strand): string {
  const ways = strand.ways.length > 0 ? `(${strand.ways.map(drawn).join(" | ")})` : "";
  return strand.nodes.map(({ entryId }) => entryId).join("") + ways;
}

test("a conversation without a fork is one list", () => {
  assert.deepEqual(strandsOf([node("a"), node("b", "a"), node("c", "b")]).map(drawn), ["abc"]);
  assert.deepEqual(strandsOf([]), []);
});

test("behind a fork each way is a list of its own, in the order of the entries", () => {
  const nodes = [
    node("a"),
    node("b", "a"),
    node("c", "b"),
    node("d", "b"),
    node("e", "d"),
    node("f", "d"),
    node("g", "c"),
  ];
  assert.deepEqual(strandsOf(nodes).map(drawn), ["ab(cg | d(e | f))"]);
});

test("entries whose parent is not listed begin lists of their own", () => {
  assert.deepEqual(strandsOf([node("b", "a"), node("c", "b"), node("x")]).map(drawn), ["bc", "x"]);
});

test("a conversation of 100,000 entries with a fork at each tenth does not end in a stack overflow", () => {
  const nodes = [node("0")];
  for (let index = 1; index < 100_000; index++)
    nodes.push(node(`${index}`, `${index % 10 === 0 ? index - 2 : index - 1}`));
  const [strand] = strandsOf(nodes.filter(({ parentId }) => parentId !== "-1"));
  assert.ok((strand?.ways.length ?? 0) > 0);
});

test("entries that hold settings are left out, and what follows them hangs below what was before", () => {
  const setting = (entryId: string, parentId?: string) => ({
    ...node(entryId, parentId),
    type: "model_change",
  });
  const nodes = [
    setting("m"),
    node("a", "m"),
    setting("n", "a"),
    node("b", "n"),
    node("c", "n"),
    setting("o", "c"),
  ];
  assert.deepEqual(strandsOf(telling(nodes, "c")).map(drawn), ["a(b | c)"]);
  assert.deepEqual(
    strandsOf(telling(nodes, "o")).map(drawn),
    ["a(b | co)"],
    "the leaf is seen whatever it is",
  );
  const labelled = nodes.map((each) => (each.entryId === "n" ? { ...each, label: "here" } : each));
  assert.deepEqual(strandsOf(telling(labelled, "c")).map(drawn), ["an(b | c)"]);
});
