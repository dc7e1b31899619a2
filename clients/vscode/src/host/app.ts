/**
 * The parts of the extension put together: what hears of what.
 *
 * Owns which session a chat shows, and what a person is told when the daemon is not there. Nothing here starts the
 * daemon by itself: it begins with the first chat that is shown, or the first command.
 */
import vscode = require("vscode");

import type { InitializeParams, PermissionRequestParams, SessionState } from "../generated/protocol";
import type { Banner } from "../shared/messages";
import { type Chat, Chats } from "./chats";
import { Daemon } from "./daemon";
import { explain, goneBanner, watchBeginning } from "./daemonNotice";
import { EditorTruth } from "./editorTruth";
import { DaemonGone, errorText, isRefusal } from "./errors";
import { askByNotification } from "./permissionNotice";
import { Permissions } from "./permissions";
import { Questions } from "./questions";
import { Reviews } from "./review";
import { type Session, Sessions } from "./sessions";
import { folders, launch, newSession, permissionMode, reviewIn, stricter } from "./settings";
import { Tabs } from "./tabs";
import { Texts } from "./texts";
import type { Wire } from "./wire";
import { plain } from "./words";

/** Where the session of the side bar is remembered. */
const REMEMBERED = "pi.session";
/** Where the permission modes are remembered that a person chose, and of how many sessions. */
const MODES = "pi.permissionModes";
const MOST_MODES = 200;

/** What stands above a session that can only be looked at. */
const LOCKED: Omit<Banner, "id"> = {
  severity: "info",
  text: "Another window or program works in this session, so it can only be read here.",
  actions: [
    { id: "reopen", label: "Try again" },
    { id: "newSession", label: "New session" },
  ],
};

/** Everything of a window. */
export class App implements vscode.Disposable {
  readonly context: vscode.ExtensionContext;
  readonly log: vscode.LogOutputChannel;
  readonly daemon: Daemon;
  readonly sessions: Sessions;
  readonly permissions = new Permissions();
  readonly texts = new Texts();
  readonly reviews: Reviews;
  readonly questions: Questions;
  readonly truth = new EditorTruth();
  readonly chats: Chats;
  readonly #showing = new WeakMap<Chat, Promise<void>>();

  constructor(context: vscode.ExtensionContext) {
    this.context = context;
    this.log = vscode.window.createOutputChannel("pi", { log: true });
    this.daemon = new Daemon(launch, () => greeting(context), this.log);
    this.sessions = new Sessions(this.daemon);
    this.reviews = new Reviews(this.permissions, this.texts);
    this.questions = new Questions(this.texts, (id) => this.sessions.get(id)?.state.name);
    this.chats = new Chats(context.extensionUri, new Tabs(context.workspaceState));
    this.#connect();
    this.#draw();
    this.#ask();
  }

  /** The session of the chat that was used last. */
  get current(): Session | undefined {
    return this.sessions.get(this.chats.active?.sessionId);
  }

  /**
   * Show a session in a chat; without one the session it had, or the remembered one, or a new one.
   *
   * One after the other, so that what two want of a chat that has none yet is the same session.
   */
  show(chat: Chat, sessionId?: string): Promise<void> {
    const next = () => this.#show(chat, sessionId);
    const shown = (this.#showing.get(chat) ?? Promise.resolve()).then(next, next);
    this.#showing.set(chat, shown);
    return shown;
  }

  async #show(chat: Chat, sessionId: string | undefined): Promise<void> {
    const wanted = sessionId ?? chat.sessionId ?? this.#remembered(chat);
    try {
      const session = await this.#sessionFor(wanted);
      if (!session) {
        chat.drawNothing();
        return;
      }
      this.chats.banner("folder", undefined);
      await this.#picture(chat, session);
      this.chats.shows(chat, session.id);
      if (!chat.surface.isTab) await this.context.workspaceState.update(REMEMBERED, session.id);
      this.chats.postBanners(chat);
    } catch (error) {
      // A failure of the daemon itself holds a banner up already.
      if (!this.daemon.failure) this.report(error);
      if (!chat.sessionId || !this.sessions.get(chat.sessionId))
        chat.post({ type: "session", session: null });
    } finally {
      this.chats.activate(chat);
    }
  }

  /** Take another picture of a session for all its chats. */
  async redraw(sessionId: string): Promise<void> {
    const session = this.sessions.get(sessionId);
    if (!session) return;
    await Promise.all(this.chats.of(sessionId).map((chat) => this.#picture(chat, session)));
  }

  /** The connection, or undefined after the person was told why there is none. */
  async connected(): Promise<Wire | undefined> {
    try {
      return await this.daemon.use();
    } catch (error) {
      await explain(this.daemon.failure ?? { error: error as Error, crashed: false });
      return undefined;
    }
  }

  /** Do something for a person, and tell them when it fails. */
  async attempt<R>(what: (wire: Wire) => Promise<R>, sessionId?: string): Promise<R | undefined> {
    const wire = await this.connected();
    if (!wire) return undefined;
    try {
      return await what(wire);
    } catch (error) {
      this.report(error, sessionId);
      return undefined;
    }
  }

  /** Tell a person that something they wanted failed. */
  report(error: unknown, sessionId?: string): void {
    // VS Code says so when the window goes; then nobody is there to be told, nor a log to write to.
    if (error instanceof Error && error.name === "Canceled") return;
    this.log.warn(errorText(error));
    // That the daemon is gone is told once, with what can be done about it.
    if (error instanceof DaemonGone) return;
    if (isRefusal(error, "authRequired", "modelRequired")) {
      this.chats.banner(
        "auth",
        {
          severity: "warning",
          text: error.message,
          actions: [
            { id: "setKey", label: "Set a key…" },
            { id: "pickModel", label: "Choose a model…" },
          ],
        },
        sessionId,
      );
      return;
    }
    void vscode.window.showErrorMessage(`pi: ${plain(errorText(error))}`, "Show log").then((chosen) => {
      if (chosen) this.log.show();
    });
  }

  /** Start the daemon again and give each chat its session back. */
  async restart(): Promise<void> {
    this.sessions.forgetAll();
    try {
      await this.daemon.restart();
    } catch {
      return; // `onFail` told of it.
    }
    await Promise.all(this.chats.all.map((chat) => this.show(chat)));
  }

  /** End the daemon. VS Code waits for it when the window closes. */
  async end(): Promise<void> {
    await this.daemon.stop();
  }

  dispose(): void {
    for (const part of [this.truth, this.reviews, this.questions, this.texts, this.chats, this.log])
      part.dispose();
  }

  #connect(): void {
    const { daemon, permissions, questions, truth } = this;
    daemon.onBegin((answer) => void watchBeginning(this.chats, answer));
    daemon.onConnect((wire) => {
      questions.serve(wire);
      truth.serve(wire);
      wire.answers("permission/request", (params, token) => permissions.ask(params, token));
      wire.hears("request/resolved", ({ requestId, reason }) => permissions.resolved(requestId, reason));
      wire.onEnd(() => permissions.drop());
    });
    daemon.onStart(({ wire }) => {
      truth.begin(wire);
      this.chats.banner("daemon", undefined);
    });
    daemon.onFail((failure) => {
      this.sessions.forgetAll();
      for (const chat of this.chats.all) chat.post({ type: "gone" });
      this.chats.banner("daemon", goneBanner(failure));
      if (failure.crashed && !this.chats.all.some(({ surface }) => surface.visible)) void explain(failure);
    });
  }

  #draw(): void {
    const { chats, sessions } = this;
    sessions.onEvent((params) => {
      for (const chat of chats.of(params.sessionId)) chat.hear(params);
      if (params.event.type === "commands_changed") this.#meanwhile(this.#commands(params.sessionId));
      const { event } = params;
      // Whoever asked for a model or a key has it.
      if (event.type === "agent_start" || (event.type === "session_changed" && event.model)) {
        chats.banner("auth", undefined);
        chats.banner("auth", undefined, params.sessionId);
      }
    });
    sessions.onBreak((session) => this.#meanwhile(this.redraw(session.id)));
    sessions.onChange(({ id, state }) => {
      for (const { surface } of chats.of(id)) surface.setTitle(state.name);
    });
  }

  #ask(): void {
    const { chats, permissions, reviews } = this;
    const noticed = new Set<string>();
    // At once where no chat shows it, and later when the last chat that did goes out of sight.
    const noticeUnseen = (request: PermissionRequestParams) => {
      if (noticed.has(request.requestId) || chats.isSeen(request.sessionId)) return;
      noticed.add(request.requestId);
      this.#meanwhile(this.#notice(request));
    };
    chats.onSwitch(() => permissions.all.forEach(noticeUnseen));
    permissions.onAsk((request) => {
      chats.post(request.sessionId, { type: "permission", request });
      if (request.edits?.length && reviewIn() === "diffEditor") {
        this.#meanwhile(reviews.show(request.requestId, { preserveFocus: true }));
      }
      noticeUnseen(request);
    });
    permissions.onSettle(({ request, reason, choice }) => {
      noticed.delete(request.requestId);
      chats.post(request.sessionId, {
        type: "resolved",
        requestId: request.requestId,
        reason,
        ...(choice && { answer: choice.name }),
      });
    });
    reviews.onChange(({ requestId, sessionId, hunks, rejected, edited }) =>
      chats.post(sessionId, { type: "review", requestId, hunks, rejected, edited }),
    );
  }

  #meanwhile(work: Promise<unknown>): void {
    work.catch((error) => this.report(error));
  }

  async #notice(request: PermissionRequestParams): Promise<void> {
    const answer = await askByNotification(request, this.sessions.get(request.sessionId)?.state.name);
    if (answer === "show") await this.reveal(request.sessionId);
    else if (answer) this.reviews.answer(request.requestId, answer.optionId, answer.feedback);
  }

  /** Bring a session before the person's eyes. */
  async reveal(sessionId: string | undefined): Promise<void> {
    const [chat] = this.chats.of(sessionId);
    if (chat) {
      chat.surface.reveal(false);
      return;
    }
    const view = await this.chats.view();
    if (view && sessionId) await this.show(view, sessionId);
  }

  async #picture(chat: Chat, session: Session): Promise<void> {
    const wire = await this.daemon.use();
    await chat.draw(
      session.id,
      () => this.sessions.picture(wire, session.id),
      () => ({ permissions: this.permissions.of(session.id), readOnly: session.readOnly }),
    );
    chat.catchUp();
    this.chats.banner("readOnly", session.readOnly ? LOCKED : undefined, session.id);
    await this.#commands(session.id);
    if (session.state.messageCount === 0) await this.#recent(chat, wire);
  }

  async #commands(sessionId: string): Promise<void> {
    const wire = await this.daemon.use();
    const { commands } = await wire.call("command/list", { sessionId });
    this.chats.post(sessionId, { type: "commands", commands });
  }

  async #recent(chat: Chat, wire: Wire): Promise<void> {
    const session = this.sessions.get(chat.sessionId);
    if (!session) return;
    const { sessions } = await wire.call("session/list", { cwd: session.state.cwd, limit: 8 });
    const others = sessions.filter(({ sessionId }) => sessionId !== session.id);
    chat.post({ type: "recent", sessions: others });
  }

  #remembered(chat: Chat): string | undefined {
    return chat.surface.isTab ? undefined : this.context.workspaceState.get<string>(REMEMBERED);
  }

  async #sessionFor(wanted: string | undefined): Promise<Session | undefined> {
    const known = this.sessions.get(wanted);
    if (known) return known;
    if (wanted !== undefined) {
      try {
        return await this.open(wanted);
      } catch (error) {
        // One that never held a message has no file: another takes its place.
        if (!isRefusal(error, "sessionNotFound")) throw error;
        this.log.info(`another session takes the place of ${wanted}, which has no file`);
      }
    }
    return this.create();
  }

  /** Open a stored session as this window wants it. */
  async open(sessionId: string): Promise<Session> {
    const session = await this.sessions.open({ sessionId });
    if (session.readOnly) return session;
    // These are not kept in its file.
    const here = folders().find(({ fsPath }) => fsPath === session.state.cwd);
    const { cwd: _, ...wishes } = here ? newSession(here) : { cwd: "" };
    const mode = stricter(permissionMode(), this.#modes()[sessionId]);
    const wire = await this.daemon.use();
    session.state = await wire.call("session/configure", { sessionId, ...wishes, permissionMode: mode });
    return session;
  }

  /** Keep the mode that a person chose for a session: when it is opened again it is not to allow more. */
  async rememberMode(sessionId: string, mode: SessionState["permissionMode"]): Promise<void> {
    const { [sessionId]: _, ...others } = this.#modes();
    const kept = Object.entries({ ...others, [sessionId]: mode }).slice(-MOST_MODES);
    await this.context.workspaceState.update(MODES, Object.fromEntries(kept));
  }

  #modes(): Record<string, SessionState["permissionMode"]> {
    return this.context.workspaceState.get(MODES, {});
  }

  /** Begin a session in a folder of the window; undefined when it has none. */
  async create(folder: vscode.Uri | undefined = folders()[0]): Promise<Session | undefined> {
    if (!folder) {
      this.chats.banner("folder", {
        severity: "info",
        text: "pi works in a folder. Open one to begin.",
        actions: [{ id: "openFolder", label: "Open folder…" }],
      });
      return undefined;
    }
    return this.sessions.create(newSession(folder));
  }
}

function greeting(context: vscode.ExtensionContext): InitializeParams {
  const { version } = context.extension.packageJSON as { version: string };
  return {
    processId: process.pid,
    clientInfo: { name: `vscode-pi (${vscode.env.appName} ${vscode.version})`, version },
    protocolVersion: 1,
    cwd: launch().cwd,
    capabilities: {
      general: { positionEncodings: ["utf-16"] },
      permission: true,
      ui: true,
      editor: { readDocument: true, applyEdit: true, saveDocument: true },
      // VS Code watches files itself.
      events: { optOut: ["files_changed", "save_point"] },
    },
  };
}
