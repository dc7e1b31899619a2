/** How a request to the daemon fails, and what a person reads of it. */
import type { ErrorData, ErrorKind } from "../generated/protocol";

/** The daemon ended, or was never there: nothing that was asked will be answered. */
export class DaemonGone extends Error {
  override readonly name = "DaemonGone";
}

/** The daemon refused a request. `kind` is the stable word to decide by. */
export class Refusal extends Error {
  override readonly name = "Refusal";

  constructor(
    message: string,
    readonly kind: ErrorKind | (string & {}),
    readonly data: ErrorData | undefined,
  ) {
    super(message);
  }
}

/** Whether `error` is a refusal of one of these kinds. */
export function isRefusal(error: unknown, ...kinds: ErrorKind[]): error is Refusal {
  return error instanceof Refusal && (kinds as string[]).includes(error.kind);
}

/** What a person reads of an error. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
