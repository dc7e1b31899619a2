// A whole client of pi-rpc for plain Node: sends one prompt, prints the reply as it streams.
// Usage: node client.mjs "What is in README.md?"; the variable PI_RPC names another program.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const daemon = spawn(process.env.PI_RPC || "pi-rpc", ["--stdio"], { stdio: ["pipe", "pipe", 2] });
const pending = [];
const send = (message) => daemon.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const request = (method, params) => new Promise((resolve, reject) => {
  send({ id: pending.push({ resolve, reject }) - 1, method, params });
});
const fail = (error) => pending.forEach(({ reject }) => reject(error));
daemon.on("error", fail).on("close", () => fail(new Error("The daemon ended.")));
daemon.stdin.on("error", fail);
createInterface({ input: daemon.stdout }).on("line", (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === "agent/event") show(params.event);
  else if (method && id !== undefined) send({ id, error: { code: -32601, message: "unknown" } });
  else if (error) pending[id]?.reject(new Error(error.message));
  else pending[id]?.resolve(result);
});
function show({ type, title, assistantMessageEvent: update }) {
  if (update?.type === "text_delta") process.stdout.write(update.delta);
  if (update?.type === "text_end") process.stdout.write("\n");
  if (type === "tool_execution_start") console.log(`[${title}]`);
}
process.exitCode = 1;
await request("initialize", { cwd: process.cwd() });
const run = await request("prompt", { message: process.argv.slice(2).join(" ") });
if (run.stopReason === "stop") process.exitCode = 0;
else console.error(run.errorMessage ?? run.stopReason);
await request("shutdown");
send({ method: "exit" });
