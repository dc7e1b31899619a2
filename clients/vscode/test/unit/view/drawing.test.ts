import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChangesRow, TextRow } from "../../../src/view/rows";
import { askCall, growCall, newToolRow } from "../../../src/view/tools";
import { Folds } from "../../../src/webview/folds";
import { elementsOf } from "../../../src/webview/highlight";
import { renderMarkdown } from "../../../src/webview/markdown";
import { permissionView } from "../../../src/webview/permissionView";
import { PromptBox } from "../../../src/webview/promptBox";
import { rowMaker } from "../../../src/webview/rowViews";
import { fenceOf, MOST_PARSED, textView } from "../../../src/webview/textView";
import { toolView } from "../../../src/webview/toolView";
import { drawn, find, NotedHost, press, send, type } from "./page";
import { recorded } from "./recorded";

function markdown(text: string, host = new NotedHost()): HTMLElement {
  const element = document.createElement("div");
  renderMarkdown(element, text, host);
  return element;
}

test("tags that a model writes are text", () => {
  const hostile =
    '<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> <b onclick="x">b</b>\n\n<iframe src="https://x"></iframe>';
  const element = markdown(hostile);
  assert.equal(element.querySelectorAll("script, img, b, iframe").length, 0);
  assert.match(element.textContent ?? "", /<script>alert\(1\)<\/script>/);
});

test("no element of an answer has an address or a handler of its own", () => {
  const element = markdown(
    "[a](javascript:alert(1)) ![x](https://example.org/spy.png) [b](https://example.org) <https://c.org> [d](command:x) `src/a.ts:3`",
  );
  for (const one of element.querySelectorAll("*")) {
    for (const name of one.getAttributeNames()) assert.match(name, /^(class|role|tabindex|title)$/);
  }
  assert.equal(element.querySelectorAll("img").length, 0);
  assert.deepEqual(
    [...element.querySelectorAll(".refused-link")].map((one) => one.textContent),
    ["a", "d"],
  );
});

test("a link asks the host, by mouse and by keyboard", () => {
  const host = new NotedHost();
  const element = markdown("[manual](https://example.org/m) and [code](src/a.ts#L3)", host);
  const [web, file] = [...element.querySelectorAll<HTMLElement>(".link")];
  web?.click();
  if (file) press(file, "Enter");
  const place = { line: 2, character: 0 };
  assert.deepEqual(host.posted, [
    { type: "openLink", href: "https://example.org/m" },
    { type: "openFile", uri: "src/a.ts", range: { start: place, end: place } },
  ]);
});

test("code can be copied, inserted and opened as a file", () => {
  const host = new NotedHost();
  const element = markdown("```ts\nconst a = 1;\n```\n", host);
  find(element, "Copy").click();
  find(element, "Insert into the active editor").click();
  find(element, "Open as a new file").click();
  assert.deepEqual(host.posted, [
    { type: "copy", text: "const a = 1;" },
    { type: "apply", code: "const a = 1;", language: "ts" },
    { type: "apply", code: "const a = 1;", language: "ts", newFile: true },
  ]);
});

test("lists, tables and quotes keep their structure", () => {
  const element = markdown("3. a\n   - b\n4. c\n\n| x | y |\n|--:|---|\n| 1 | 2 |\n\n> q");
  assert.equal(element.querySelector("ol")?.getAttribute("start"), "3");
  assert.equal(element.querySelectorAll("ol > li").length, 2);
  assert.equal(element.querySelectorAll("ol ul > li").length, 1);
  assert.equal(element.querySelectorAll("td.align-right").length, 1);
  assert.equal(element.querySelector("blockquote")?.textContent, "q");
});

test("colours come as spans, and what looks like a tag in the code stays text", () => {
  const box = document.createElement("code");
  box.append(
    elementsOf('<span class="hljs-tag">&lt;<span class="hljs-name">b</span>&gt;</span> &amp;amp; a < b'),
  );
  assert.equal(box.textContent, "<b> &amp; a < b");
  assert.equal(box.querySelectorAll("span").length, 2);
});

test("code that is being written grows in place", () => {
  const row = { kind: "text" as const, key: "k", version: 0, text: "```py\nprint(", open: true, first: true };
  const view = textView(row, new NotedHost());
  const code = view.element.querySelector("code");
  row.text += "1)\nprint(2)\n";
  view.update();
  assert.equal(view.element.querySelector("code"), code);
  assert.equal(code?.textContent, "print(1)\nprint(2)");
  Object.assign(row, { text: `${row.text}\`\`\`\n`, open: false });
  view.update();
  assert.equal(view.element.querySelector("code")?.textContent, "print(1)\nprint(2)");
});

test("a fence with something behind it is an ordinary piece", () => {
  assert.deepEqual(fenceOf("~~~ js x\na\n```\n~~~\n"), { code: "a\n```", info: " js x" });
  assert.equal(fenceOf("```\na\n```\nb"), null);
  assert.equal(fenceOf("a\n```\n"), null);
});

function asked(): ReturnType<typeof recorded>["permissions"][number] {
  const request = recorded("permissions").permissions[1];
  assert.ok(request);
  return request;
}

test("each answer to a permission request can be given, with its rule in words", () => {
  const request = asked();
  for (const option of request.options) {
    const host = new NotedHost();
    const card = permissionView({ request }, host);
    const rule = option.rule === undefined ? "" : `: ${option.rule.replaceAll("`", "")}`;
    find(card, `${option.name}${rule}`).click();
    assert.deepEqual(host.posted, [{ type: "answer", requestId: request.requestId, optionId: option.id }]);
    assert.ok(
      [...card.querySelectorAll("button")].every((one) => one.disabled),
      "it is answered once",
    );
  }
});

test("a rejection can say what to do instead", () => {
  const host = new NotedHost();
  const request = asked();
  const card = permissionView({ request }, host);
  find(card, "Reject with a word…").click();
  const word = card.querySelector("input");
  assert.ok(word);
  word.value = "Use less.";
  press(word, "Enter");
  assert.deepEqual(host.posted, [
    { type: "answer", requestId: request.requestId, optionId: "reject", feedback: "Use less." },
  ]);
});

test("the whole of a command is shown before it is allowed", () => {
  const request = { ...asked(), title: "$ cat…", args: { command: "cat valve.txt; rm -rf /" } };
  const card = permissionView({ request }, new NotedHost());
  assert.equal(card.querySelector("pre")?.textContent, "cat valve.txt; rm -rf /");
});

test("all arguments of a tool that is not known are shown before it is allowed", () => {
  const args = { url: "https://example.org", body: { secret: 1 } };
  const request = { ...asked(), kind: "other" as const, toolName: "post", title: "post", args };
  const shown = permissionView({ request }, new NotedHost()).querySelector("pre")?.textContent ?? "";
  assert.match(shown, /url: https:\/\/example\.org/);
  assert.match(shown, /"secret": 1/);
});

test("what else a tool is told beside a command is shown before it is allowed", () => {
  const args = { command: "ls", host: "prod" };
  const request = { ...asked(), toolName: "remote", title: "remote", args };
  const shown = permissionView({ request }, new NotedHost()).querySelector("pre")?.textContent ?? "";
  assert.match(shown, /command: ls\nhost: prod/);
});

test("the reason of a request is read as it is", () => {
  const request = { ...asked(), reason: "It is \u202esafe" };
  const card = permissionView({ request }, new NotedHost());
  assert.equal(card.querySelector(".asked-reason")?.textContent, "It is \\u{202e}safe");
});

test("what cannot be seen in a command is written out", () => {
  const request = { ...asked(), args: { command: "echo \u202e'fr mr\u200b' \u001b[8m\n\ttrue" } };
  const card = permissionView({ request }, new NotedHost());
  assert.equal(card.querySelector("pre")?.textContent, "echo \\u{202e}'fr mr\\u{200b}' \\u{1b}[8m\n\ttrue");
});

test("options of a kind that is not known are left out", () => {
  const request = asked();
  const options = [
    ...request.options,
    { id: "x", name: "Allow forever everywhere", kind: "allow_world" as "allow_once" },
  ];
  const card = permissionView({ request: { ...request, options } }, new NotedHost());
  assert.doesNotMatch(card.textContent ?? "", /everywhere/);
});

test("edits can be reviewed, and the button says how many changes are left", () => {
  const request = recorded("permissions").permissions[0];
  assert.ok(request);
  const host = new NotedHost();
  const card = permissionView({ request, review: { hunks: 3, rejected: 1, edited: false } }, host);
  find(card, "Review").click();
  assert.deepEqual(host.posted, [{ type: "openReview", requestId: request.requestId }]);
  find(card, "Allow 2 of 3 changes");
});

test("what an edit would change is shown as soon as it is known", () => {
  const request = recorded("permissions").permissions[0];
  assert.ok(request);
  const row = newToolRow("c", "edit");
  const view = toolView(row, new NotedHost(), new Folds());
  assert.equal(view.element.querySelector(".diff"), null);
  askCall(row, request);
  view.update();
  assert.match(view.element.querySelector(".diff-line.added")?.textContent ?? "", /The valve is green/);
});

test("a file that is being written is named as soon as it is known, and how much there is of it", () => {
  const row = newToolRow("c", "write");
  const view = toolView(row, new NotedHost(), new Folds());
  growCall(row, '{"path": "src/va');
  view.update();
  assert.doesNotMatch(view.element.textContent ?? "", /src/);
  growCall(row, `lve.ts", "content": "${"x".repeat(3_000)}`);
  view.update();
  assert.match(view.element.textContent ?? "", /write src\/valve\.ts3k characters/);
});

test("a failed command shows its output and its exit code", () => {
  const row = newToolRow("c", "bash");
  Object.assign(row, { phase: "failed", title: "$ make", exitCode: 2 });
  row.output.append("make: *** no rule");
  const { element } = toolView(row, new NotedHost(), new Folds());
  assert.ok(element.classList.contains("failed"));
  assert.match(element.textContent ?? "", /exit 2/);
  assert.equal(element.querySelector<HTMLElement>(".tool-body")?.hidden, false);
  assert.match(element.querySelector(".lines")?.textContent ?? "", /no rule/);
});

test("what was read is folded until it is asked for", () => {
  const row = newToolRow("c", "read");
  Object.assign(row, { phase: "done", title: "read a.txt" });
  row.output.append("secret of the file\n");
  const view = toolView(row, new NotedHost(), new Folds());
  assert.doesNotMatch(view.element.textContent ?? "", /secret/);
  view.element.querySelector<HTMLElement>(".tool-toggle")?.click();
  assert.match(view.element.textContent ?? "", /secret/);
  assert.equal(view.element.querySelector(".tool-toggle")?.getAttribute("aria-expanded"), "true");
});

test("more of an output is shown once there is more, and what was cut can be loaded until it is there", () => {
  const row = newToolRow("c", "bash");
  row.output.append("one\n");
  const host = new NotedHost();
  const view = toolView(row, host, new Folds());
  assert.equal(find(view.element, "Show more").hidden, true);
  row.output.append("more\n".repeat(20));
  row.truncatedEntryId = "e1";
  view.update();
  assert.equal(find(view.element, "Show more").hidden, false);
  find(view.element, "Load all").click();
  assert.deepEqual(host.posted, [{ type: "loadEntry", entryId: "e1" }]);
  row.truncatedEntryId = undefined;
  view.update();
  assert.equal(find(view.element, "Load all").hidden, true);
});

test("of a large output only some lines are in the page", () => {
  const row = newToolRow("c", "bash");
  row.output.append("line\n".repeat(40_000));
  const { element } = toolView(row, new NotedHost(), new Folds());
  assert.ok((element.textContent ?? "").length < 2_000);
});

function promptBox() {
  const host = new NotedHost();
  const done: unknown[] = [];
  const box = new PromptBox(host, {
    send: (draft, how) => done.push([how, draft]),
    bash: (command, hidden) => done.push(["bash", command, hidden]),
    stop: () => done.push("stop"),
    page: (direction) => done.push(["page", direction]),
  });
  document.body.replaceChildren(box.element);
  return { host, done, box };
}

test("Enter sends, and while a run goes on it steers, with Alt it follows up, and Escape stops", () => {
  const { box, done } = promptBox();
  type(box.input, "one");
  press(box.input, "Enter");
  box.setState(true, false);
  type(box.input, "two");
  press(box.input, "Enter");
  type(box.input, "three");
  press(box.input, "Enter", { altKey: true });
  press(box.input, "Escape");
  assert.deepEqual(done, [
    ["prompt", { text: "one" }],
    ["steer", { text: "two" }],
    ["followUp", { text: "three" }],
    "stop",
  ]);
});

test("the conversation can be read on from the prompt box", () => {
  const { box, done } = promptBox();
  press(box.input, "PageUp");
  press(box.input, "PageDown");
  assert.deepEqual(done, [
    ["page", -1],
    ["page", 1],
  ]);
});

test("Shift and Enter makes a line, and so does Enter while a word is composed", () => {
  const { box, done } = promptBox();
  type(box.input, "にほ");
  assert.equal(press(box.input, "Enter", { shiftKey: true }), true);
  press(box.input, "Enter", { isComposing: true });
  assert.deepEqual(done, []);
});

test("a command of the shell is run and not sent", () => {
  const { box, done } = promptBox();
  type(box.input, "!git status");
  press(box.input, "Enter");
  assert.deepEqual(done, [["bash", "git status", false]]);
});

test("files are asked for behind @, and the chosen one is put in", () => {
  const { box, host } = promptBox();
  type(box.input, "see @va");
  const search = host.posted.at(-1);
  assert.deepEqual(search, { type: "searchFiles", id: 1, query: "va" });
  box.setFiles(1, [
    { uri: "file:///e/src/valve.ts", path: "src/valve.ts", kind: "file" },
    { uri: "file:///e/vans", path: "vans", kind: "directory" },
  ]);
  assert.deepEqual(
    [...box.element.querySelectorAll("[role=option]")].map((one) => one.getAttribute("aria-selected")),
    ["true", "false"],
  );
  press(box.input, "Enter");
  assert.equal(box.input.value, "see @src/valve.ts ");
});

test("files that were found for an earlier question are not offered", () => {
  const { box } = promptBox();
  type(box.input, "@v");
  type(box.input, "@va");
  box.setFiles(1, [{ uri: "file:///e/v", path: "v", kind: "file" }]);
  assert.equal(box.element.querySelectorAll("[role=option]").length, 0);
});

test("Enter sends a command that is written out, and completes one that is not", () => {
  const { box, done } = promptBox();
  box.setCommands([{ name: "deploy", source: "prompt", description: "Brings it out" }]);
  type(box.input, "/dep");
  press(box.input, "Enter");
  assert.equal(box.input.value, "/deploy ");
  assert.deepEqual(done, []);
  type(box.input, "/deploy");
  assert.equal(box.element.querySelectorAll("[role=option]").length, 1);
  press(box.input, "Enter");
  assert.equal(done.length, 1);
  assert.equal(box.input.value, "");
});

test("commands are offered, and Escape closes the list before it stops a run", () => {
  const { box, done } = promptBox();
  box.setCommands([{ name: "deploy", source: "prompt", description: "Brings it out" }]);
  box.setState(true, false);
  type(box.input, "/dep");
  assert.equal(box.element.querySelectorAll("[role=option]").length, 1);
  press(box.input, "Escape");
  assert.deepEqual(done, []);
  press(box.input, "Escape");
  assert.deepEqual(done, ["stop"]);
});

test("commands of ours are run, unless the daemon has one of that name", () => {
  const { box, host, done } = promptBox();
  type(box.input, "/mod");
  press(box.input, "Enter");
  press(box.input, "Enter");
  assert.deepEqual(host.posted.at(-1), { type: "command", command: "pickModel" });
  box.setCommands([{ name: "model", source: "prompt" }]);
  type(box.input, "/model ");
  press(box.input, "Enter");
  assert.deepEqual(done, [["prompt", { text: "/model" }]]);
});

test("attachments are seen, can be taken off, and go with the message", () => {
  const { box, done } = promptBox();
  const file = (name: string) => ({ type: "file" as const, uri: `file:///e/${name}` });
  box.attach([file("a.ts"), file("b.ts"), file("a.ts")]);
  assert.equal(box.element.querySelectorAll(".chip").length, 2);
  find(box.element, "Remove a.ts").click();
  type(box.input, "look");
  press(box.input, "Enter");
  assert.deepEqual(done, [["prompt", { text: "look", attachments: [file("b.ts")] }]]);
  assert.equal(box.element.querySelectorAll(".chip").length, 0);
});

test("what had waited is given back before what is being written, with its attachments", () => {
  const { box } = promptBox();
  type(box.input, "and more");
  const attachments = [{ type: "text", text: "log" }];
  box.giveBack([{ id: "q", kind: "steer", text: "first", attachments }]);
  assert.equal(box.input.value, "first\n\nand more");
  assert.equal(box.element.querySelectorAll(".chip").length, 1);
});

test("what is written survives a reload, and so does the history", () => {
  const { box, host } = promptBox();
  type(box.input, "sent");
  press(box.input, "Enter");
  type(box.input, "unsent");
  const again = new PromptBox(host, { send: () => {}, bash: () => {}, stop: () => {}, page: () => {} });
  assert.equal(again.input.value, "unsent");
  again.input.setSelectionRange(0, 0);
  press(again.input, "ArrowUp");
  assert.equal(again.input.value, "sent");
});

test("a read-only session takes no message", () => {
  const { box, done } = promptBox();
  type(box.input, "hello");
  box.setState(false, true);
  box.send(false);
  assert.deepEqual(done, []);
  assert.equal(box.input.disabled, true);
});

test("an image that is pasted goes with the message", async () => {
  const { box, done } = promptBox();
  const file = new File([new Uint8Array([1, 2, 3])], "a.png", { type: "image/png" });
  send(box.input, "paste", { clipboardData: { files: [file] } });
  for (let turn = 0; turn < 20 && box.element.querySelectorAll(".chip").length === 0; turn++) await drawn();
  press(box.input, "Enter");
  assert.deepEqual(done, [
    ["prompt", { text: "", images: [{ type: "image", data: "AQID", mimeType: "image/png" }] }],
  ]);
});

test("a block that is too long to be prose is shown as it is, and not parsed", () => {
  const text = "*a[".repeat(MOST_PARSED);
  const row: TextRow = { kind: "text", key: "t", version: 0, text, open: true, first: true };
  const view = textView(row, new NotedHost());
  assert.equal(view.element.querySelector(".unparsed")?.textContent, text);
  row.text = "Now *prose*.";
  view.update();
  assert.equal(view.element.querySelector("em")?.textContent, "prose");
});

test("images for a model that takes none are told of before they are sent, and no longer with one that does", () => {
  const { box } = promptBox();
  const note = box.element.querySelector<HTMLElement>(".prompt-note");
  box.setModel({ name: "Smol", input: ["text"] });
  assert.equal(note?.hidden, true);
  box.attach([], [{ type: "image", data: "AQID", mimeType: "image/png" }]);
  assert.equal(note?.hidden, false);
  assert.match(note?.textContent ?? "", /Smol does not take images/);
  box.setModel({ name: "Large", input: ["text", "image"] });
  assert.equal(note?.hidden, true);
});

test("the card of changes that were taken back says so, and does not offer it again", () => {
  const row: ChangesRow = {
    kind: "changes",
    key: "k:cp",
    version: 0,
    checkpointId: "cp",
    files: [{ path: "a.txt", kind: "changed" }],
    partial: false,
    undone: false,
  };
  const context = {
    host: new NotedHost(),
    folds: new Folds(),
    expandThinking: false,
    readOnly: () => false,
  };
  const view = rowMaker(context).make(row);
  const undo = [...view.element.querySelectorAll("button")].find((one) => one.textContent === "Undo");
  assert.equal(undo?.hidden, false);
  row.undone = true;
  view.update();
  assert.equal(undo?.hidden, true);
  assert.match(view.element.textContent ?? "", /Undone/);
});
