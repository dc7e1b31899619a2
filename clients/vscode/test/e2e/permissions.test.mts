/** Permissions: asked in the chat or, when that is hidden, in a notification, and answered once. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { stage } from "./rig/case.mts";
import { until } from "./rig/until.mts";

const scene = stage();

const touch = (file: string) => ({ toolCall: { name: "bash", arguments: { command: `touch ${file}` } } });

scene(
  "a command runs once it is allowed in the chat, and not before",
  { replies: [[{ text: "I make it." }, touch("made.txt")], [{ text: "It is made." }]] },
  async ({ window, folder }) => {
    const chat = await window.openChat();
    await chat.send("Make it");
    const allow = chat.permission("touch made.txt").getByRole("button", { name: "Allow", exact: true });
    await allow.waitFor();
    assert.equal(existsSync(join(folder, "made.txt")), false);
    await window.picture("permission-dark");
    await allow.click();
    await chat.text("It is made.").waitFor();
    assert.equal(existsSync(join(folder, "made.txt")), true);
  },
);

scene(
  "a command is rejected with a word, which the model is told",
  { replies: [[touch("made.txt")], [{ text: "Then not." }]] },
  async ({ window, folder, server }) => {
    const chat = await window.openChat();
    await chat.send("Make it");
    const card = chat.permission("touch made.txt");
    await card.getByRole("button", { name: /^Reject with a word/ }).click();
    await card.getByRole("textbox").fill("Use the other folder");
    await card.getByRole("textbox").press("Enter");
    await chat.text("Then not.").waitFor();
    assert.equal(existsSync(join(folder, "made.txt")), false);
    const result = server.entries(folder).find(({ message }) => message?.role === "toolResult");
    assert.match(JSON.stringify(result?.message?.content), /Use the other folder/);
  },
);

scene(
  "what is allowed for the session is not asked again, and the rule is said in words",
  { replies: [[touch("a.txt")], [touch("a.txt")], [{ text: "Both are made." }]] },
  async ({ window, folder }) => {
    const chat = await window.openChat();
    await chat.send("Make both");
    const name = "Allow in this session: the command touch a.txt";
    await chat.permission("touch a.txt").getByRole("button", { name }).click();
    await chat.text("Both are made.").waitFor();
    assert.equal(existsSync(join(folder, "a.txt")), true);
  },
);

scene(
  "a request is a notification while the chat is hidden, and is answered there",
  {
    replies: [
      [
        { text: "Wait." },
        { toolCall: { name: "read", arguments: { path: "/etc/hostname" } } },
        touch("made.txt"),
      ],
      [{ text: "It is made." }],
    ],
  },
  async ({ window, folder }) => {
    const chat = await window.openChat();
    await chat.send("Make it");
    await chat.permission("hostname").waitFor();
    await window.hideChat();
    await window.notification(/hostname/).waitFor();
    await window.picture("permission-notification");
    await window.press(/hostname/, "Allow");
    await window.press(/touch made\.txt/, "Allow");
    await until("the command ran", () => existsSync(join(folder, "made.txt")));
    await window.openChat();
    await chat.text("It is made.").waitFor();
  },
);
