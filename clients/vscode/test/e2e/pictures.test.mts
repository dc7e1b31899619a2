/** Pictures of the main states, in each kind of theme and in a narrow side bar. README.md shows some of them. */
import { stage } from "./rig/case.mts";
import type { Step } from "./rig/server.mts";

const scene = stage();

const PUMP = `def lift(water, height):
    """Lift water."""
    if height > 10:
        return None
    return water
`;

const edit: Step = {
  toolCall: {
    name: "edit",
    arguments: {
      path: "pump.py",
      edits: [
        { oldText: "        return None\n", newText: '        raise ValueError("too high to lift")\n' },
      ],
    },
  },
};

const ANSWER = `\`lift\` returned \`None\` for a height that it cannot reach, and **callers went on with it**. Now it raises:

\`\`\`python
def lift(water, height):
    """Lift water."""
    if height > 10:
        raise ValueError("too high to lift")
    return water
\`\`\`

- The tests pass: see [pump.py](pump.py).
- Nothing else called it.
`;

const CONVERSATION: Step[][] = [
  [
    { thinking: "Let me look at the function before I change it." },
    { text: "I read it first." },
    { toolCall: { name: "read", arguments: { path: "pump.py" } } },
  ],
  [edit],
  [{ toolCall: { name: "bash", arguments: { command: "echo '2 passed in 0.02s'" } } }],
  [{ text: ANSWER }],
];

const THEMES = {
  dark: "Default Dark Modern",
  light: "Default Light Modern",
  "high-contrast": "Default High Contrast",
};

scene(
  "a conversation is legible in dark, light and high contrast, and in a narrow window",
  {
    settings: { "pi.permissionMode": "full", "workbench.colorTheme": THEMES.dark },
    files: { "pump.py": PUMP },
    replies: CONVERSATION,
  },
  async ({ window, server }) => {
    await window.openFile("pump.py");
    const chat = await window.openChat();
    await window.widenSideBar(420);
    await chat.send("lift() hides that it cannot reach. Mend that.");
    await chat.text("Nothing else called it.").waitFor();
    await chat.idle();
    for (const [name, theme] of Object.entries(THEMES)) {
      server.settings({ "pi.permissionMode": "full", "workbench.colorTheme": theme });
      await window.themed(name === "high-contrast" ? "hc-black" : `vs${name === "dark" ? "-dark" : ""}`);
      await window.picture(`chat-${name}`);
    }
    server.settings({ "pi.permissionMode": "full", "workbench.colorTheme": THEMES.dark });
    await window.themed("vs-dark");
    await window.page.setViewportSize({ width: 420, height: 800 });
    await window.picture("chat-narrow");
  },
);

scene(
  "a proposed edit is legible beside the question about it",
  {
    settings: { "workbench.colorTheme": THEMES.dark },
    files: { "pump.py": PUMP },
    replies: [[edit], [{ text: "Done." }]],
  },
  async ({ window }) => {
    const chat = await window.openChat();
    await window.widenSideBar(420);
    await chat.send("lift() hides that it cannot reach. Mend that.");
    await chat.permission("pump.py").waitFor();
    const proposed = window.page.locator(".monaco-diff-editor .modified .view-line");
    await proposed.filter({ hasText: "raise" }).waitFor();
    await window.picture("review-dark");
  },
);
