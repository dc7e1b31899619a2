import assert from "node:assert/strict";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DaemonGone, Refusal } from "../../../src/host/errors";
import { next, runs, scene, until } from "./playing";

scene("nothing runs before the first use, and one process serves all uses", [], async ({ daemon }) => {
  assert.equal(daemon.pid, undefined);
  const [one, other] = await Promise.all([daemon.use(), daemon.use()]);
  assert.equal(one, other);
  assert.ok(daemon.pid !== undefined && runs(daemon.pid));
  assert.deepEqual(await one.call("ping", {}), {});
});

scene("stopping it ends the process in order", [], async ({ daemon, lines }) => {
  await daemon.use();
  const pid = daemon.pid as number;
  await daemon.stop();
  assert.ok(!runs(pid));
  assert.equal(daemon.failure, undefined);
  assert.deepEqual(
    lines.filter((line) => line.includes("unexpectedly")),
    [],
  );
});

scene(
  "when it is killed, all that waits fails, and it is not started again until a person asks",
  [[{ delayMs: 3_600_000 }]],
  async ({ daemon }) => {
    const wire = await daemon.use();
    const { sessionId } = await wire.call("session/new", {});
    const waiting = wire.call("prompt", { sessionId, message: "Wait." });
    const failed = assert.rejects(waiting, DaemonGone);
    const pid = daemon.pid as number;
    const told = next(daemon.onFail, "the crash is told");
    process.kill(pid, "SIGKILL");
    const failure = await told;
    await failed;
    assert.ok(failure.crashed);
    assert.match(failure.error.message, /SIGKILL/);
    await assert.rejects(daemon.use(), /SIGKILL/);
    assert.equal(daemon.pid, undefined);
    const again = await daemon.restart();
    assert.notEqual(daemon.pid, pid);
    assert.deepEqual(await again.call("ping", {}), {});
  },
);

scene("a refusal has its kind and its message", [], async ({ daemon }) => {
  const wire = await daemon.use();
  await assert.rejects(wire.call("session/open", { sessionId: "there-is-none" }), (error: unknown) => {
    assert.ok(error instanceof Refusal);
    assert.equal(error.kind, "sessionNotFound");
    assert.match(error.message, /there-is-none/);
    return true;
  });
});

scene(
  "a program that is missing is told by name, with the setting to change",
  [],
  async ({ daemon, launch }) => {
    launch.program = "/nowhere/pi-rpc";
    await assert.rejects(daemon.use(), { name: "ProgramMissing", message: /\/nowhere\/pi-rpc.*pi\.program/ });
    assert.equal(daemon.failure?.crashed, false);
  },
);

scene(
  "a program that ends before it answers is told with its last words",
  [],
  async ({ daemon, launch, folder }) => {
    launch.program = shellProgram(folder, "echo 'no such module: yaml' >&2; exit 3");
    await assert.rejects(daemon.use(), /could not be started: exit code 3.*no such module: yaml/);
  },
);

scene("a daemon that is too old is refused, and ended", [], async ({ daemon, launch, folder }) => {
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 0,
    result: {
      protocolVersion: 1,
      serverInfo: { name: "pi-rpc", version: "0.0.9" },
      capabilities: { positionEncoding: "utf-16", pi: { methods: [], events: [], permissionModes: [] } },
    },
  });
  const answer = `Content-Length: ${body.length}\\r\\n\\r\\n${body.replaceAll('"', '\\"')}`;
  launch.program = shellProgram(folder, `echo $$ > ${folder}/pid; printf "${answer}"; exec sleep 3600`);
  await assert.rejects(daemon.use(), { name: "ProgramTooOld", message: /0\.0\.9 is too old/ });
  const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
  await until("the old daemon has ended", () => !runs(pid));
});

for (const [what, script] of [
  ["writes what is no message", "echo 'Welcome to the shell!'"],
  ["writes a message that is none", "printf 'Content-Length: many\\r\\n\\r\\n'"],
  ["stops to write", "exec >&-"],
] as const) {
  scene(
    `a program that ${what} is told of at once, and ended though it does not want to`,
    [],
    async ({ daemon, launch, folder }) => {
      launch.program = shellProgram(
        folder,
        `trap '' TERM; echo $$ > ${folder}/pid; ${script}; exec sleep 3600`,
      );
      await assert.rejects(daemon.use(), { name: "DaemonGone", message: /program/ });
      const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
      await until("it has ended", () => !runs(pid));
      assert.equal(daemon.failure?.crashed, false);
    },
  );
}

scene(
  "a program that never answers is started again when a person asks for it, and has not failed",
  [],
  async ({ daemon, launch, folder }) => {
    const { program } = launch;
    launch.program = shellProgram(folder, "exec sleep 3600");
    let begun = 0;
    daemon.onBegin((answer) => {
      begun += 1;
      answer.catch(() => undefined);
    });
    const silent = assert.rejects(daemon.use(), DaemonGone);
    const pid = daemon.pid as number;
    assert.ok(runs(pid));
    launch.program = program;
    const wire = await daemon.restart();
    await silent;
    assert.deepEqual(await wire.call("ping", {}), {});
    assert.equal(begun, 2);
    assert.equal(daemon.failure, undefined);
    assert.ok(!runs(pid));
  },
);

scene("a program is found where its path has spaces", [], async ({ daemon, launch, folder }) => {
  const place = join(folder, "my programs");
  mkdirSync(place);
  launch.program = shellProgram(place, `exec '${launch.program}' "$@"`);
  assert.deepEqual(await (await daemon.use()).call("ping", {}), {});
});

scene("what it writes on stderr is logged line by line", [], async ({ daemon, launch, lines }) => {
  launch.args.push("--log-level", "debug");
  await daemon.use();
  await until("a line of it is logged", () => lines.some((line) => /initialize/i.test(line)));
});

function shellProgram(folder: string, script: string): string {
  const path = join(folder, "program");
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}
