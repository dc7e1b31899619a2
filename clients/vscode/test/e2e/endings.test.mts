/** What ends and begins again: windows, daemons, and two of them on one session. */
import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { stage } from "./rig/case.mts";
import { Server } from "./rig/server.mts";
import { until } from "./rig/until.mts";
import { launch, Window } from "./rig/window.mts";

const scene = stage();

const onlyDaemon = async (find: () => { pid: number }[]) =>
  until("one daemon runs", () => {
    const [first, ...more] = find();
    return more.length === 0 ? first : undefined;
  });

/** Another program than the daemon. */
function program(server: Server, name: string, script: string): string {
  const path = join(server.root, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

scene("nothing is started before it is used", {}, async ({ window, server }) => {
  await window.status(/./).waitFor();
  assert.deepEqual(server.daemons(), []);
});

scene(
  "a session is there again after the window was loaded anew, and goes on",
  { replies: [[{ text: "I am the first answer." }], [{ text: "I am the second answer." }]] },
  async ({ window, server, folder }) => {
    let chat = await window.openChat();
    await chat.send("First question");
    await chat.text("I am the first answer.").waitFor();
    const before = await onlyDaemon(() => server.daemons());
    await window.stored(`"pi.session":"${server.sessionId(folder)}"`);
    await window.reload();
    chat = await window.openChat();
    await chat.text("First question").waitFor();
    await chat.text("I am the first answer.").waitFor();
    await until("the old window's daemon has ended", () =>
      server.daemons().every(({ pid }) => pid !== before.pid),
    );
    await chat.send("Second question");
    // A new daemon begins the script anew.
    await until("it is answered in the same session", () => {
      const roles = server.entries(folder).flatMap(({ message }) => (message ? [message.role] : []));
      return roles.join() === "user,assistant,user,assistant";
    });
  },
);

scene(
  "a session in an editor tab is there again after the window was loaded anew",
  { replies: [[{ text: "I am the first answer." }]] },
  async ({ window }) => {
    const chat = await window.openChat();
    await chat.send("First question");
    await chat.text("I am the first answer.").waitFor();
    await window.run("pi: Open this Session in an Editor Tab");
    await window.tab(/^pi/).waitFor();
    await window.hideChat();
    await chat.text("I am the first answer.").waitFor();
    await window.reload();
    await chat.text("First question").waitFor();
    await chat.text("I am the first answer.").waitFor();
  },
);

scene(
  "a daemon that was killed is started again when the person wants it, and the session goes on",
  {
    replies: [[{ text: "I was saying that" }, { delayMs: 3_600_000 }]],
  },
  async ({ window, server, folder }) => {
    const chat = await window.openChat();
    await chat.send("Go on");
    await chat.text("I was saying that").waitFor();
    const { pid } = await onlyDaemon(() => server.daemons());
    server.script([{ text: "It goes on." }]);
    process.kill(pid, "SIGKILL");
    const banner = chat.banner(/ended|crash/i);
    await banner.waitFor();
    await window.picture("crashed");
    await until("nothing is left of it", () => server.daemons().length === 0);
    await banner.getByRole("button", { name: /restart|start/i }).click();
    const interrupted = chat.banner(/interrupted/i);
    await interrupted.waitFor();
    await window.picture("interrupted");
    await interrupted.getByRole("button", { name: /continue/i }).click();
    await chat.text("It goes on.").waitFor();
    await chat.idle();
    const roles = server.entries(folder).flatMap(({ message }) => (message ? [message.role] : []));
    assert.equal(roles.filter((role) => role === "user").length, 1);
    assert.equal(roles.at(-1), "assistant");
  },
);

scene(
  "a missing program is said, with a button that helps, and one that is named then is started at once",
  { settings: { "pi.program": "/nowhere/pi-rpc" } },
  async ({ window, server }) => {
    const chat = await window.openChat();
    const said = chat.banner(/\/nowhere\/pi-rpc/);
    await said.waitFor();
    await window.picture("missing");
    await said.getByRole("button", { name: "Open settings" }).click();
    const named = window.page.locator(".settings-editor .setting-item-contents input[type=text]").first();
    await until(
      "the setting is there to be changed",
      async () => (await named.inputValue()) === "/nowhere/pi-rpc",
    );
    server.settings({});
    await window.page.keyboard.press("Escape");
    await chat.begun();
    await said.waitFor({ state: "detached" });
  },
);

scene(
  "a program that does not answer is told of, and started again when the person wants it",
  {},
  async ({ browser, server, folder }) => {
    server.settings({ "pi.program": program(server, "silent", "exec sleep 3600") });
    const other = await Window.open(browser, server, folder);
    try {
      const chat = await other.openChat();
      const late = chat.banner(/has not answered yet/);
      await late.waitFor();
      await other.picture("silent");
      server.settings({});
      const again = late.getByRole("button", { name: "Start it again" });
      // The settings arrive in their own time: until then it is the silent one that is started.
      await until("the right one is started", async () => {
        await again.click({ timeout: 10_000 }).catch(() => undefined);
        return (await late.count()) === 0 && (await chat.root.getByTitle("Choose the model").isVisible());
      });
    } finally {
      await other.close();
    }
  },
);

const edit = {
  toolCall: { name: "edit", arguments: { path: "pump.txt", edits: [{ oldText: "one", newText: "two" }] } },
};

scene(
  "a review is over when the daemon is killed, and nothing was written",
  { files: { "pump.txt": "one\n" }, replies: [[{ text: "I count." }, edit], [{ text: "It goes on." }]] },
  async ({ window, server, folder }) => {
    const chat = await window.openChat();
    await chat.send("Count on");
    await chat.permission("pump.txt").waitFor();
    await window.tab(/proposed by pi/).waitFor();
    const { pid } = await onlyDaemon(() => server.daemons());
    process.kill(pid, "SIGKILL");
    const banner = chat.banner(/ended/);
    await banner.waitFor();
    await window.tab(/proposed by pi/).waitFor({ state: "detached" });
    await chat.permission("pump.txt").waitFor({ state: "detached" });
    assert.equal(readFileSync(join(folder, "pump.txt"), "utf8"), "one\n");
    await banner.getByRole("button", { name: "Restart pi" }).click();
    const interrupted = chat.banner(/interrupted/i);
    await interrupted.waitFor();
    await window.picture("killed-in-review");
    await interrupted.getByRole("button", { name: /continue/i }).click();
    await chat.permission("pump.txt").getByRole("button", { name: "Allow", exact: true }).click();
    await chat.text("It goes on.").waitFor();
    assert.equal(readFileSync(join(folder, "pump.txt"), "utf8"), "two\n");
  },
);

scene(
  "a session whose window was loaded anew while it asked can be continued",
  {
    replies: [
      [{ text: "I make it." }, { toolCall: { name: "bash", arguments: { command: "touch made.txt" } } }],
      [{ text: "It is made." }],
    ],
  },
  async ({ window, server, folder }) => {
    let chat = await window.openChat();
    await chat.send("Make it");
    await chat.permission("touch made.txt").waitFor();
    await window.stored(`"pi.session":"${server.sessionId(folder)}"`);
    await window.reload();
    chat = await window.openChat();
    await chat.text("I make it.").waitFor();
    await chat.idle();
    await window.picture("reloaded-while-asking");
    await chat.send("Do make it");
    await chat.permission("touch made.txt").getByRole("button", { name: "Allow", exact: true }).click();
    await chat.text("It is made.").waitFor();
    await until("it is made", () => existsSync(join(folder, "made.txt")));
  },
);

scene(
  "a session that another window writes can be read here, and is said to be locked",
  { replies: [[{ text: "I am the first answer." }]] },
  async ({ browser, server, window, folder }) => {
    const chat = await window.openChat();
    await chat.send("First question");
    await chat.text("I am the first answer.").waitFor();
    await chat.idle();
    const second = await Window.open(browser, server, folder);
    try {
      const other = await second.openChat();
      await second.resume("First question");
      await other.text("I am the first answer.").waitFor();
      await other.banner(/another|locked|read.only/i).waitFor();
      await second.picture("locked");
      await window.close();
      await until("the first window's daemon has ended", () => server.daemons().length === 1);
      await other
        .banner(/another|locked|read.only/i)
        .getByRole("button", { name: "Try again" })
        .click();
      await other.banner(/another|locked|read.only/i).waitFor({ state: "detached" });
      await other.send("Second question");
      await until("it is answered here", () => server.entries(folder).length >= 4);
    } finally {
      await second.close();
    }
  },
);

scene(
  "a program that is too old is said to be, with its version",
  {},
  async ({ browser, server, folder }) => {
    const answer = JSON.stringify({
      jsonrpc: "2.0",
      id: 0,
      result: {
        protocolVersion: 1,
        serverInfo: { name: "pi-rpc", version: "0.0.1" },
        capabilities: { positionEncoding: "utf-16", pi: { methods: [], events: [] } },
      },
    });
    const head = `Content-Length: ${answer.length}\\r\\n\\r\\n`;
    const script = `read line\nprintf '${head}%s' '${answer}'\ncat >/dev/null`;
    server.settings({ "pi.program": program(server, "old", script) });
    const other = await Window.open(browser, server, folder);
    try {
      const chat = await other.openChat();
      await chat.banner(/0\.0\.1 is too old/).waitFor();
    } finally {
      await other.close();
    }
  },
);

test("nothing is left of the daemon and its commands when the browser and the server end", async () => {
  const server = await Server.start();
  const browser = await launch();
  try {
    server.settings({ "pi.permissionMode": "full" });
    server.script([{ toolCall: { name: "bash", arguments: { command: "echo has begun; sleep 3600" } } }]);
    const window = await Window.open(browser, server, server.folder("project"));
    const chat = await window.openChat();
    await chat.send("Wait");
    await chat.output(chat.tool("has begun")).waitFor();
    assert.ok(server.processes().some(({ command }) => command.includes("sleep 3600")));
    assert.equal(server.daemons().length, 1);
    await browser.close();
    assert.deepEqual(await server.end(), []);
  } finally {
    await browser.close();
    await server.stop();
  }
});
