/**
 * The chats of a window: one in the side bar, any number in editor tabs, each with one session.
 *
 * Owns surfaces, what is posted to them and in which order: a picture of the session first, then the events after
 * it. What a chat asks for is `bridge.ts`'s.
 */
import vscode = require("vscode");

import type { AgentEventParams, PermissionRequestParams } from "../generated/protocol";
import type { Banner, HostMessage, WebviewMessage } from "../shared/messages";
import { page, resourceRoots } from "./page";
import { isOfPage } from "./pageMessages";
import type { Picture } from "./sessions";
import { viewSettings } from "./settings";
import type { Tabs } from "./tabs";

/** The id of the view in the side bar. */
export const VIEW = "pi.chat";
/** The type of the editor tabs. */
export const TAB = "pi.chatTab";

/** What a chat is drawn on. */
export interface Surface {
  readonly webview: vscode.Webview;
  readonly visible: boolean;
  /** Of an editor tab. */
  readonly isTab: boolean;
  reveal(preserveFocus: boolean): void;
  setTitle(name: string | undefined): void;
}

/** One chat. */
export class Chat {
  readonly surface: Surface;
  /** The session that it shows. */
  sessionId: string | undefined;
  /** Its page listens. */
  isReady = false;
  #held: AgentEventParams[] | undefined;
  #batch: AgentEventParams[] = [];
  #picture = 0;
  #waiting: HostMessage[] = [];

  constructor(surface: Surface, sessionId?: string) {
    this.surface = surface;
    this.sessionId = sessionId;
  }

  /** Post to the page, once it listens. */
  post(message: HostMessage): void {
    if (!this.isReady) {
      this.#waiting.push(message);
      return;
    }
    this.#flush();
    void this.surface.webview.postMessage(message);
  }

  /** The page listens, perhaps once more: it knows nothing of what was posted before. */
  begin(): void {
    this.isReady = true;
    this.#batch = [];
  }

  /** Post what waited for the page, behind its session. */
  catchUp(): void {
    for (const message of this.#waiting.splice(0)) this.post(message);
  }

  /** Draw a session anew, from a picture that `take` takes; events that come meanwhile follow it. */
  async draw(
    sessionId: string,
    take: () => Promise<Picture>,
    more: () => { permissions: PermissionRequestParams[]; readOnly: boolean },
  ): Promise<void> {
    this.sessionId = sessionId;
    this.#picture += 1;
    const mine = this.#picture;
    this.#held = [];
    this.#batch = [];
    try {
      const { messages, state, checkpoints } = await take();
      if (mine !== this.#picture) return;
      this.surface.setTitle(state.name);
      this.post({ type: "session", session: { messages, state, checkpoints, ...more() } });
      const later = this.#held.filter(({ seq }) => seq > messages.lastSeq);
      this.#held = undefined;
      if (later.length > 0) this.post({ type: "events", events: later });
    } finally {
      if (mine === this.#picture) this.#held = undefined;
    }
  }

  /** Show that no session is open. */
  drawNothing(): void {
    this.#picture += 1;
    this.#held = undefined;
    this.#batch = [];
    this.sessionId = undefined;
    this.surface.setTitle(undefined);
    this.post({ type: "session", session: null });
  }

  /** An event of its session. Those that arrive together are posted together. */
  hear(params: AgentEventParams): void {
    if (this.#held) {
      this.#held.push(params);
      return;
    }
    if (!this.isReady) return;
    if (this.#batch.push(params) === 1) setImmediate(() => this.#flush());
  }

  #flush(): void {
    if (this.#batch.length === 0) return;
    const events = this.#batch;
    this.#batch = [];
    void this.surface.webview.postMessage({ type: "events", events } satisfies HostMessage);
  }
}

/** All chats of a window. */
export class Chats implements vscode.WebviewViewProvider, vscode.WebviewPanelSerializer, vscode.Disposable {
  readonly #extension: vscode.Uri;
  readonly #tabs: Tabs;
  readonly #all = new Set<Chat>();
  readonly #banners = new Map<string, { banner: Banner; sessionId: string | undefined }>();
  readonly #said = new vscode.EventEmitter<{ chat: Chat; message: WebviewMessage }>();
  readonly #switched = new vscode.EventEmitter<void>();
  readonly #registered: vscode.Disposable[];
  #active: Chat | undefined;
  /** A page says something. */
  readonly onMessage = this.#said.event;
  /** Another chat is the active one, or it shows another session, or chats came into sight or went out of it. */
  readonly onSwitch = this.#switched.event;

  constructor(extension: vscode.Uri, tabs: Tabs) {
    this.#extension = extension;
    this.#tabs = tabs;
    const { window } = vscode;
    this.#registered = [
      window.registerWebviewViewProvider(VIEW, this, { webviewOptions: { retainContextWhenHidden: true } }),
      window.registerWebviewPanelSerializer(TAB, this),
    ];
  }

  /** The chat that was used last. */
  get active(): Chat | undefined {
    return this.#active;
  }

  /** The chats of a session. */
  of(sessionId: string | undefined): Chat[] {
    return [...this.#all].filter((chat) => chat.sessionId === sessionId);
  }

  /** All chats. */
  get all(): Chat[] {
    return [...this.#all];
  }

  /** Whether a person can see a session now. */
  isSeen(sessionId: string | undefined): boolean {
    return this.of(sessionId).some(({ surface }) => surface.visible);
  }

  /** Post to all chats of a session. */
  post(sessionId: string | undefined, message: HostMessage): void {
    for (const chat of this.of(sessionId)) chat.post(message);
  }

  /** Bring the chat in the side bar to the front, and give it; undefined when VS Code does not show it. */
  async view(): Promise<Chat | undefined> {
    await vscode.commands.executeCommand(`${VIEW}.focus`);
    return this.all.find(({ surface }) => !surface.isTab);
  }

  /** The chat to say something in: the active one, else that of the side bar. */
  async front(): Promise<Chat | undefined> {
    const chat = this.#active ?? (await this.view());
    chat?.surface.reveal(false);
    return chat;
  }

  /** Open a chat in an editor tab. */
  openTab(sessionId: string | undefined): Chat {
    const panel = vscode.window.createWebviewPanel(TAB, "pi", vscode.ViewColumn.Active, {
      retainContextWhenHidden: true,
    });
    return this.#addPanel(panel, sessionId);
  }

  /** Hold a banner up, or take it down; with a session only there. */
  banner(id: string, banner: Omit<Banner, "id"> | undefined, sessionId?: string): void {
    const key = JSON.stringify([id, sessionId]);
    if (!banner && !this.#banners.has(key)) return;
    if (banner) this.#banners.set(key, { banner: { ...banner, id }, sessionId });
    else this.#banners.delete(key);
    for (const chat of this.#all) this.postBanners(chat);
  }

  /** The banners that hold for a chat. */
  postBanners(chat: Chat): void {
    const banners = [...this.#banners.values()]
      .filter(({ sessionId }) => sessionId === undefined || sessionId === chat.sessionId)
      .map(({ banner }) => banner);
    chat.post({ type: "banners", banners });
  }

  /** Make a chat the active one. */
  activate(chat: Chat): void {
    this.#active = chat;
    this.#switched.fire();
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    const surface: Surface = {
      webview: view.webview,
      isTab: false,
      get visible() {
        return view.visible;
      },
      reveal: (preserveFocus) => view.show(preserveFocus),
      setTitle: (name) => {
        view.description = name ?? "";
      },
    };
    const chat = this.#add(surface, undefined);
    view.onDidDispose(() => this.#remove(chat));
    view.onDidChangeVisibility(() => this.#switched.fire());
  }

  async deserializeWebviewPanel(panel: vscode.WebviewPanel, kept: unknown): Promise<void> {
    const { sessionId } = (kept ?? {}) as { sessionId?: unknown };
    this.#addPanel(panel, this.#tabs.back(typeof sessionId === "string" ? sessionId : undefined));
  }

  /** A chat shows a session from now on: what it is to show after a reload. */
  shows(chat: Chat, sessionId: string): void {
    if (chat.surface.isTab) this.#tabs.shows(chat, sessionId);
  }

  dispose(): void {
    for (const each of this.#registered) each.dispose();
  }

  #addPanel(panel: vscode.WebviewPanel, sessionId: string | undefined): Chat {
    panel.iconPath = vscode.Uri.joinPath(this.#extension, "media", "pi.svg");
    const surface: Surface = {
      webview: panel.webview,
      isTab: true,
      get visible() {
        return panel.visible;
      },
      reveal: (preserveFocus) => panel.reveal(undefined, preserveFocus),
      setTitle: (name) => {
        panel.title = name ? `pi: ${name}` : "pi";
      },
    };
    const chat = this.#add(surface, sessionId);
    if (sessionId !== undefined) this.#tabs.shows(chat, sessionId);
    panel.onDidDispose(() => {
      this.#tabs.closed(chat);
      this.#remove(chat);
    });
    panel.onDidChangeViewState(() => {
      if (panel.active) this.#active = chat;
      this.#switched.fire();
    });
    return chat;
  }

  #add(surface: Surface, sessionId: string | undefined): Chat {
    const chat = new Chat(surface, sessionId);
    this.#all.add(chat);
    this.#active ??= chat;
    const { webview } = surface;
    webview.options = { enableScripts: true, localResourceRoots: resourceRoots(this.#extension) };
    webview.onDidReceiveMessage((message: unknown) => {
      if (!isOfPage(message)) return;
      if (message.type === "ready") {
        chat.begin();
        chat.post({ type: "settings", settings: viewSettings() });
        this.postBanners(chat);
      } else if (this.#active !== chat) {
        this.activate(chat);
      }
      this.#said.fire({ chat, message });
    });
    webview.html = page(webview, this.#extension);
    return chat;
  }

  #remove(chat: Chat): void {
    this.#all.delete(chat);
    if (this.#active === chat) this.#active = [...this.#all].at(-1);
    this.#switched.fire();
  }
}
