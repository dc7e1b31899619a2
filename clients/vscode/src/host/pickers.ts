/** Model, thinking level and permission mode of the current session: in the status bar, and chosen from lists. */
import vscode = require("vscode");

import type { ModelEntry, SessionConfigureParams, SessionState } from "../generated/protocol";
import type { App } from "./app";
import { plain } from "./words";

type Mode = SessionState["permissionMode"];

const MODES: Record<Mode, { label: string; detail: string; icon: string }> = {
  ask: {
    label: "Ask",
    detail: "Reads by itself in the folder; asks before it writes or runs",
    icon: "shield",
  },
  edits: {
    label: "Edits",
    detail: "Also writes files in the folder by itself; asks before it runs",
    icon: "edit",
  },
  full: { label: "Full", detail: "Asks nothing", icon: "unlock" },
  readonly: { label: "Read only", detail: "Refuses every write and every command", icon: "lock" },
};

/** The three entries of the status bar, shown while there is a session. */
export class StatusBar implements vscode.Disposable {
  readonly #app: App;
  readonly #model = statusItem("pi.model", "pi: model", "pi.pickModel", 3);
  readonly #thinking = statusItem("pi.thinking", "pi: thinking", "pi.pickThinking", 2);
  readonly #mode = statusItem("pi.mode", "pi: permission mode", "pi.pickPermissionMode", 1);
  readonly #listeners: vscode.Disposable[];

  constructor(app: App) {
    this.#app = app;
    this.#listeners = [
      app.chats.onSwitch(() => this.#draw()),
      app.sessions.onChange(() => this.#draw()),
      app.daemon.onFail(() => this.#draw()),
    ];
  }

  dispose(): void {
    for (const each of [this.#model, this.#thinking, this.#mode, ...this.#listeners]) each.dispose();
  }

  #draw(): void {
    const { current } = this.#app;
    if (!current) {
      for (const item of [this.#model, this.#thinking, this.#mode]) item.hide();
      return;
    }
    const { model, thinkingLevel, permissionMode } = current.state;
    this.#model.text = `$(sparkle) ${plain(model?.name ?? "no model")}`;
    this.#model.tooltip = model
      ? `pi: ${model.provider}/${model.id}. Choose another model`
      : "pi: choose a model";
    this.#model.backgroundColor = model
      ? undefined
      : new vscode.ThemeColor("statusBarItem.warningBackground");
    this.#model.show();
    this.#thinking.text = `$(lightbulb) ${thinkingLevel}`;
    this.#thinking.tooltip = "pi: how much the model thinks";
    if ((model?.thinkingLevels.length ?? 0) > 1) this.#thinking.show();
    else this.#thinking.hide();
    const mode = MODES[permissionMode];
    this.#mode.text = `$(${mode.icon}) ${mode.label}`;
    this.#mode.tooltip = `pi: ${mode.detail}. Choose another permission mode`;
    this.#mode.backgroundColor =
      permissionMode === "full" ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    this.#mode.show();
  }
}

/** Choose the model of the current session. Those that can be asked come first. */
export async function pickModel(app: App): Promise<void> {
  const { current } = app;
  if (!current) return;
  const list = await app.attempt((wire) => wire.call("model/list", {}));
  if (!list) return;
  const usable = list.models.filter(({ authenticated }) => authenticated);
  const others = list.models.filter(({ authenticated }) => !authenticated);
  const { Separator } = vscode.QuickPickItemKind;
  const items: (vscode.QuickPickItem & { model?: ModelEntry })[] = [
    ...usable.map((model) => modelItem(model, current.state)),
    ...(others.length > 0 ? [{ label: "need a key", kind: Separator }] : []),
    ...others.map((model) => modelItem(model, current.state)),
  ];
  const chosen = await vscode.window.showQuickPick(items, {
    title: "Model of this session",
    matchOnDescription: true,
  });
  if (!chosen?.model) return;
  const { provider, id, authenticated } = chosen.model;
  if (!authenticated) {
    await vscode.commands.executeCommand("pi.setKey", provider);
  }
  await configure(app, current.id, { model: { provider, id } });
}

/** Choose how much the model of the current session thinks. */
export async function pickThinking(app: App): Promise<void> {
  const { current } = app;
  if (!current) return;
  const levels = current.state.model?.thinkingLevels ?? ["off"];
  const chosen = await vscode.window.showQuickPick(
    levels.map((level) => ({
      label: level,
      ...(level === current.state.thinkingLevel && { description: "now" }),
    })),
    { title: "How much the model thinks" },
  );
  const level = levels.find((each) => each === chosen?.label);
  if (level) await configure(app, current.id, { thinkingLevel: level });
}

/** Choose what tools may do without asking. */
export async function pickPermissionMode(app: App): Promise<void> {
  const { current } = app;
  if (!current) return;
  const modes = (Object.entries(MODES) as [Mode, (typeof MODES)[Mode]][]).map(
    ([mode, { label, detail, icon }]) => ({
      label: `$(${icon}) ${label}`,
      detail,
      mode,
      ...(mode === current.state.permissionMode && { description: "now" }),
    }),
  );
  const chosen = await vscode.window.showQuickPick(modes, { title: "What pi may do in this session" });
  if (!chosen) return;
  await configure(app, current.id, { permissionMode: chosen.mode });
  await app.rememberMode(current.id, chosen.mode);
}

async function configure(app: App, sessionId: string, changes: SessionConfigureParams): Promise<void> {
  await app.attempt((wire) => wire.call("session/configure", { sessionId, ...changes }), sessionId);
}

function modelItem(
  model: ModelEntry,
  { model: current }: SessionState,
): vscode.QuickPickItem & { model: ModelEntry } {
  const isCurrent = current?.provider === model.provider && current.id === model.id;
  const size = `${Math.round(model.contextWindow / 1000)}k`;
  return {
    label: plain(model.name),
    description: `${plain(`${model.provider}/${model.id}`)} · ${size}${isCurrent ? " · now" : ""}`,
    model,
  };
}

function statusItem(id: string, name: string, command: string, priority: number): vscode.StatusBarItem {
  const item = vscode.window.createStatusBarItem(id, vscode.StatusBarAlignment.Right, priority);
  item.name = name;
  item.command = command;
  return item;
}
