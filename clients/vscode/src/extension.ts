/** Where VS Code begins and ends with us. Nothing is started here: the daemon begins with its first use. */
import vscode = require("vscode");

import { App } from "./host/app";
import { Bridge } from "./host/bridge";
import { DiagnosticActions } from "./host/codeActions";
import { registerCommands } from "./host/commands";
import { StatusBar } from "./host/pickers";
import { SessionTree } from "./host/sessionTree";
import { folders, newSession } from "./host/settings";
import { Trust } from "./host/trust";

const GREETED = "pi.greeted";
let app: App | undefined;

export function activate(context: vscode.ExtensionContext): void {
  app = new App(context);
  const tree = new SessionTree(app);
  context.subscriptions.push(
    app,
    new Bridge(app),
    new StatusBar(app),
    new Trust(app),
    tree,
    ...registerCommands(app, tree),
    vscode.languages.registerCodeActionsProvider({ scheme: "file" }, new DiagnosticActions(), {
      providedCodeActionKinds: DiagnosticActions.kinds,
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => void changeFolders()),
  );
  void app.texts.closeLeftovers();
  void greet(context);
}

export async function deactivate(): Promise<void> {
  await app?.end();
}

/** Sessions in a folder of the window may work in its other folders. */
async function changeFolders(): Promise<void> {
  if (!app) return;
  const shown = new Set(app.chats.all.map(({ sessionId }) => sessionId));
  for (const sessionId of shown) {
    const session = app.sessions.get(sessionId);
    const here = folders().find(({ fsPath }) => fsPath === session?.state.cwd);
    if (!session || !here || session.readOnly) continue;
    const { additionalDirectories = [] } = newSession(here);
    await app.attempt((wire) =>
      wire.call("session/configure", { sessionId: session.id, additionalDirectories }),
    );
  }
}

/** Show the walkthrough once, where VS Code may show such things by itself. */
async function greet(context: vscode.ExtensionContext): Promise<void> {
  if (context.globalState.get(GREETED)) return;
  await context.globalState.update(GREETED, true);
  const settings = vscode.workspace.getConfiguration("workbench");
  if (!settings.get("welcomePage.walkthroughs.openOnInstall", true)) return;
  if (settings.get("startupEditor") === "none") return;
  await vscode.commands.executeCommand("pi.walkthrough");
}
