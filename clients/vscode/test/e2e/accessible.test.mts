/** What axe-core finds in the chat, in its main states and in each kind of theme: nothing. */
import assert from "node:assert/strict";
import { violations } from "./rig/axe.mts";
import { type Stage, stage } from "./rig/case.mts";

const scene = stage();

const THEMES = {
  "vs-dark": "Default Dark Modern",
  vs: "Default Light Modern",
  "hc-black": "Default High Contrast",
  "hc-light": "Default High Contrast Light",
};

const ANSWER = `It is **mended**, see [pump.py](pump.py):

\`\`\`python
def lift(water):  # all of it
    return water
\`\`\`

| part | state |
|---|---|
| valve | \`open\` |

> Pumps lift water.
`;

async function checked(state: string, { window, server }: Stage): Promise<string[]> {
  const found: string[] = [];
  for (const [kind, theme] of Object.entries(THEMES)) {
    server.settings({ "workbench.colorTheme": theme });
    await window.themed(kind);
    for (const each of await violations(window.chat)) found.push(`${state} in ${theme}: ${each}`);
  }
  return found;
}

scene(
  "axe-core finds nothing against WCAG A and AA in the main states of the chat, in any kind of theme",
  {
    files: { "pump.py": "def lift(water):\n    return None\n", "valve.py": "OPEN = True\n" },
    replies: [
      [
        { thinking: "I had better read it." },
        { text: "I look first." },
        { toolCall: { name: "read", arguments: { path: "valve.py" } } },
        { toolCall: { name: "read", arguments: { path: "no-such-file.py" } } },
        {
          toolCall: {
            name: "edit",
            arguments: { path: "pump.py", edits: [{ oldText: "None", newText: "water" }] },
          },
        },
      ],
      [{ toolCall: { name: "bash", arguments: { command: "echo '2 passed'; exit 3" } } }],
      [{ text: ANSWER }, { delayMs: 3_600_000 }],
    ],
  },
  async (stage) => {
    const { window } = stage;
    const found: string[] = [];
    const chat = await window.openChat();
    await chat.begun();
    found.push(...(await checked("an empty chat", stage)));

    await chat.send("Mend it");
    const edit = chat.permission("pump.py");
    await edit.getByRole("button", { name: /^Reject with a word/ }).click();
    await edit.getByRole("textbox").waitFor();
    found.push(...(await checked("an edit that waits for an answer", stage)));

    await edit.getByRole("button", { name: "Allow", exact: true }).click();
    const command = chat.permission("2 passed");
    await command.waitFor();
    found.push(...(await checked("a command that waits for an answer", stage)));

    await command.getByRole("button", { name: "Allow", exact: true }).click();
    await chat.text("Pumps lift water.").waitFor();
    await chat.send("And paint it");
    await chat.queued("And paint it").waitFor();
    found.push(
      ...(await checked("an answer that streams behind tool calls, with a message that waits", stage)),
    );

    await chat.prompt.press("Escape");
    await chat.idle();
    await chat.root.getByRole("button", { name: "Attach" }).click();
    await chat.root.getByRole("menuitem").first().waitFor();
    found.push(...(await checked("a run that was stopped, with a menu open", stage)));
    assert.deepEqual(found, []);
  },
);
