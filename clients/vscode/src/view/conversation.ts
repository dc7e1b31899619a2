/**
 * The conversation of one session: events in, rows out.
 *
 * Owns the session's state and what happens beside its stored messages. Rows change in place (`version`);
 * `transcript.order` grows when rows come or go, `header` when the session's state does. Nothing here draws, waits
 * or asks.
 */
import type {
  AgentEvent,
  AgentEventParams,
  Message,
  PermissionRequestParams,
  QueueItem,
  SessionMessagesResult,
  SessionState,
} from "../generated/protocol";
import type { Draft, SessionSnapshot } from "../shared/messages";
import { labelOf } from "./attachments";
import { changesOfRun } from "./changes";
import { type Group, groupOf, Reply } from "./groups";
import { Interludes } from "./interludes";
import { Output } from "./output";
import type { BashRow, NoteRow, Row, ToolRow } from "./rows";
import { askCall, endCall, liveCall, startCall, storedResult, updateCall, wasRejected } from "./tools";
import { Transcript } from "./transcript";

type EventOf<T extends AgentEvent["type"]> = AgentEvent & { type: T };

export class Conversation {
  readonly transcript = new Transcript();
  state: SessionState | null = null;
  readOnly = false;
  hasOlder = false;
  /** The first message of the oldest page. */
  oldestEntryId: string | undefined;
  /** Grows when the session's state, or what is asked, changes. */
  header = 0;

  private readonly asked = new Map<string, ToolRow>();
  private readonly sent = new Map<string, Group>();
  private readonly commands = new Map<string, BashRow>();
  private unbound: Reply | null = null;
  private readonly interludes = new Interludes(this.transcript);
  private messagesSeq = 0;
  private stateSeq = 0;
  private news: string[] = [];

  rows(): readonly Row[] {
    return this.transcript.rows();
  }

  /** Calls whose permission request waits for an answer. */
  waiting(): ToolRow[] {
    return [...this.asked.values()].filter((row) => row.asked && !row.asked.outcome);
  }

  /** What a person who does not see the screen should be told, since it was asked for last. */
  takeNews(): string[] {
    return this.news.splice(0);
  }

  get running(): boolean {
    return this.state !== null && this.state.phase !== "idle";
  }

  /** Begins anew with a session as it stands; null: with nothing. */
  load(session: SessionSnapshot | null): void {
    // What was said before there was a session belongs to the one that begins now.
    const said = this.state === null ? [...this.sent.values(), ...this.ownCommands()] : [];
    this.asked.clear();
    if (said.length === 0) for (const map of [this.sent, this.commands]) map.clear();
    this.unbound = null;
    this.interludes.reset();
    this.state = session?.state ?? null;
    this.readOnly = session?.readOnly ?? false;
    this.hasOlder = session?.messages.hasMore ?? false;
    this.oldestEntryId = session?.messages.entryIds[0];
    this.messagesSeq = session?.messages.lastSeq ?? 0;
    this.stateSeq = session?.state.lastSeq ?? 0;
    // What a run has changed stands at its end, and one that goes on has none yet.
    const ended = session?.checkpoints?.filter(({ settled }) => settled || !this.running);
    this.transcript.load(session?.messages ?? null, ended, session?.state.cwd);
    if (session) this.drawLive(session);
    for (const group of said) this.transcript.add(group);
    this.header++;
  }

  /** The daemon ended: nothing goes on. Gives what had been waiting, which nobody else has now. */
  gone(): QueueItem[] {
    const items = this.state?.queue.items ?? [];
    const queue = { steering: [], followUp: [], items: [] };
    this.change({ phase: "idle", isStreaming: false, queue });
    this.interludes.stop();
    this.transcript.close();
    for (const requestId of this.asked.keys()) this.resolved(requestId, "aborted");
    for (const token of this.commands.keys()) this.bashRefused(token, "pi-rpc has ended.");
    return items;
  }

  /** Puts a page of older messages before the rest. */
  older(page: SessionMessagesResult): void {
    this.hasOlder = page.hasMore && page.entryIds.length > 0;
    this.oldestEntryId = page.entryIds[0] ?? this.oldestEntryId;
    this.transcript.older(page);
    if (!this.running) this.transcript.stopCalls();
  }

  /** Shows what was just sent, until the daemon tells of it. */
  sending(clientMessageId: string, draft: Draft): void {
    const key = `sent:${clientMessageId}`;
    const attachments = (draft.attachments ?? []).map(labelOf);
    const { text, images = [] } = draft;
    const group = {
      rows: [{ kind: "user" as const, key, version: 0, text, images, attachments }],
    };
    this.sent.set(clientMessageId, group);
    this.transcript.add(group);
  }

  /** It was not taken. */
  refused(clientMessageId: string): void {
    this.transcript.replace(this.sent.get(clientMessageId), null);
    this.sent.delete(clientMessageId);
  }

  /** A command took it. */
  handled(clientMessageId: string): void {
    const group = this.sent.get(clientMessageId);
    this.sent.delete(clientMessageId);
    const [row] = group?.rows ?? [];
    if (row?.kind !== "user") return;
    this.transcript.replace(group, { rows: [{ ...row, version: row.version + 1, handled: true }] });
  }

  /** A command of the person begins. */
  runs(token: string, command: string, excludeFromContext: boolean): void {
    const [key, output] = [`bash:${token}`, new Output()];
    const base = { kind: "bash" as const, key, version: 0, command, output, excludeFromContext, token };
    const row: BashRow = { ...base, running: true, cancelled: false };
    this.commands.set(token, row);
    this.transcript.add({ rows: [row] });
  }

  /** It could not be run, or not be kept. */
  bashRefused(token: string, error: string): void {
    const row = this.commands.get(token);
    if (!row) return;
    this.commands.delete(token);
    row.running = false;
    row.error = error;
    row.version++;
  }

  permission(request: PermissionRequestParams): void {
    const row = this.transcript.callAtEnd(request.toolCallId, request.toolName);
    if (row.asked) this.asked.delete(row.asked.request.requestId);
    askCall(row, request);
    this.asked.set(request.requestId, row);
    this.news.push(`Permission needed: ${request.title}`);
    this.header++;
  }

  resolved(requestId: string, reason: string, answer?: string): void {
    const row = this.asked.get(requestId);
    if (!row?.asked || (row.asked.outcome && answer === undefined)) return;
    row.asked.outcome = { reason, answer };
    row.version++;
    this.header++;
  }

  review(requestId: string, hunks: number, rejected: number, edited: boolean): void {
    const row = this.asked.get(requestId);
    if (!row?.asked) return;
    row.asked.review = { hunks, rejected, edited };
    row.version++;
  }

  /** An event of the session, in order. Those that the snapshot holds are passed over. */
  apply({ sessionId, seq, event }: AgentEventParams): void {
    if (!this.state || sessionId !== this.state.sessionId) return;
    const anew =
      event.type === "session_changed" && event.epoch !== undefined && event.epoch !== this.state.epoch;
    if (anew) this.messagesSeq = this.stateSeq = 0;
    if (seq > this.messagesSeq) this.fold(event, seq <= this.stateSeq);
  }

  // `inState`: the snapshot's state, which is younger than its messages, holds what the event tells of it.
  private fold(event: AgentEvent, inState: boolean): void {
    switch (event.type) {
      case "message_start":
        this.messageStart(event);
        break;
      case "message_update":
        if (!inState) this.messageUpdate(event);
        break;
      case "message_end":
        this.messageEnd(event);
        break;
      case "tool_execution_start":
        startCall(this.transcript.callAtEnd(event.toolCallId, event.toolName), event);
        break;
      case "tool_execution_update": {
        const row = this.transcript.call(event.toolCallId);
        if (row && !inState) updateCall(row, event);
        break;
      }
      case "tool_execution_end": {
        const row = this.transcript.callAtEnd(event.toolCallId, event.toolName);
        endCall(row, event);
        if (event.isError) this.news.push(`${row.title}: ${wasRejected(row) ? "rejected" : "failed"}`);
        break;
      }
      case "bash_output":
        this.bashOutput(event);
        break;
      case "agent_settled":
        this.settled(event);
        break;
      case "compaction_start":
        this.interludes.compactionStart(event.reason);
        break;
      case "compaction_end":
        this.interludes.compactionEnd(event);
        break;
      case "auto_retry_start":
        this.interludes.retryStart(event);
        break;
      case "auto_retry_end":
        this.interludes.retryEnd();
        break;
      case "queue_update":
        if (!inState) this.change({ queue: event });
        break;
      case "session_changed":
        if (!inState) this.sessionChanged(event);
        break;
      case "diagnostic":
        this.transcript.add({ rows: [this.transcript.note(event.severity, event.message, event.source)] });
        break;
      case "entry_appended":
        if (event.entry.type === "custom_message") this.customEntry(event.entry);
        break;
      default:
    }
  }

  private messageStart({ message, messageId, clientMessageId }: EventOf<"message_start">): void {
    if (this.transcript.find(messageId)) return;
    if (message.role !== "assistant") this.shown(message, messageId, clientMessageId);
    else if (this.unbound?.timestamp === message.timestamp) this.bind(messageId);
    else this.newReply(messageId, message.timestamp);
  }

  private messageUpdate({ messageId, assistantMessageEvent }: EventOf<"message_update">): void {
    const reply = this.transcript.find(messageId) ?? this.bind(messageId);
    if (reply instanceof Reply && reply.update(assistantMessageEvent)) this.transcript.reordered();
  }

  private messageEnd({ message, messageId, entryId, clientMessageId }: EventOf<"message_end">): void {
    if (message.role === "assistant") {
      const known = this.transcript.find(messageId) ?? this.bind(messageId);
      const reply = known instanceof Reply ? known : this.newReply(messageId, message.timestamp);
      reply.replace(message, false);
      this.transcript.reordered();
      const said = reply.rows.flatMap((row) => (row.kind === "text" ? [row.text] : [])).join(" ");
      if (said !== "") this.news.push(said.length > 400 ? `${said.slice(0, 400)}…` : said);
    } else if (message.role === "toolResult") {
      const row = this.transcript.call(message.toolCallId);
      // The event of its end had more to tell than the message has.
      if (row && row.phase !== "done" && row.phase !== "failed") storedResult(row, message);
    } else if (!this.transcript.find(messageId)) this.shown(message, messageId, clientMessageId);
    const group = this.transcript.find(messageId);
    if (!group) return;
    group.entryId = entryId;
    for (const row of group.rows) {
      if (row.kind !== "user") continue;
      row.entryId = entryId;
      row.version++;
    }
  }

  private newReply(messageId: string, timestamp: number): Reply {
    const reply = new Reply(messageId, `m:${messageId}`, this.transcript.callOfMessage, timestamp);
    this.transcript.add(this.transcript.track(reply));
    return reply;
  }

  // The reply that was going on when the snapshot was made has no id yet: the first event of it tells.
  private bind(messageId: string): Reply | null {
    const reply = this.unbound;
    this.unbound = null;
    this.transcript.last = null;
    if (!reply) return null;
    reply.messageId = messageId;
    return this.transcript.track(reply);
  }

  // A message of the person, or of a program, takes the place of what was drawn when it was sent.
  private shown(message: Message, messageId: string, clientMessageId: string | undefined): void {
    const group = this.transcript.track(groupOf(message, messageId, this.transcript.callOfMessage));
    this.transcript.replace(this.placeholder(message, clientMessageId), group);
  }

  private placeholder(message: Message, clientMessageId: string | undefined): Group | undefined {
    if (message.role === "bashExecution") {
      for (const [token, row] of this.commands) {
        if (row.command !== message.command) continue;
        this.commands.delete(token);
        return this.transcript.groupAt(row);
      }
    }
    if (clientMessageId === undefined) return undefined;
    const group = this.sent.get(clientMessageId);
    this.sent.delete(clientMessageId);
    return group;
  }

  private customEntry(entry: { id: string; customType: string; content: unknown; display: boolean }): void {
    if (this.transcript.find(entry.id)) return;
    this.shown({ ...entry, role: "custom", timestamp: 0 } as Message, entry.id, undefined);
  }

  private bashOutput({ token, delta, omittedBytes }: EventOf<"bash_output">): void {
    const row = this.commands.get(String(token));
    if (!row) return;
    row.output.append(delta);
    if (omittedBytes !== undefined) row.output.omitted = omittedBytes;
    row.version++;
  }

  private settled(event: EventOf<"agent_settled">): void {
    this.interludes.retryEnd();
    this.transcript.stopCalls();
    const last = this.rows().at(-1);
    if (event.stopReason === "error" || event.stopReason === "limit") {
      const severity = event.stopReason === "error" ? "error" : "warning";
      const text = event.errorMessage ?? "The run failed without a reason.";
      const note = last?.kind === "note" && last.severity === severity ? last : this.addNote(severity, text);
      note.canContinue = true;
      note.version++;
      this.news.push(text);
    } else if (event.aborted) {
      if (last?.kind !== "note" || last.text !== "Stopped") this.addNote("info", "Stopped");
      this.news.push("Stopped");
    } else this.news.push("Done");
    const changes = changesOfRun(event);
    // A picture that was taken as the run ended may hold it already.
    const known = this.rows().some(({ key }) => key === changes?.key);
    if (changes && !known) this.transcript.add({ rows: [changes] });
  }

  private addNote(severity: NoteRow["severity"], text: string): NoteRow {
    const note = this.transcript.note(severity, text);
    this.transcript.add({ rows: [note] });
    return note;
  }

  private sessionChanged(event: EventOf<"session_changed">): void {
    const { type: _, removed, ...fields } = event;
    this.change(fields);
    for (const name of removed ?? []) delete (this.state as unknown as Record<string, unknown>)[name];
  }

  private ownCommands(): Group[] {
    return [...this.commands.values()].map((row) => ({ rows: [row] }));
  }

  private change(fields: Partial<SessionState>): void {
    if (this.state) this.state = { ...this.state, ...fields };
    this.header++;
  }

  private drawLive({ state, permissions }: SessionSnapshot): void {
    if (state.live?.message) {
      const reply = new Reply(undefined, "live", this.transcript.callOfMessage, state.live.message.timestamp);
      reply.replace(state.live.message, true);
      this.unbound = reply;
      this.transcript.add(reply);
      this.transcript.last = reply;
    }
    for (const tool of state.live?.tools ?? [])
      liveCall(this.transcript.callAtEnd(tool.toolCallId, tool.toolName), tool);
    for (const request of permissions) this.permission(request);
    if (!this.running) this.transcript.stopCalls();
  }
}
