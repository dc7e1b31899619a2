/** With the real, embedded model: only what is so for any model is looked at. */
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
