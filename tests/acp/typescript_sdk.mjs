// Drives the agent with the official TypeScript SDK; prints what came of it as JSON.
// Arguments: the folder of the SDK, the project, then the agent's command.
import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";
import { Readable, Writable } from "node:stream";
import { join } from "node:path";

const [sdk, project, ...command] = process.argv.slice(2);
const acp = await import(pathToFileURL(join(sdk, "dist/v1/stable/acp.js")).href);

const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const heard = [];
const waiting = [];
const permissions = [];

const client = acp
  .client()
  .onNotification("session/update", ({ params }) => {
    heard.push(params);
    for (const each of [...waiting]) each();
  })
  .onRequest("session/request_permission", ({ params }) => {
    permissions.push(params.options.map((each) => each.kind));
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  });

const until = (fits) =>
  new Promise((resolve) => {
    const look = () => {
      if (!heard.some(fits)) return;
      waiting.splice(waiting.indexOf(look), 1);
      resolve();
    };
    waiting.push(look);
    look();
  });
const said = (sessionId, kind) =>
  heard
    .filter((each) => each.sessionId === sessionId && each.update.sessionUpdate === kind)
    .map((each) => each.update.content.text)
    .join("");

await client.connectWith(stream, async (context) => {
  const hello = await context.request("initialize", { protocolVersion: 1 });
  const fresh = async () =>
    (await context.request("session/new", { cwd: project, mcpServers: [] })).sessionId;
  const first = await fresh();
  const second = await fresh();
  const prompt = (sessionId) =>
    context.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "run it" }] });

  const ran = await prompt(first);
  const live = said(first, "agent_message_chunk");
  const other = await prompt(second);

  heard.length = 0;
  const turn = prompt(first);
  await until((each) => each.update.status === "in_progress");
  await context.notify("session/cancel", { sessionId: first });
  const cancelled = await turn;

  await context.request("session/close", { sessionId: first });
  heard.length = 0;
  await context.request("session/load", { sessionId: first, cwd: project, mcpServers: [] });
  const listed = await context.request("session/list", {});
  const extra = await context.request("_pi/branch", { sessionId: first, entryId: null });
  let refused = 0;
  await context.request("_pi/none", {}).catch((error) => (refused = error.code));
  await context.request("session/delete", { sessionId: second });
  await context.request("session/delete", { sessionId: second });
  console.log(
    JSON.stringify({
      name: hello.agentInfo.name,
      reasons: [ran, other, cancelled].map((each) => each.stopReason),
      permissions,
      live,
      replayed: said(first, "agent_message_chunk"),
      asked: said(first, "user_message_chunk"),
      listed: listed.sessions.length,
      extra,
      refused,
    }),
  );
});
agent.stdin.end();
