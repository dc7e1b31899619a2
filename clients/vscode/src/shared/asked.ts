/** What a person is asked about, as they are to read it before they allow it; in the chat and in notifications. */

// What does not print, turns the direction of text round, or looks like nothing; what colours an emoji is left.
const UNSEEN = /(?!\ufe0f)(?:[^\P{C}\n\t]|\p{DI}|[\u2028\u2029])/gu;

/** A text of a model as it is to be read before it is allowed: what cannot be seen is written out. */
export function plainly(text: string): string {
  return text.replace(UNSEEN, (unseen) => `\\u{${unseen.codePointAt(0)?.toString(16)}}`);
}

/** The command that a call runs, if that is all there is to know of it; of the time it may take there is no need. */
export function commandOf(args: unknown): string | null {
  if (typeof args !== "object" || args === null) return null;
  const { command, timeout: _, ...others } = args as Record<string, unknown>;
  return typeof command === "string" && Object.keys(others).length === 0 ? command : null;
}
