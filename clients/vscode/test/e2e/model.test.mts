/** Without the scripted model: with the real, embedded one, of which only what is so for any model is looked at, and with none. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stage } from "./rig/case.mts";

const scene = stage({ scripted: false });

scene(
  "the embedded model's answer streams into the chat, and its tool call shows",
  { files: { "README.md": "# Pump\n\nA pump lifts water.\n" } },
  async ({ window, server }) => {
    const settings = { defaultProvider: "local", defaultModel: "smollm2-135m" };
    writeFileSync(join(server.agentDir, "settings.json"), JSON.stringify(settings));
    const chat = await window.openChat();
    await chat.send("Read the file README.md please.");
    await chat.tool("README.md").waitFor();
    await chat.idle();
    await chat.text(/\w/).last().waitFor();
    await window.picture("model");
  },
);

scene("a key is all that a first message lacked", {}, async ({ window, server }) => {
  writeFileSync(join(server.agentDir, "settings.json"), JSON.stringify({ defaultProvider: "openai" }));
  const chat = await window.openChat();
  await chat.send("Hello");
  const lacking = chat.banner(/no model is configured/);
  await lacking.getByRole("button", { name: "Set a key…" }).click();
  await window.picked("OpenAI").click();
  await window.picked("Type or paste the key").click();
  const secret = window.page.locator(".quick-input-widget input[type=password]");
  await secret.fill("a-key-of-nobody");
  await secret.press("Enter");
  await window.notification("pi can ask OpenAI now.").waitFor();
  await lacking.waitFor({ state: "detached" });
  await window.status("no model").waitFor({ state: "detached" });
  assert.equal(await chat.prompt.inputValue(), "Hello");
});
