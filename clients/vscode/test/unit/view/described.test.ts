import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation } from "../../../src/view/conversation";
import type { ToolRow } from "../../../src/view/rows";
import { call, reply, snapshot, user } from "../../bench/scenes";

const PLACES = [{ uri: "file:///engine/a.txt" }];

function calls(conversation: Conversation): Pick<ToolRow, "tool" | "title" | "locations">[] {
  return conversation
    .rows()
    .filter((row) => row.kind === "tool")
    .map(({ tool, title, locations }) => ({ tool, title, locations }));
}

test("calls of earlier and those that run are called what the daemon calls them", () => {
  const shot = snapshot([user("Rename it."), reply(call("a", "rename", { from: "x" }))]);
  const described = { kind: "edit" as const, title: "Rename x to y", locations: PLACES };
  shot.messages.calls = [{ toolCallId: "a", ...described }];
  const running = { kind: "execute" as const, title: "Make it", locations: [] };
  shot.state.live = {
    tools: [{ toolCallId: "b", toolName: "make", args: {}, output: "", ...running }],
    requests: [],
  };
  const conversation = new Conversation();
  conversation.load(shot);
  assert.deepEqual(calls(conversation), [
    { tool: described.kind, title: described.title, locations: PLACES },
    { tool: running.kind, title: running.title, locations: [] },
  ]);
});
