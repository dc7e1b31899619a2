/** Windows of every kind: the first of all, with several folders, and with a folder that is not trusted. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stage } from "./rig/case.mts";
import { until } from "./rig/until.mts";
import { Window } from "./rig/window.mts";

const scene = stage({ restricted: true });

scene(
  "the walkthrough is shown in the first window of all, and in no other",
  { settings: { "workbench.startupEditor": "welcomePage" } },
  async ({ window, browser, server }) => {
    const step = "Choose a model";
    await window.page.getByText(step, { exact: true }).first().waitFor();
    await window.picture("walkthrough");
    const second = await Window.open(browser, server, server.folder("another"));
    try {
      await second.openChat();
      await second.tab("Welcome").waitFor();
      assert.equal(await second.page.getByText(step, { exact: true }).count(), 0);
    } finally {
      await second.close();
    }
  },
);

scene("the other folders of a window are read without a question", {}, async ({ browser, server }) => {
  const first = server.folder("first");
  const other = server.folder("other", { "pump.txt": "It lifts water.\n" });
  const both = join(server.root, "both.code-workspace");
  writeFileSync(both, JSON.stringify({ folders: [{ path: first }, { path: other }] }));
  server.script(
    [{ toolCall: { name: "read", arguments: { path: join(other, "pump.txt") } } }],
    [{ text: "I have read it." }],
  );
  const window = await Window.open(browser, server, both);
  try {
    const chat = await window.openChat();
    await chat.send("Read it");
    await chat.text("I have read it.").waitFor();
    await chat.idle();
    const result = server.entries(first).find(({ message }) => message?.role === "toolResult");
    assert.match(JSON.stringify(result?.message?.content), /It lifts water/);
    await window.run("pi: New Session");
    await window.picked("other").click();
    await chat.text("I have read it.").waitFor({ state: "detached" });
    await chat.send("Read it");
    await chat.text("I have read it.").waitFor();
    await until("the session is one of the folder that was chosen", () => server.entries(other).length > 0);
  } finally {
    await window.close();
  }
});

const GREETING = `
def setup(api):
    api.command("greet", "Greet", lambda text: api.ui.notify(f"hello {text}"))
`;

scene(
  "in a folder that is not trusted pi asks whatever the mode, and its extensions wait until it is",
  {
    settings: { "pi.permissionMode": "full" },
    replies: [
      [{ toolCall: { name: "bash", arguments: { command: "touch made.txt" } } }],
      [{ text: "Then not." }],
    ],
  },
  async ({ window, folder }) => {
    mkdirSync(join(folder, ".pi", "extensions-py"), { recursive: true });
    writeFileSync(join(folder, ".pi", "extensions-py", "greeting.py"), GREETING);
    const chat = await window.openChat();
    const banner = chat.banner(/restricted mode/);
    await banner.waitFor();
    await window.picture("restricted");
    await chat.send("Make it");
    await chat.permission("touch made.txt").getByRole("button", { name: "Reject", exact: true }).click();
    await chat.text("Then not.").waitFor();
    await chat.idle();
    assert.equal(existsSync(join(folder, "made.txt")), false);
    await banner.getByRole("button", { name: /trust/i }).click();
    const editor = window.page.locator(".workspace-trust-editor");
    await editor.getByRole("button", { name: "Trust", exact: true }).click();
    await banner.waitFor({ state: "detached" });
    await window.openChat();
    await until("its command is offered", async () => {
      await chat.prompt.fill("");
      await chat.prompt.pressSequentially("/gree");
      return (await chat.root.getByRole("option", { name: /greet/ }).count()) > 0;
    });
    await chat.send("/greet you");
    await window.notification("hello you").waitFor();
  },
);
