/** What ends and begins again: windows, daemons, and two of them on one session. */
import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
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
    assert.deepEqual(server.daemons(), []);
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
  "a missing program is said, with a button that helps",
  { settings: { "pi.program": "/nowhere/pi-rpc" } },
  async ({ window }) => {
    const chat = await window.openChat();
    const said = chat.banner(/\/nowhere\/pi-rpc/);
    await said.waitFor();
    await window.picture("missing");
    assert.notEqual(await said.getByRole("button").count(), 0);
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
    } finally {
      await second.close();
    }
  },
);

scene(
  "a program that is too old is said to be, with its version",
  {},
  async ({ browser, server, folder }) => {
    const old = join(server.root, "old-pi-rpc");
    const answer = JSON.stringify({
      jsonrpc: "2.0",
      id: 0,
      result: {
        protocolVersion: 1,
        serverInfo: { name: "pi-rpc", version: "0.0.1" },
        capabilities: { positionEncoding: "utf-16", pi: { methods: [], events: [] } },
      },
    });
    writeFileSync(
      old,
      `#!/bin/sh\nread line\nprintf 'Content-Length: ${answer.length}\\r\\n\\r\\n%s' '${answer}'\ncat >/dev/null\n`,
    );
    chmodSync(old, 0o755);
    server.settings({ "pi.program": old });
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
