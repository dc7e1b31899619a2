// Lets pi's own session code work on a session file, and prints what it makes of it.
//
// Arguments: pi's index.js, the file, and steps as JSON, in order: {branch: id or null},
// {say: text}, {answer: text}, {label: [id, text or null]}, {summary: [id, text]}, {fork: id}.
const [index, file, steps] = process.argv.slice(2);
const { SessionManager } = await import(index);

const session = SessionManager.open(file);
const usage = {
  input: 1, output: 2, cacheRead: 0, cacheWrite: 0, totalTokens: 3,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};
const actions = {
  branch: (id) => (id === null ? session.resetLeaf() : session.branch(id)),
  say: (text) => session.appendMessage({ role: "user", content: text, timestamp: 1 }),
  answer: (text) =>
    session.appendMessage({
      role: "assistant", content: [{ type: "text", text }], api: "a", provider: "acme",
      model: "one", usage, stopReason: "stop", timestamp: 2,
    }),
  label: ([id, text]) => session.appendLabelChange(id, text ?? undefined),
  summary: ([id, text]) => session.branchWithSummary(id, text),
  fork: (id) => session.createBranchedSession(id),
};
for (const step of JSON.parse(steps)) {
  for (const [name, value] of Object.entries(step)) actions[name](value);
}
const nodes = [];
const visit = (node) => {
  nodes.push([node.entry.id, node.label ?? null]);
  node.children.forEach(visit);
};
session.getTree().forEach(visit);
console.log(
  JSON.stringify({
    file: session.getSessionFile(),
    leaf: session.getLeafId(),
    branch: session.getBranch().map((entry) => entry.id),
    messages: session.buildSessionContext().messages,
    nodes,
  }),
);
