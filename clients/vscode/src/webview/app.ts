/** The chat: takes what the host says, and draws at most once a frame. */
import type { Banner, Draft, HostMessage } from "../shared/messages";
import { Conversation } from "../view/conversation";
import { Announcer } from "./announcer";
import { h, iconButton, show } from "./dom";
import { emptyState } from "./emptyState";
import { Folds } from "./folds";
import { Footer } from "./footer";
import type { Host } from "./host";
import { icon } from "./icons";
import { VirtualList } from "./list";
import { PromptBox } from "./promptBox";
import { type RowContext, rowMaker } from "./rowViews";
import { activityOf, activityView, drawBanners, drawQueue, drawWaiting } from "./strips";

export class App {
  readonly conversation = new Conversation();
  private readonly context: RowContext;
  private readonly list: VirtualList;
  private readonly prompt: PromptBox;
  private readonly footer: Footer;
  private readonly announcer = new Announcer();
  private readonly activity = activityView();
  private readonly scroller: HTMLElement;
  private readonly empty = h("div", { class: "empty-wrap" });
  private readonly banners = h("div", { class: "banners" });
  private readonly queue = h("div", { class: "queue", role: "group", "aria-label": "Waiting messages" });
  private readonly waiting = h("div", { class: "banner waiting" });
  private readonly toEnd: HTMLButtonElement;
  private hostBanners: Banner[] = [];
  private readonly drafts = new Map<string, Draft>();
  private loadingOlder = false;
  private drawnOrder = -1;
  private drawnHeader = -1;
  private frame = 0;

  constructor(
    root: HTMLElement,
    private readonly host: Host,
  ) {
    this.context = {
      host,
      folds: new Folds(),
      expandThinking: false,
      readOnly: () => this.conversation.readOnly,
    };
    const log = {
      class: "scroller",
      role: "log",
      "aria-live": "off",
      "aria-label": "Conversation",
      tabindex: "0",
    };
    this.scroller = h("div", log);
    this.list = new VirtualList(this.scroller, rowMaker(this.context));
    this.list.onScroll = () => this.scrolled();
    this.toEnd = iconButton(icon("down"), "Go to the end", () => this.list.scrollToEnd(), "to-end");
    this.prompt = new PromptBox(host, {
      send: (draft, how) => this.send(draft, how),
      bash: (command, excludeFromContext) => this.bash(command, excludeFromContext),
      stop: () => this.stop(),
      page: (direction) => this.scroller.scrollBy({ top: direction * 0.9 * this.scroller.clientHeight }),
    });
    this.footer = new Footer(host, { send: () => this.prompt.send(false), stop: () => this.stop() });
    const composer = h("div", { class: "composer" }, this.prompt.element, this.footer.element);
    const middle = h(
      "main",
      { class: "middle" },
      h("h1", { class: "hidden-text" }, "pi"),
      this.scroller,
      this.empty,
      this.toEnd,
    );
    const below = h(
      "section",
      { class: "below", "aria-label": "Message" },
      this.banners,
      this.waiting,
      this.queue,
      this.activity.element,
      composer,
    );
    root.replaceChildren(middle, below, this.announcer.element);
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && this.conversation.running) this.stop();
    });
    this.showEmpty([]);
    this.schedule();
  }

  /** Something from the host. */
  take(message: HostMessage): void {
    switch (message.type) {
      case "session":
        this.load(message);
        break;
      case "events":
        for (const event of message.events) this.conversation.apply(event);
        break;
      case "older":
        this.loadingOlder = false;
        if (message.page) this.conversation.older(message.page);
        break;
      case "checkpoints":
        this.conversation.transcript.setCheckpoints(message.checkpoints);
        break;
      case "entry":
        this.conversation.transcript.whole(message.entryId, message.message);
        break;
      case "permission":
        this.conversation.permission(message.request);
        break;
      case "resolved":
        this.conversation.resolved(message.requestId, message.reason, message.answer);
        break;
      case "review":
        this.conversation.review(message.requestId, message.hunks, message.rejected, message.edited);
        break;
      case "gone":
        this.prompt.giveBack(this.conversation.gone());
        break;
      case "banners":
        this.hostBanners = message.banners;
        this.drawnHeader = -1;
        break;
      case "recent":
        this.showEmpty(message.sessions);
        break;
      case "refused":
        this.refused(message.clientMessageId, message.error, message.kind);
        break;
      case "handled":
        this.drafts.delete(message.clientMessageId);
        this.conversation.handled(message.clientMessageId);
        break;
      case "bashRefused":
        this.conversation.bashRefused(message.token, message.error);
        break;
      case "settings":
        this.context.expandThinking = message.settings.expandThinking;
        this.prompt.setSpellcheck(message.settings.spellcheck);
        break;
      default:
        this.takeForPrompt(message);
    }
    this.schedule();
  }

  private takeForPrompt(message: HostMessage): void {
    switch (message.type) {
      case "commands":
        this.prompt.setCommands(message.commands);
        break;
      case "files":
        this.prompt.setFiles(message.id, message.files);
        break;
      case "attach":
        this.prompt.attach(message.attachments, message.images);
        this.prompt.focus();
        break;
      case "draft":
        this.prompt.setDraft(message.draft, message.how);
        if (message.send === true) this.prompt.send(false);
        else this.prompt.focus();
        break;
      case "givenBack":
        this.prompt.giveBack(message.items);
        break;
      case "focus":
        this.prompt.focus();
        break;
      default:
    }
  }

  private load({ session }: HostMessage & { type: "session" }): void {
    const before = this.conversation.state?.sessionId;
    this.conversation.load(session);
    this.loadingOlder = false;
    // Nothing can be shown while the daemon is away, and that is no reason to forget what is to be shown then.
    if (session) this.host.keep({ sessionId: session.state.sessionId });
    if (session?.state.sessionId !== before) this.list.stuck = true;
  }

  private send(draft: Draft, how: "prompt" | "steer" | "followUp"): void {
    const clientMessageId = crypto.randomUUID();
    this.drafts.set(clientMessageId, draft);
    if (how === "prompt") this.conversation.sending(clientMessageId, draft);
    this.host.post({ type: "send", how, clientMessageId, ...draft });
    this.list.stuck = true;
    this.schedule();
  }

  private refused(clientMessageId: string, error: string, kind?: string): void {
    const draft = this.drafts.get(clientMessageId);
    this.drafts.delete(clientMessageId);
    this.conversation.refused(clientMessageId);
    if (draft) this.prompt.setDraft(draft, "prepend");
    // A banner says what is missing and has buttons for it.
    if (kind !== "modelRequired" && kind !== "authRequired") this.prompt.showError(error);
  }

  private bash(command: string, excludeFromContext: boolean): void {
    const token = crypto.randomUUID();
    this.conversation.runs(token, command, excludeFromContext);
    this.host.post({ type: "bash", command, token, excludeFromContext });
    this.list.stuck = true;
    this.schedule();
  }

  private stop(): void {
    this.host.post({ type: "stop" });
  }

  private schedule(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { transcript } = this.conversation;
    if (transcript.order !== this.drawnOrder) {
      this.drawnOrder = transcript.order;
      const isEmpty = transcript.rows().length === 0;
      show(this.empty, isEmpty);
      show(this.scroller, !isEmpty);
      this.list.setRows(transcript.rows());
    } else this.list.refresh();
    if (this.conversation.header !== this.drawnHeader) this.drawHeader();
    this.activity.set(activityOf(this.conversation));
    this.announcer.tell(this.conversation.takeNews());
    this.scrolled();
  }

  private drawHeader(): void {
    const { state, readOnly, running } = this.conversation;
    this.drawnHeader = this.conversation.header;
    drawBanners(this.banners, this.hostBanners, this.conversation, this.host);
    drawQueue(this.queue, state?.queue.items ?? [], readOnly, this.host);
    this.prompt.setState(running, readOnly);
    this.prompt.setModel(state?.model);
    this.footer.update(state, running, readOnly);
  }

  private scrolled(): void {
    show(this.toEnd, !this.list.stuck && this.conversation.rows().length > 0);
    const unseen = this.conversation.waiting().find((row) => !this.list.isSeen(row.key));
    drawWaiting(this.waiting, unseen?.title ?? null, () => this.reveal(unseen?.key ?? ""));
    const { oldestEntryId, hasOlder } = this.conversation;
    if (!hasOlder || this.loadingOlder || !this.list.atTop || oldestEntryId === undefined) return;
    this.loadingOlder = true;
    this.host.post({ type: "loadOlder", beforeEntryId: oldestEntryId });
  }

  private reveal(key: string): void {
    this.list.reveal(key)?.querySelector<HTMLElement>(".asked button")?.focus({ preventScroll: true });
  }

  private showEmpty(recent: Parameters<typeof emptyState>[0]): void {
    this.empty.replaceChildren(emptyState(recent, this.host, Date.now()));
  }
}
