/**
 * The sessions of this window: what is known of each, and whether its events came without a gap.
 *
 * Owns the numbering (`seq`, `epoch`) and the state that `session_changed` keeps up to date. What a conversation
 * looks like is not here: a chat takes a snapshot and draws the events after it.
 */
import vscode = require("vscode");

import type {
  AgentEventParams,
  CheckpointSummary,
  SessionChanged,
  SessionMessagesResult,
  SessionNewParams,
  SessionOpenParams,
  SessionState,
} from "../generated/protocol";
import type { Daemon } from "./daemon";
import { isRefusal } from "./errors";
import type { Wire } from "./wire";

/** One session as this window knows it. */
export interface Session {
  readonly id: string;
  /** As it was last told. */
  state: SessionState;
  /** Only to be looked at: another process writes it. */
  readonly readOnly: boolean;
}

/** What a chat draws first. */
export interface Picture {
  messages: SessionMessagesResult;
  state: SessionState;
  /** What its runs changed, the newest first. */
  checkpoints: CheckpointSummary[];
}

const PAGE = 200;
const CHECKPOINTS = 200;
const LONGEST_MESSAGE = 100_000;

/** All sessions that this window has opened. */
export class Sessions {
  readonly #daemon: Daemon;
  readonly #known = new Map<string, Session>();
  readonly #events = new vscode.EventEmitter<AgentEventParams>();
  readonly #changed = new vscode.EventEmitter<Session>();
  readonly #broken = new vscode.EventEmitter<Session>();

  constructor(daemon: Daemon) {
    this.#daemon = daemon;
    daemon.onConnect((wire) => wire.hears("agent/event", (params) => this.#hear(params)));
  }

  /** An event in its turn. */
  get onEvent(): vscode.Event<AgentEventParams> {
    return this.#events.event;
  }

  /** Something in `state` is new. */
  get onChange(): vscode.Event<Session> {
    return this.#changed.event;
  }

  /** Events were missed, or count anew: take another picture. */
  get onBreak(): vscode.Event<Session> {
    return this.#broken.event;
  }

  /** A session of this window. */
  get(id: string | undefined): Session | undefined {
    return id === undefined ? undefined : this.#known.get(id);
  }

  /** Begin a session. */
  async create(params: SessionNewParams): Promise<Session> {
    const wire = await this.#daemon.use();
    return this.#keep(await wire.call("session/new", params), false);
  }

  /** Open a stored session; one that another process writes is opened to be looked at. */
  async open(params: SessionOpenParams): Promise<Session> {
    const wire = await this.#daemon.use();
    try {
      return this.#keep(await wire.call("session/open", params), params.readOnly ?? false);
    } catch (error) {
      if (!isRefusal(error, "sessionLocked") || params.readOnly) throw error;
      return this.#keep(await wire.call("session/open", { ...params, readOnly: true }), true);
    }
  }

  /** Take in a session that an answer of the daemon has opened. */
  async adopt(sessionId: string): Promise<Session> {
    const wire = await this.#daemon.use();
    return this.#keep(await wire.call("session/state", { sessionId }), false);
  }

  /** The newest messages, then what goes on; in this order nothing is missed in between. */
  async picture(wire: Wire, sessionId: string): Promise<Picture> {
    const messages = await wire.call("session/messages", {
      sessionId,
      limit: PAGE,
      maxBytesPerMessage: LONGEST_MESSAGE,
    });
    const state = await wire.call("session/state", { sessionId, include: ["live"] });
    const known = this.#known.get(sessionId);
    if (known) {
      const { live: _, ...rest } = state;
      known.state = { ...rest, lastSeq: Math.max(known.state.lastSeq, messages.lastSeq) };
    }
    // Last, so that it holds every run whose end is among the messages.
    return { messages, state, checkpoints: await this.checkpoints(wire, sessionId) };
  }

  /** What the runs of a session changed, the newest first. */
  async checkpoints(wire: Wire, sessionId: string): Promise<CheckpointSummary[]> {
    const { checkpoints } = await wire.call("checkpoint/list", { sessionId, limit: CHECKPOINTS });
    return checkpoints;
  }

  /** A page of older messages. */
  async older(sessionId: string, beforeEntryId: string): Promise<SessionMessagesResult> {
    const wire = await this.#daemon.use();
    return wire.call("session/messages", {
      sessionId,
      beforeEntryId,
      limit: PAGE,
      maxBytesPerMessage: LONGEST_MESSAGE,
    });
  }

  /** No longer one of this window. */
  forget(id: string): void {
    this.#known.delete(id);
  }

  /** The daemon is gone, and with it all that was open. */
  forgetAll(): void {
    this.#known.clear();
  }

  #keep(state: SessionState, readOnly: boolean): Session {
    const session = { id: state.sessionId, state, readOnly };
    this.#known.set(state.sessionId, session);
    this.#changed.fire(session);
    return session;
  }

  #hear(params: AgentEventParams): void {
    const session = this.#known.get(params.sessionId);
    if (!session) return;
    const { event, seq } = params;
    const { lastSeq, epoch } = session.state;
    const begun = event.type === "session_changed" && event.epoch !== undefined && event.epoch !== epoch;
    if (!begun && seq <= lastSeq) return;
    const missed = begun || seq !== lastSeq + 1;
    session.state = { ...session.state, lastSeq: seq };
    if (event.type === "session_changed") session.state = changed(session.state, event);
    if (event.type === "queue_update") {
      const { type: _, ...queue } = event;
      session.state = { ...session.state, queue };
    }
    this.#events.fire(params);
    if (event.type === "session_changed") this.#changed.fire(session);
    if (missed) this.#broken.fire(session);
  }
}

/** A state with the fields that an event brings, and without those that it says are gone. */
export function changed(state: SessionState, event: SessionChanged): SessionState {
  const { type: _, removed, ...fields } = event;
  const next: Record<string, unknown> = { ...state, ...fields };
  for (const name of removed ?? []) delete next[name];
  return next as unknown as SessionState;
}
