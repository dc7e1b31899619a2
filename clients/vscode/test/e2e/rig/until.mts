/** Waiting: on a condition, with a deadline, and never on the clock alone. */
import { setTimeout as pause } from "node:timers/promises";

/** How long anything in a window may take, in ms: after that it hangs, whatever else the machine has to do. */
export const PATIENCE = 120_000;

/**
 * The first value of `probe` that is neither undefined, null nor false.
 *
 * A probe that throws has found nothing yet; past the deadline its last error is the cause of ours.
 */
export async function until<T>(
  outcome: string,
  probe: () => Promise<T | undefined | null | false> | T | undefined | null | false,
  patience = PATIENCE,
): Promise<T> {
  const deadline = Date.now() + patience;
  let cause: unknown;
  do {
    try {
      const found = await probe();
      if (found !== undefined && found !== null && found !== false) return found;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await pause(50);
  } while (Date.now() < deadline);
  throw new Error(`after ${patience} ms still not so: ${outcome}`, { cause });
}
