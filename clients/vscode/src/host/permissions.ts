/**
 * The permission requests that wait for a person, each answered once.
 *
 * Where a person is asked (chat, notification, diff editor) is not decided here: whoever asks hears of new
 * requests and answers by `requestId`, and the first answer counts.
 */
import type { CancellationToken } from "vscode-jsonrpc/node";

import vscode = require("vscode");

import type {
  PermissionChoice,
  PermissionRequestParams,
  PermissionRequestResult,
  ReviewedText,
} from "../generated/protocol";
import { commandOf } from "../shared/asked";

/** A request that is over. */
export interface Settled {
  request: PermissionRequestParams;
  /** `here`: a person answered in this window; else the daemon's word. */
  reason: string;
  /** What was chosen here. */
  choice?: PermissionChoice;
}

/** Kinds of options that we know how to put to a person; others are left out, as the protocol asks. */
const KNOWN_KINDS = ["allow_once", "allow_session", "allow_always", "reject_once", "reject_always"];

/** So long a request that was cancelled waits for the reason. */
const REASON_MS = 500;

/** All requests that wait. */
export class Permissions {
  readonly #waiting = new Map<
    string,
    { request: PermissionRequestParams; settle: (result: PermissionRequestResult) => void }
  >();
  readonly #asked = new vscode.EventEmitter<PermissionRequestParams>();
  readonly #settled = new vscode.EventEmitter<Settled>();

  /** A request waits. */
  get onAsk(): vscode.Event<PermissionRequestParams> {
    return this.#asked.event;
  }

  /** A request is over. */
  get onSettle(): vscode.Event<Settled> {
    return this.#settled.event;
  }

  /** The answer to a request of the daemon, once there is one. */
  ask(request: PermissionRequestParams, token: CancellationToken): Promise<PermissionRequestResult> {
    const known = { ...request, options: request.options.filter(({ kind }) => KNOWN_KINDS.includes(kind)) };
    return new Promise((resolve) => {
      this.#waiting.set(request.requestId, { request: known, settle: resolve });
      // `request/resolved` comes right behind, and knows why.
      token.onCancellationRequested(() => {
        setTimeout(() => this.resolved(request.requestId, "aborted"), REASON_MS);
      });
      this.#asked.fire(known);
    });
  }

  /** Everything that waits. */
  get all(): PermissionRequestParams[] {
    return [...this.#waiting.values()].map(({ request }) => request);
  }

  /** What waits in a session. */
  of(sessionId: string): PermissionRequestParams[] {
    return this.all.filter((request) => request.sessionId === sessionId);
  }

  /** A request that waits. */
  get(requestId: string): PermissionRequestParams | undefined {
    return this.#waiting.get(requestId)?.request;
  }

  /** Answer with one of the options; without one the call is refused this once. False: it is over already. */
  answer(
    requestId: string,
    optionId?: string,
    more: { feedback?: string; edits?: ReviewedText[] } = {},
  ): boolean {
    const waiting = this.#waiting.get(requestId);
    if (!waiting) return false;
    const choice = waiting.request.options.find(({ id }) => id === optionId);
    if (optionId !== undefined && !choice) return false;
    this.#waiting.delete(requestId);
    waiting.settle(choice ? { optionId: choice.id, ...answerOf(choice, more) } : { cancelled: true });
    this.#settled.fire({ request: waiting.request, reason: "here", ...(choice && { choice }) });
    return true;
  }

  /** The daemon says that a request is over. */
  resolved(requestId: string, reason: string): void {
    const waiting = this.#waiting.get(requestId);
    if (!waiting) return;
    this.#waiting.delete(requestId);
    waiting.settle({ cancelled: true });
    this.#settled.fire({ request: waiting.request, reason });
  }

  /** The daemon is gone. */
  drop(): void {
    for (const requestId of [...this.#waiting.keys()]) this.resolved(requestId, "aborted");
  }
}

/** Whether an option lets the call run. */
export function allows(choice: PermissionChoice): boolean {
  return choice.kind.startsWith("allow");
}

/** The option of a kind, if it is offered. */
export function optionOf(
  request: PermissionRequestParams,
  kind: PermissionChoice["kind"],
): PermissionChoice | undefined {
  return request.options.find((option) => option.kind === kind);
}

/** What is asked about: of a command its whole text. */
export function subject(request: PermissionRequestParams): string {
  return commandOf(request.args) ?? request.title;
}

/** Whether `subject` tells all of what is asked about: there is nothing in the call that it leaves out. */
export function isTold(request: PermissionRequestParams): boolean {
  if (request.edits?.length) return false;
  if (commandOf(request.args) !== null) return true;
  return Object.values(request.args ?? {}).every(
    (value) => typeof value !== "object" && request.title.includes(String(value)),
  );
}

function answerOf(
  choice: PermissionChoice,
  { feedback, edits }: { feedback?: string; edits?: ReviewedText[] },
): { feedback?: string; edits?: ReviewedText[] } {
  if (allows(choice)) return edits && edits.length > 0 ? { edits } : {};
  return feedback ? { feedback } : {};
}
