/**
 * What a chat's page asks for, done: requests to the daemon, and things that only the editor can do.
 *
 * A page is drawn from what a model wrote, so nothing of what it asks for is believed: links are checked, files are
 * opened only, and whatever changes something is a command that a person sees.
 */
import vscode = require("vscode");

import type { AbortResult, ImageBlock } from "../generated/protocol";
import type { Attachment, Draft, HostCommand, WebviewMessage } from "../shared/messages";
import type { App } from "./app";
import { attachFiles } from "./attachments";
import type { Chat } from "./chats";
import { checkpointDiff, checkpointRestore } from "./checkpoints";
import { DaemonGone, errorText, isRefusal, Refusal } from "./errors";
import { applyCode, openFile, openLink } from "./opening";
import { viewSettings } from "./settings";

/** Commands that a page may run: those that ask the person, or change nothing. */
const FROM_PAGE: ReadonlySet<string> = new Set<HostCommand | (string & {})>([
  "newSession",
  "openSession",
  "renameSession",
  "pickModel",
  "pickThinking",
  "pickPermissionMode",
  "compact",
  "attachSelection",
  "attachDiagnostics",
  "attachFile",
  "setKey",
  "showLog",
  "restart",
  "install",
  "openSettings",
  "openFolder",
  "manageTrust",
  "reopen",
]);

type Said<T extends WebviewMessage["type"]> = Extract<WebviewMessage, { type: T }>;
type Handlers = { [T in WebviewMessage["type"]]: (chat: Chat, message: Said<T>) => unknown };

/** Answers the pages of all chats. */
export class Bridge implements vscode.Disposable {
  readonly #app: App;
  readonly #handlers: Handlers;
  readonly #bash = new Map<string, vscode.CancellationTokenSource>();
  readonly #listeners: vscode.Disposable[];

  constructor(app: App) {
    this.#app = app;
    this.#handlers = { ...this.#conversation(), ...this.#browsing(), ...this.#editing() };
    this.#listeners = [
      app.chats.onMessage(({ chat, message }) => void this.#hear(chat, message)),
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (!change.affectsConfiguration("pi")) return;
        for (const chat of app.chats.all) chat.post({ type: "settings", settings: viewSettings() });
        if (change.affectsConfiguration("pi.program") && app.daemon.failure) void app.restart();
      }),
    ];
  }

  dispose(): void {
    for (const each of this.#listeners) each.dispose();
  }

  async #hear(chat: Chat, message: WebviewMessage): Promise<void> {
    // A page of another version may say what we do not know: that is ignored.
    const handler = this.#handlers[message.type] as
      | ((chat: Chat, message: WebviewMessage) => unknown)
      | undefined;
    try {
      await handler?.(chat, message);
    } catch (error) {
      this.#app.report(error, chat.sessionId);
    }
  }

  #conversation() {
    const app = this.#app;
    return {
      ready: (chat: Chat, { sessionId }: Said<"ready">) => app.show(chat, chat.sessionId ?? sessionId),
      send: (chat: Chat, message: Said<"send">) => this.#send(chat, message),
      stop: (chat: Chat) => stop(app, chat.sessionId),
      continue: async (chat: Chat) => {
        const wire = await app.daemon.use();
        await wire.call("continue", { ...of(chat), wait: "accepted" });
      },
      dequeue: async (chat: Chat, { itemId, edit }: Said<"dequeue">) => {
        const wire = await app.daemon.use();
        const given = await wire.call("queue/remove", { ...of(chat), id: itemId });
        if (edit) giveBack(app, chat.sessionId, given);
      },
      bash: (chat: Chat, message: Said<"bash">) => this.#runCommand(chat, message),
      cancelBash: (_: Chat, { token }: Said<"cancelBash">) => this.#bash.get(token)?.cancel(),
      answer: (_: Chat, { requestId, optionId, feedback }: Said<"answer">) =>
        app.reviews.answer(requestId, optionId, feedback),
      openReview: (_: Chat, { requestId }: Said<"openReview">) =>
        app.reviews.show(requestId, { preserveFocus: false }),
      branch: (chat: Chat, { entryId }: Said<"branch">) => branch(app, chat.sessionId, entryId, false),
      fork: (chat: Chat, { entryId }: Said<"fork">) => fork(app, chat.sessionId, entryId),
    } satisfies Partial<Handlers>;
  }

  #browsing() {
    const app = this.#app;
    return {
      loadOlder: async (chat: Chat, { beforeEntryId }: Said<"loadOlder">) => {
        if (!chat.sessionId) return;
        try {
          const page = await app.sessions.older(chat.sessionId, beforeEntryId);
          chat.post({ type: "older", beforeEntryId, page });
        } catch (error) {
          chat.post({ type: "older", beforeEntryId, error: errorText(error) });
        }
      },
      loadEntry: async (chat: Chat, { entryId }: Said<"loadEntry">) => {
        const wire = await app.daemon.use();
        const { entry } = await wire.call("session/entry", { ...of(chat), entryId });
        if (entry.type === "message") chat.post({ type: "entry", entryId, message: entry.message });
      },
      searchFiles: async (chat: Chat, { id, query }: Said<"searchFiles">) => {
        const wire = await app.daemon.use();
        const found = await wire.call("file/search", { ...of(chat), query, limit: 50 });
        chat.post({ type: "files", id, ...found });
      },
      openRecent: (chat: Chat, { sessionId }: Said<"openRecent">) => app.show(chat, sessionId),
      checkpoint: (chat: Chat, { action, checkpointId }: Said<"checkpoint">) =>
        action === "diff"
          ? checkpointDiff(app, chat.sessionId, checkpointId)
          : checkpointRestore(app, chat.sessionId, checkpointId),
      banner: (_: Chat, { action }: Said<"banner">) => this.#command(action),
      command: (_: Chat, { command }: Said<"command">) => this.#command(command),
    } satisfies Partial<Handlers>;
  }

  #editing() {
    const app = this.#app;
    const cwd = (chat: Chat) => app.sessions.get(chat.sessionId)?.state.cwd;
    return {
      dropped: (chat: Chat, { uris }: Said<"dropped">) =>
        attachFiles(
          chat,
          uris.map((uri) => vscode.Uri.parse(uri)),
        ),
      openFile: (chat: Chat, { uri, range, beside }: Said<"openFile">) =>
        openFile(uri, cwd(chat), range, beside ?? chat.surface.isTab),
      openLink: (_: Chat, { href }: Said<"openLink">) => openLink(href),
      openText: (_: Chat, { text, language, title }: Said<"openText">) =>
        app.texts.show(title, text, language),
      openDiff: (_: Chat, { title, diff }: Said<"openDiff">) => app.texts.show(`${title}.diff`, diff, "diff"),
      copy: (_: Chat, { text }: Said<"copy">) => vscode.env.clipboard.writeText(text),
      apply: (_: Chat, { code, language, newFile }: Said<"apply">) =>
        applyCode(code, language, newFile ?? false),
    } satisfies Partial<Handlers>;
  }

  #command(name: string): Thenable<unknown> | undefined {
    return FROM_PAGE.has(name) ? vscode.commands.executeCommand(`pi.${name}`) : undefined;
  }

  async #send(chat: Chat, { how, clientMessageId, text, images, attachments }: Said<"send">): Promise<void> {
    const app = this.#app;
    const message = {
      message: text,
      clientMessageId,
      ...(images?.length && { images }),
      ...(attachments?.length && { attachments }),
    };
    try {
      const wire = await app.daemon.use();
      if (!app.sessions.get(chat.sessionId)) await app.show(chat);
      if (!app.sessions.get(chat.sessionId)) throw new DaemonGone("There is no session to say it in.");
      app.truth.tell();
      // A run may have begun since the page was drawn: then what was meant to begin one steers it.
      const { disposition } =
        how === "prompt"
          ? await wire.call("prompt", {
              ...of(chat),
              ...message,
              wait: "accepted",
              streamingBehavior: "steer",
            })
          : await wire.call(how, { ...of(chat), ...message });
      if (disposition === "handled") chat.post({ type: "handled", clientMessageId });
    } catch (error) {
      const kind = error instanceof Refusal ? { kind: error.kind } : {};
      chat.post({ type: "refused", clientMessageId, error: errorText(error), ...kind });
      if (isRefusal(error, "authRequired", "modelRequired")) app.report(error, chat.sessionId);
    }
  }

  async #runCommand(chat: Chat, { command, token, excludeFromContext }: Said<"bash">): Promise<void> {
    const source = new vscode.CancellationTokenSource();
    this.#bash.set(token, source);
    try {
      const wire = await this.#app.daemon.use();
      await wire.call("bash", { ...of(chat), command, token, excludeFromContext }, source.token);
    } catch (error) {
      chat.post({ type: "bashRefused", token, error: errorText(error) });
    } finally {
      this.#bash.delete(token);
      source.dispose();
    }
  }
}

/** Stop what goes on in a session, and give back what waited. */
export async function stop(app: App, sessionId: string | undefined): Promise<void> {
  if (sessionId === undefined) return;
  const wire = await app.daemon.use();
  giveBack(app, sessionId, await wire.call("abort", { sessionId }));
}

/** Go back to an entry; a message of the person is given back to be said otherwise. */
export async function branch(
  app: App,
  sessionId: string | undefined,
  entryId: string,
  summarize: boolean,
): Promise<void> {
  if (sessionId === undefined) return;
  const wire = await app.daemon.use();
  const moved = await wire.call("branch", { sessionId, entryId, summarize });
  if (moved.cancelled) return;
  await app.redraw(sessionId);
  const { editorText, ...rest } = moved;
  giveDraft(app, sessionId, { ...rest, ...(editorText !== undefined && { text: editorText }) });
}

/** Begin a session with the path to an entry, in a tab of its own; without an entry with all of the branch. */
export async function fork(app: App, sessionId: string | undefined, entryId?: string): Promise<void> {
  if (sessionId === undefined) return;
  const wire = await app.daemon.use();
  const forked = await wire
    .call("session/fork", { sessionId, ...(entryId && { entryId }) })
    .catch((error) => {
      // Only a message of the person can be said otherwise; of anything else the fork holds it as well.
      if (!entryId || !isRefusal(error, "invalidParams")) throw error;
      return wire.call("session/fork", { sessionId, entryId, position: "at" });
    });
  const session = await app.sessions.adopt(forked.sessionId);
  app.chats.openTab(session.id);
  giveDraft(app, session.id, forked);
}

function giveBack(app: App, sessionId: string | undefined, { items }: AbortResult): void {
  if (items.length === 0) return;
  // One chat is enough: the texts would be sent twice otherwise.
  chatOf(app, sessionId)?.post({ type: "givenBack", items });
}

function giveDraft(
  app: App,
  sessionId: string,
  given: { text?: string; images?: ImageBlock[]; attachments?: unknown[] },
): void {
  if (given.text === undefined) return;
  const draft: Draft = {
    text: given.text,
    ...(given.images && { images: given.images }),
    // As they were sent; the daemon stores them unread.
    ...(given.attachments && { attachments: given.attachments as Attachment[] }),
  };
  chatOf(app, sessionId)?.post({ type: "draft", draft, how: "replace" });
}

/** The chat of a session that a person uses. */
function chatOf(app: App, sessionId: string | undefined): Chat | undefined {
  const chats = app.chats.of(sessionId);
  return chats.find((chat) => chat === app.chats.active) ?? chats[0];
}

function of(chat: Chat): { sessionId?: string } {
  return chat.sessionId === undefined ? {} : { sessionId: chat.sessionId };
}
