/** The chat: what streams into it, what is sent from it, and what an answer cannot do. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stage } from "./rig/case.mts";
import type { Step } from "./rig/server.mts";
import { until } from "./rig/until.mts";

const scene = stage();

/** A reply that goes on until it is stopped. */
const endless: Step = { delayMs: 3_600_000 };

scene(
  "an answer is drawn while it streams, and Escape ends it",
  { replies: [[{ text: "The first half of it." }, endless, { text: "The second half." }]] },
  async ({ window, server, folder }) => {
    const chat = await window.openChat();
    await chat.send("Tell me a story");
    await chat.text("The first half of it.").waitFor();
    assert.equal(await chat.text("The second half.").count(), 0);
    await chat.running();
    await chat.prompt.press("Escape");
    await chat.idle();
    const last = await until("the aborted reply is stored", () =>
      server.entries(folder).findLast(({ message }) => message?.role === "assistant"),
    );
    assert.equal(last.message?.stopReason, "aborted");
  },
);

scene(
  "a tool call is a card with its output while it runs, and its result when it is done",
  {
    settings: { "pi.permissionMode": "full" },
    files: { "README.md": "# A pump\n\nIt lifts water.\n" },
    replies: [
      [
        { text: "I look." },
        { toolCall: { name: "read", arguments: { path: "README.md" } } },
        {
          toolCall: {
            name: "bash",
            arguments: { command: "echo has begun; until [ -e go ]; do sleep 0.05; done; echo has ended" },
          },
        },
      ],
      [{ toolCall: { name: "bash", arguments: { command: "echo to no avail; exit 3" } } }],
      [{ text: "It lifts water." }],
    ],
  },
  async ({ window, folder }) => {
    const chat = await window.openChat();
    await chat.send("What is this?");
    const output = chat.output(chat.tool("has begun"));
    await until("its output is live", async () => /^has begun\s*$/.test((await output.textContent()) ?? ""));
    writeFileSync(join(folder, "go"), "");
    await chat.text("It lifts water.").waitFor();
    await chat.idle();
    assert.match((await output.textContent()) ?? "", /^has begun\s+has ended\s*$/);
    await chat.tool("README.md").waitFor();
    await chat.tool("to no avail").getByText("exit 3", { exact: true }).waitFor();
    await window.picture("chat-dark");
  },
);

scene(
  "what is typed while it runs steers or follows up, and stopping gives it back",
  { replies: [[{ text: "I am on my way." }, endless]] },
  async ({ window }) => {
    const chat = await window.openChat();
    await chat.send("Go north");
    await chat.text("I am on my way.").waitFor();
    await chat.send("Rather go east");
    await chat.queued("Rather go east").waitFor();
    await chat.send("And then come home", "Alt+Enter");
    await chat.queued("And then come home").waitFor();
    await window.picture("queue");
    await chat.prompt.press("Escape");
    await chat.idle();
    const given = await until("the texts are back in the prompt", async () => {
      const text = await chat.prompt.inputValue();
      return text.includes("And then come home") && text;
    });
    assert.match(given, /Rather go east/);
    await chat.queued("Rather go east").waitFor({ state: "detached" });
  },
);

scene(
  "a steering message reaches the model of the run that goes on",
  {
    settings: { "pi.permissionMode": "full" },
    replies: [
      [
        { text: "A moment." },
        { toolCall: { name: "bash", arguments: { command: "until [ -e go ]; do sleep 0.05; done" } } },
      ],
      [{ text: "East it is." }],
    ],
  },
  async ({ window, folder, server }) => {
    const chat = await window.openChat();
    await chat.send("Go north");
    await chat.text("A moment.").waitFor();
    await chat.send("Rather go east");
    await chat.queued("Rather go east").waitFor();
    writeFileSync(join(folder, "go"), "");
    await chat.text("East it is.").waitFor();
    await chat.idle();
    const roles = server.entries(folder).flatMap(({ message }) => (message ? [message.role] : []));
    assert.deepEqual(roles, ["user", "assistant", "toolResult", "user", "assistant"]);
  },
);

scene(
  "an answer can neither run a script, load anything nor run a command of the editor",
  {
    replies: [
      [
        {
          text: [
            "Before it. <script>document.title = 'taken'</script>",
            '<img src=x onerror="document.title = \'taken\'"> <b onclick="alert(1)">bold</b>',
            "![picture](https://example.invalid/picture.png)",
            "[run](javascript:document.title='taken') [close](command:workbench.action.closeWindow)",
            "<iframe src='https://example.invalid/frame'></iframe>",
            "After it.",
          ].join("\n\n"),
        },
      ],
    ],
  },
  async ({ window }) => {
    const asked: string[] = [];
    window.page.on("request", (request) => asked.push(request.url()));
    const chat = await window.openChat();
    await chat.send("Take over");
    await chat.text("After it.").waitFor();
    await chat.idle();
    const frame = await chat.frame();
    assert.notEqual(await frame.title(), "taken");
    const found = await frame.evaluate(() => ({
      scripts: [...document.querySelectorAll("#app script")].length,
      frames: document.querySelectorAll("#app iframe").length,
      handlers: document.querySelectorAll("#app [onerror], #app [onclick]").length,
      links: [...document.querySelectorAll("#app a")].map((link) => link.getAttribute("href") ?? ""),
      images: [...document.querySelectorAll("#app img")].map((image) => image.getAttribute("src") ?? ""),
    }));
    assert.deepEqual([found.scripts, found.frames, found.handlers], [0, 0, 0]);
    for (const link of found.links) assert.doesNotMatch(link, /^(javascript|command):/i);
    for (const image of found.images) assert.doesNotMatch(image, /^https?:/i);
    assert.deepEqual(
      asked.filter((url) => url.includes("example.invalid")),
      [],
    );
    // And were there a way to put one in, the page's policy would stop it.
    const ran = await frame.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "document.title = 'taken'";
      document.body.append(script);
      return document.title === "taken";
    });
    assert.equal(ran, false);
  },
);

scene(
  "another model is chosen in the status bar, and the session goes on with it",
  { replies: [[{ text: "At your service." }]] },
  async ({ window, server, folder }) => {
    const mine = { baseUrl: "http://127.0.0.1:9/v1", api: "openai-completions", apiKey: "none" };
    const models = [{ id: "steam-engine", name: "Steam engine", contextWindow: 65_536 }];
    writeFileSync(
      join(server.agentDir, "models.json"),
      JSON.stringify({ providers: { mine: { ...mine, models } } }),
    );
    const chat = await window.openChat();
    await chat.send("Hello");
    await chat.text("At your service.").waitFor();
    await window.status(/Scripted/i).click();
    await window.picked(/steam.engine/i).click();
    await window.status(/steam.engine/i).waitFor();
    const change = await until("the change is stored", () =>
      server.entries(folder).findLast(({ type }) => type === "model_change"),
    );
    assert.equal(change.modelId, "steam-engine");
  },
);
