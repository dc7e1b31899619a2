/** Keys of providers: typed into a secret input, or named by where they are. No key is ever shown or kept here. */
import vscode = require("vscode");

import type { AuthSetParams, ProviderAuth } from "../generated/protocol";
import type { App } from "./app";

/** Have the person give a provider its key. */
export async function setKey(app: App, provider?: string): Promise<void> {
  const chosen = await chooseProvider(app, provider, "Which provider is the key for?", () => true);
  if (!chosen) return;
  const ways = [
    { label: "Type or paste the key", way: "apiKey" as const },
    {
      label: "Name an environment variable",
      detail: "of the daemon, that holds the key",
      way: "apiKeyEnv" as const,
    },
    {
      label: "Name a command",
      detail: "that prints the key, such as one of a password store",
      way: "apiKeyCommand" as const,
    },
  ];
  const how = await vscode.window.showQuickPick(ways, {
    title: `How do you give the key for ${chosen.name}?`,
    // Who types the key here would show it.
    placeHolder: "Choose a way; the key itself comes next",
  });
  if (!how) return;
  const value = await vscode.window.showInputBox({
    title: `${how.label}: ${chosen.name}`,
    password: how.way === "apiKey",
    ignoreFocusOut: true,
    prompt: "It is stored in pi's auth.json, which only you can read.",
    validateInput: (text) => (text.trim() === "" ? "It cannot be empty" : undefined),
  });
  if (value === undefined) return;
  const params: AuthSetParams = { provider: chosen.provider, [how.way]: value.trim() };
  const done = await app.attempt((wire) => wire.call("auth/set", params));
  if (!done) return;
  app.chats.banner("auth", undefined);
  for (const { sessionId } of app.chats.all) app.chats.banner("auth", undefined, sessionId);
  const { usable, problem, hint } = done.status;
  if (usable) void vscode.window.showInformationMessage(`pi can ask ${chosen.name} now.`);
  else
    void vscode.window.showWarningMessage(
      [problem, hint].filter(Boolean).join(" ") || "The key cannot be used.",
    );
}

/** Forget the key of a provider. */
export async function removeKey(app: App): Promise<void> {
  const stored = (each: ProviderAuth) => each.source === "auth.json";
  const chosen = await chooseProvider(app, undefined, "Which key should be forgotten?", stored);
  if (!chosen) return;
  const done = await app.attempt((wire) => wire.call("auth/remove", { provider: chosen.provider }));
  if (done?.removed) void vscode.window.showInformationMessage(`The key for ${chosen.name} is forgotten.`);
}

async function chooseProvider(
  app: App,
  provider: string | undefined,
  title: string,
  fits: (each: ProviderAuth) => boolean,
): Promise<ProviderAuth | undefined> {
  const status = await app.attempt((wire) => wire.call("auth/status", provider ? { provider } : {}));
  if (!status) return undefined;
  const providers = status.providers.filter(fits);
  if (provider) return providers[0];
  if (providers.length === 0) {
    await vscode.window.showInformationMessage("No key is stored.");
    return undefined;
  }
  const items = providers.map((each) => ({
    label: each.name,
    description: each.usable ? `$(check) ${each.source}` : "",
    ...(each.problem && { detail: each.problem }),
    each,
  }));
  return (await vscode.window.showQuickPick(items, { title, matchOnDescription: true }))?.each;
}
