/** The commands of the palette, of keys, menus and buttons. What each does is its module's. */
import vscode = require("vscode");

import type { App } from "./app";
import { removeKey, setKey } from "./auth";
import { branch, fork, stop } from "./bridge";
import { chooseCheckpoint } from "./checkpoints";
import { askAboutDiagnostics, askAboutSelection, attachChosenFiles, attachDiagnostics } from "./codeActions";
import { pickModel, pickPermissionMode, pickThinking } from "./pickers";
import { showRules } from "./rules";
import { chooseSession, deleteSession, exportSession, renameSession } from "./sessionPick";
import type { Session } from "./sessions";
import type { Item, SessionTree } from "./sessionTree";
import { folders } from "./settings";

type Command = (...args: never[]) => unknown;

/** Register all of them. */
export function registerCommands(app: App, tree: SessionTree): vscode.Disposable[] {
  const commands: Record<string, Command> = {
    ...daemonCommands(app),
    ...sessionCommands(app),
    ...runCommands(app),
    ...treeCommands(app, tree),
    ...editorCommands(app),
  };
  return Object.entries(commands).map(([name, command]) =>
    vscode.commands.registerCommand(`pi.${name}`, async (...args: never[]) => {
      try {
        await command(...args);
      } catch (error) {
        app.report(error);
      }
    }),
  );
}

function daemonCommands(app: App): Record<string, Command> {
  const run = (command: string, ...args: unknown[]) => vscode.commands.executeCommand(command, ...args);
  return {
    restart: () => app.restart(),
    showLog: () => app.log.show(),
    openSettings: () => {
      const query = "@ext:pi-rpc.pi-rpc";
      // Where the files are on another machine, the settings of that machine stand in a list of their own.
      return vscode.env.remoteName === undefined
        ? run("workbench.action.openSettings", query)
        : run("workbench.action.openRemoteSettings", { query });
    },
    openFolder: () => run("workbench.action.files.openFolder"),
    manageTrust: () => run("workbench.trust.manage"),
    walkthrough: () => run("workbench.action.openWalkthrough", "pi-rpc.pi-rpc#pi.start", false),
    install: () => install(app),
    setKey: (provider?: unknown) => setKey(app, typeof provider === "string" ? provider : undefined),
    removeKey: () => removeKey(app),
    rules: () => showRules(app),
  };
}

function sessionCommands(app: App): Record<string, Command> {
  const current = (act: (session: Session) => unknown) => () => withCurrent(app, act);
  const openSession = async (title: string) => {
    const chosen = await chooseSession(app, title);
    const chat = chosen && (await app.chats.front());
    if (chosen && chat) await app.show(chat, chosen.sessionId);
  };
  return {
    focus: async () => {
      const chat = await app.chats.front();
      chat?.post({ type: "focus" });
    },
    newSession: async () => {
      const folder = await chooseFolder();
      const chat = folder && (await app.chats.front());
      if (!chat) return;
      const session = await app.attempt(() => app.create(folder));
      if (session) await app.show(chat, session.id);
      chat.post({ type: "focus" });
    },
    newTab: async () => {
      const session = await app.attempt(() => app.create());
      if (session) app.chats.openTab(session.id);
    },
    openInTab: current(({ id }) => app.chats.openTab(id)),
    openSession: () => openSession("Resume a session"),
    searchSessions: () => openSession("Search the sessions"),
    renameSession: current(({ id, state }) => renameSession(app, id, state.name)),
    deleteSession: current(({ id, state }) => deleteSession(app, id, state.name)),
    exportSession: current(({ id }) => exportSession(app, id)),
    forkSession: current(({ id }) => fork(app, id)),
    reopen: current(async ({ id }) => {
      const wire = await app.daemon.use();
      await wire.call("session/close", { sessionId: id });
      app.sessions.forget(id);
      await Promise.all(app.chats.of(id).map((chat) => app.show(chat, id)));
    }),
  };
}

function runCommands(app: App): Record<string, Command> {
  const current = (act: (session: Session) => unknown) => () => withCurrent(app, act);
  return {
    stop: current(({ id }) => stop(app, id)),
    continue: current(async ({ id }) => {
      const wire = await app.daemon.use();
      await wire.call("continue", { sessionId: id, wait: "accepted" });
    }),
    compact: current((session) => compact(app, session)),
    pickModel: () => pickModel(app),
    pickThinking: () => pickThinking(app),
    pickPermissionMode: () => pickPermissionMode(app),
    checkpoints: () => chooseCheckpoint(app),
  };
}

function treeCommands(app: App, tree: SessionTree): Record<string, Command> {
  const entry = (act: (entryId: string, label: string | undefined) => unknown) => (item?: Item) =>
    item && act(item.node.entryId, item.node.label);
  return {
    refreshTree: () => tree.refresh(),
    "tree.branch": entry((entryId) => branch(app, app.current?.id, entryId, false)),
    "tree.branchWithSummary": entry((entryId) => branch(app, app.current?.id, entryId, true)),
    "tree.fork": entry((entryId) => fork(app, app.current?.id, entryId)),
    "tree.label": entry((entryId, label) => setLabel(app, tree, entryId, label)),
  };
}

function editorCommands(app: App): Record<string, Command> {
  const at = (act: (uri: vscode.Uri | undefined) => unknown) => (uri?: unknown) =>
    act(uri instanceof vscode.Uri ? uri : undefined);
  return {
    askSelection: () => askAboutSelection(app),
    attachSelection: () => askAboutSelection(app),
    attachDiagnostics: () => attachDiagnostics(app),
    attachFile: (uri?: vscode.Uri, all?: vscode.Uri[]) => attachChosenFiles(app, all ?? (uri ? [uri] : [])),
    fixDiagnostic: (uri?: vscode.Uri, found?: vscode.Diagnostic[]) =>
      askAboutDiagnostics(app, "Fix", uri, found),
    explainDiagnostic: (uri?: vscode.Uri, found?: vscode.Diagnostic[]) =>
      askAboutDiagnostics(app, "Explain", uri, found),
    "review.accept": at((uri) => app.reviews.decide(true, uri)),
    "review.reject": at((uri) => app.reviews.decide(false, uri)),
    "review.hunks": at((uri) => app.reviews.chooseHunks(uri)),
    "review.rejectHunk": at((uri) => app.reviews.rejectHunk(uri)),
    "answer.submit": at((uri) => app.questions.submit(uri)),
    "answer.dismiss": at((uri) => app.questions.dismiss(uri)),
  };
}

async function withCurrent(app: App, act: (session: Session) => unknown): Promise<void> {
  const { current } = app;
  if (current) await act(current);
  else await vscode.window.showInformationMessage("Open a chat with pi first.");
}

async function chooseFolder(): Promise<vscode.Uri | undefined> {
  const all = folders();
  if (all.length < 2) return all[0];
  const items = all.map((folder) => ({
    label: vscode.workspace.asRelativePath(folder),
    detail: folder.fsPath,
    folder,
  }));
  const chosen = await vscode.window.showQuickPick(items, { title: "Which folder should pi work in?" });
  return chosen?.folder;
}

async function compact(app: App, { id }: Session): Promise<void> {
  const wish = await vscode.window.showInputBox({
    title: "Shorten the conversation",
    prompt: "What should the summary pay attention to? Leave it empty for the usual.",
  });
  if (wish === undefined) return;
  const params = { sessionId: id, ...(wish.trim() && { customInstructions: wish.trim() }) };
  await app.attempt((wire) => wire.call("compact", params), id);
}

async function setLabel(
  app: App,
  tree: SessionTree,
  entryId: string,
  label: string | undefined,
): Promise<void> {
  const { current } = app;
  if (!current) return;
  const wanted = await vscode.window.showInputBox({
    title: "Label",
    value: label ?? "",
    prompt: "Empty takes the label off",
  });
  if (wanted === undefined) return;
  const params = { sessionId: current.id, entryId, ...(wanted.trim() && { label: wanted.trim() }) };
  await app.attempt((wire) => wire.call("session/label", params));
  tree.refresh();
}

/** Say how the program is installed, or have the person show where it is. */
async function install(app: App): Promise<void> {
  const [copy, choose] = ["Copy the Command", "Choose the Program…"];
  const command = "pipx install .";
  const chosen = await vscode.window.showInformationMessage(
    "pi-rpc is a program of its own, written in Python (3.11 or later).",
    {
      modal: true,
      detail: `Install it in a checkout of the project, on the machine that has your files:\n\n${command}`,
    },
    copy,
    choose,
  );
  if (chosen === copy) {
    await vscode.env.clipboard.writeText(command);
  } else if (chosen === choose) {
    const [program] =
      (await vscode.window.showOpenDialog({ title: "Where is pi-rpc?", openLabel: "Use" })) ?? [];
    if (!program) return;
    const { Global } = vscode.ConfigurationTarget;
    const hadFailed = app.daemon.failure !== undefined;
    await vscode.workspace.getConfiguration("pi").update("program", program.fsPath, Global);
    // One that had failed is tried again whenever the setting changes.
    if (!hadFailed) await app.restart();
  }
}
