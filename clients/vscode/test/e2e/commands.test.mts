/** What is done around the chat: questions of extensions, the tree, checkpoints, sessions, keys, problems. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stage } from "./rig/case.mts";
import { writeLongSession } from "./rig/long.mts";
import { until } from "./rig/until.mts";
import type { Window } from "./rig/window.mts";

const scene = stage();

const ASKING = `
from pi_rpc.agent.ports import Choice


def setup(api):
    async def deploy(arguments):
        api.ui.status("deploy", "deploying $(alert)")
        where = await api.ui.choose("Where?", [Choice("staging", "Staging"), Choice("live", "Live")])
        sure = await api.ui.confirm("Sure?", "It is Friday.")
        word = await api.ui.enter("Password", secret=True)
        note = await api.ui.edit("What is new?", "Pumps")
        api.ui.status("deploy", None)
        api.ui.notify(f"{where}, {sure}, {word}, {note}", "warning")

    api.command("deploy", "Deploy the project", deploy)
`;

/** An entry of the session tree. */
const entry = (window: Window, text: string | RegExp) =>
  window.page.locator(".pane-body .monaco-list-row").filter({ hasText: text }).first();

const button = (window: Window, label: string) =>
  window.page.locator(".monaco-dialog-box .monaco-button").filter({ hasText: label }).first();

/** Type into the input that a command opens. */
async function answer(window: Window, command: string, text: string): Promise<void> {
  await window.run(command);
  const input = window.page.locator(
    ".quick-input-widget .quick-input-message:visible ~ *, .quick-input-title",
  );
  await input.first().waitFor();
  await window.page.locator(".quick-input-widget input:visible").first().fill(text);
  await window.page.keyboard.press("Enter");
}

scene(
  "an extension's questions are put with VS Code's own inputs, and its words are shown",
  {},
  async (stage) => {
    const { window, server } = stage;
    const extensions = join(server.agentDir, "extensions-py");
    mkdirSync(extensions, { recursive: true });
    writeFileSync(join(extensions, "asking.py"), ASKING);
    const chat = await window.openChat();
    await chat.send("/deploy");
    await window.status("deploying $").waitFor();
    await window.picked("Live").click();
    await window.picked("Yes").click();
    await window.page.locator(".quick-input-widget input[type=password]").fill("hush");
    await window.page.keyboard.press("Enter");
    await window.tab("Answer to pi").waitFor();
    await window.page.locator(".editor-instance").first().click();
    await window.page.keyboard.press("Control+End");
    await window.page.keyboard.type(" and valves");
    await window.run("pi: Send Answer");
    await window.notification("live, True, hush, Pumps and valves").waitFor();
    await window.tab("Answer to pi").waitFor({ state: "detached" });
    await window.status("deploying").waitFor({ state: "detached" });
  },
);

const GREETING = `
def setup(api):
    api.command("greet", "Greet", lambda text: api.ui.notify(f"hello {text}"))
`;

scene("a project's own extensions are loaded when the person says so, and not before", {}, async (stage) => {
  const { window, folder } = stage;
  mkdirSync(join(folder, ".pi", "extensions-py"), { recursive: true });
  writeFileSync(join(folder, ".pi", "extensions-py", "greeting.py"), GREETING);
  const chat = await window.openChat();
  const question = "This project has settings, skills or extensions";
  await window.notification(question).waitFor();
  await chat.prompt.pressSequentially("/gree");
  await until("the commands are known", async () => (await chat.root.getByRole("listbox").count()) === 0);
  await window.press(question, "Load Them");
  await until("its command is offered", async () => {
    await chat.prompt.fill("");
    await chat.prompt.pressSequentially("/gree");
    return (await chat.root.getByRole("option", { name: /greet/ }).count()) > 0;
  });
  await chat.send("/greet you");
  await window.notification("hello you").waitFor();
});

scene(
  "a review that the window was loaded anew in is gone, and nothing was written",
  {
    files: { "pump.txt": "one\n" },
    replies: [
      [
        {
          toolCall: {
            name: "edit",
            arguments: { path: "pump.txt", edits: [{ oldText: "one", newText: "two" }] },
          },
        },
      ],
    ],
  },
  async ({ window, folder }) => {
    const chat = await window.openChat();
    await chat.send("Count on");
    await window.tab(/proposed by pi/).waitFor();
    await window.reload();
    await window.tab(/proposed by pi/).waitFor({ state: "detached" });
    assert.equal(readFileSync(join(folder, "pump.txt"), "utf8"), "one\n");
  },
);

scene(
  "from the session tree one goes back to a message, labels an entry, and forks a session",
  { replies: [[{ text: "First answer." }], [{ text: "Second answer." }], [{ text: "Third answer." }]] },
  async ({ window, server, folder }) => {
    const chat = await window.openChat();
    await chat.send("Begin");
    await chat.text("First answer.").waitFor();
    await chat.idle();
    await chat.send("Go on");
    await chat.text("Second answer.").waitFor();
    await chat.idle();
    await window.run("pi: Focus on Session Tree View");
    const choose = async (text: string, action: string | RegExp) => {
      await entry(window, text).click({ button: "right" });
      const item = window.page.locator(".monaco-menu .action-item").filter({ hasText: action }).first();
      await item.waitFor();
      // A menu that has just opened takes no click: it might be the one that opened it.
      await until("the menu has taken the click", async () => {
        if ((await item.count()) > 0) await item.click({ timeout: 2_000 }).catch(() => undefined);
        return (await item.count()) === 0;
      });
    };
    await entry(window, "Second answer.").waitFor();
    await choose("First answer.", "Label…");
    await window.page.locator(".quick-input-widget input:visible").first().fill("the start");
    await window.page.keyboard.press("Enter");
    await entry(window, "the start").waitFor();
    await choose("Go on", /^Branch from Here$/);
    await until("the message is given back", async () => (await chat.prompt.inputValue()) === "Go on");
    await chat.text("Second answer.").waitFor({ state: "detached" });
    await chat.send("Go elsewhere");
    await chat.text("Third answer.").waitFor();
    await chat.idle();
    await entry(window, "branch 2").waitFor();
    await window.picture("tree");
    await choose("First answer.", "Fork at This Entry");
    await window.tab(/^pi/).waitFor();
    const first = server.entries(folder).filter(({ message }) => message?.role === "assistant");
    assert.ok(JSON.stringify(first).includes("First answer."));
  },
);

scene(
  "a checkpoint shows what a run changed and puts the file back, and that is taken back again",
  {
    settings: { "pi.permissionMode": "edits" },
    files: { "pump.txt": "one\n" },
    replies: [
      [
        {
          toolCall: {
            name: "edit",
            arguments: { path: "pump.txt", edits: [{ oldText: "one", newText: "two" }] },
          },
        },
      ],
      [{ text: "Done." }],
    ],
  },
  async ({ window, folder }) => {
    const text = () => readFileSync(join(folder, "pump.txt"), "utf8");
    const chat = await window.openChat();
    await chat.send("Count on");
    await chat.text("Done.").waitFor();
    await chat.idle();
    assert.equal(text(), "two\n");
    await window.run("pi: Checkpoints");
    await window.picked("Count on").click();
    await window.tab(/Changes of/).waitFor();
    await window.run("pi: Checkpoints");
    await window.picked("Count on").hover();
    await window.picked("Count on").locator("[aria-label^='Put the files back']").click();
    await button(window, "Restore").click();
    await until("the file is put back", () => text() === "one\n");
    await window.press("Restored: pump.txt", "Take it back");
    await until("that is taken back", () => text() === "two\n");
  },
);

scene(
  "problems and selections go along as chips that are seen, and the model reads them",
  {
    files: { "pump.json": '{ "lift":: 1 }\n' },
    replies: [[{ text: "One colon is enough." }]],
  },
  async ({ window, server, folder }) => {
    const chat = await window.openChat();
    const editor = await window.openFile("pump.json");
    await editor.click();
    await window.page.keyboard.press("Control+A");
    await window.run("pi: Ask pi about Selection");
    await chat.root
      .getByText(/pump\.json/)
      .first()
      .waitFor();
    await chat.root
      .getByRole("button", { name: /^remove/i })
      .first()
      .click();
    await editor.click();
    await until("the problem is found", async () => (await editor.locator(".squiggly-error").count()) > 0);
    await window.run("pi: Fix Problems of the Active File");
    await chat.text("One colon is enough.").waitFor();
    await chat.idle();
    const said = server.entries(folder).find(({ message }) => message?.role === "user");
    const content = JSON.stringify(said?.message?.content);
    assert.match(content, /Fix th/);
    assert.match(content, /<diagnostics path=/);
    assert.doesNotMatch(content, /<selection/, "what was removed is not sent");
  },
);

scene(
  "sessions are named, found by their words, exported and deleted",
  { replies: [[{ text: "Hello." }]] },
  async ({ window, server, folder }) => {
    const chat = await window.openChat();
    await chat.send("Tell me of pumps");
    await chat.text("Hello.").waitFor();
    await chat.idle();
    await answer(window, "pi: Rename Session", "All about pumps");
    await until("the name is stored", () =>
      server.entries(folder).some(({ type, name }) => type === "session_info" && name === "All about pumps"),
    );
    await window.run("pi: New Session");
    await chat.text("Hello.").waitFor({ state: "detached" });
    await until("one can type in the new session", () =>
      chat.prompt.evaluate((box) => document.hasFocus() && document.activeElement === box),
    );
    await window.resume("All about pumps");
    await chat.text("Hello.").waitFor();
    await window.run("pi: Export Session");
    await window.picked("Markdown").click();
    const target = join(folder, "exported.md");
    const path = window.page.locator(".quick-input-widget input:visible").first();
    await until("a name is proposed", async () => (await path.inputValue()).endsWith(".md"));
    await path.fill(target);
    await window.page.locator(".quick-input-widget .monaco-button").filter({ hasText: "OK" }).first().click();
    await until("it is exported", () => existsSync(target) && readFileSync(target, "utf8").includes("pumps"));
    await window.run("pi: Delete Session");
    await button(window, "Delete").click();
    await chat.text("Hello.").waitFor({ state: "detached" });
    await until("its file is in the trash", () => {
      const files = readdirSync(server.agentDir, { recursive: true, encoding: "utf8" });
      return files.some((name) => name.includes(".trash") && name.endsWith(".jsonl"));
    });
  },
);

scene(
  "of more than a hundred sessions the newest are listed, and any is found by its words",
  {},
  async (stage) => {
    const { window, server, folder } = stage;
    for (let number = 1; number <= 120; number++) {
      writeLongSession(server.agentDir, folder, 4, 100, `About pump number ${number}.`);
    }
    const chat = await window.openChat();
    await chat.begun();
    await window.run("pi: Resume Session…");
    await window.picked(/About pump/).waitFor();
    await window.picture("sessions");
    for (const number of [7, 113]) {
      await window.page.locator(".quick-input-widget input:visible").first().fill(`number ${number}.`);
      await window.picked(`About pump number ${number}.`).waitFor();
    }
    await window.picked("About pump number 113.").click();
    await chat.text("About pump number 113.").waitFor();
  },
);

scene(
  "what was changed since is left as it is when a run is undone, and can be undone later",
  {
    settings: { "pi.permissionMode": "edits" },
    files: { "pump.txt": "one\n", "valve.txt": "one\n" },
    replies: [
      ["pump.txt", "valve.txt"].map((path) => ({
        toolCall: { name: "edit", arguments: { path, edits: [{ oldText: "one", newText: "two" }] } },
      })),
      [{ text: "Done." }],
    ],
  },
  async ({ window, folder }) => {
    const text = (name: string) => readFileSync(join(folder, name), "utf8");
    const chat = await window.openChat();
    await chat.send("Count on");
    await chat.text("Done.").waitFor();
    await chat.idle();
    writeFileSync(join(folder, "valve.txt"), "mine\n");
    const undo = chat.log.getByRole("button", { name: "Undo", exact: true });
    await undo.click();
    await button(window, "Restore").click();
    await window.notification(/Left as they are: valve\.txt/).waitFor();
    assert.deepEqual([text("pump.txt"), text("valve.txt")], ["one\n", "mine\n"]);
    writeFileSync(join(folder, "valve.txt"), "two\n");
    await undo.click();
    await button(window, "Restore").click();
    await until("the rest is put back", () => text("valve.txt") === "one\n");
    assert.equal(text("pump.txt"), "one\n");
  },
);

scene(
  "a key is typed where it is not shown, and stored for the person alone",
  {},
  async ({ window, server }) => {
    await window.openChat();
    await window.run("pi: Set a Provider's Key");
    await window.page.locator(".quick-input-widget input:visible").first().fill("mistral");
    await window.picked(/mistral/i).click();
    await window.picked("Type or paste the key").click();
    const secret = window.page.locator(".quick-input-widget input[type=password]");
    await secret.fill("sk-not-a-real-key");
    await window.page.keyboard.press("Enter");
    await window.notification(/pi can ask/).waitFor();
    const path = join(server.agentDir, "auth.json");
    assert.match(readFileSync(path, "utf8"), /sk-not-a-real-key/);
    assert.equal(statSync(path).mode & 0o077, 0);
    assert.doesNotMatch(await window.page.content(), /sk-not-a-real-key/);
  },
);

scene(
  "two sessions run at once, in the side bar and in a tab, each with its own words",
  { replies: [[{ text: "I am at it." }, { delayMs: 3_600_000 }]] },
  async ({ window }) => {
    const chatAt = (place: number) =>
      window.page.frameLocator(`iframe.webview.ready >> nth=${place}`).frameLocator("iframe#active-frame");
    const seen = async (...texts: string[]): Promise<boolean> => {
      const logs = [0, 1].map((place) => chatAt(place).getByRole("log"));
      const said = await Promise.all(logs.map((log) => log.textContent({ timeout: 2_000 }).catch(() => "")));
      return said.some((log) => texts.every((text) => log?.includes(text)));
    };
    const first = await window.openChat();
    await first.send("Mend the pump");
    await until("the first session runs", () => seen("Mend the pump", "I am at it."));
    await window.run("pi: New Session in an Editor Tab");
    await window.tab(/^pi/).waitFor();
    const second = chatAt(1).getByRole("textbox", { name: "Message to pi" });
    await second.fill("Paint the pump");
    await second.press("Enter");
    await until("the second session runs", () => seen("Paint the pump", "I am at it."));
    await first.running();
    assert.ok(!(await seen("Paint the pump", "Mend the pump")), "each chat shows its own");
  },
);
