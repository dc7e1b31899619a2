/**
 * What a page may say, by its shape.
 *
 * A page is drawn from what a model wrote. Should something of it ever come to speak for the page, then no field gets
 * anywhere that the types do not say: `how` of a `send`, for one, names a method of the daemon.
 */
import type { WebviewMessage } from "../shared/messages";

type Check = (value: unknown) => boolean;

const text: Check = (value) => typeof value === "string";
const flag: Check = (value) => typeof value === "boolean";
const whole: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const maybe =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const among =
  (...words: string[]): Check =>
  (value) =>
    words.includes(value as string);
const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const record =
  (fields: Record<string, Check>): Check =>
  (value) =>
    typeof value === "object" &&
    value !== null &&
    Object.entries(fields).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const position = record({ line: whole, character: whole });
const range = record({ start: position, end: position });
const image = record({ type: among("image"), data: text, mimeType: text });
const attachment = record({ type: among("file", "selection", "diagnostics", "text") });

const SHAPES = {
  ready: { sessionId: maybe(text) },
  send: {
    how: among("prompt", "steer", "followUp"),
    clientMessageId: text,
    text,
    images: maybe(list(image)),
    attachments: maybe(list(attachment)),
  },
  stop: {},
  continue: {},
  dequeue: { itemId: text, edit: flag },
  bash: { command: text, token: text, excludeFromContext: flag },
  cancelBash: { token: text },
  answer: { requestId: text, optionId: maybe(text), feedback: maybe(text) },
  openReview: { requestId: text },
  loadOlder: { beforeEntryId: text },
  loadEntry: { entryId: text },
  searchFiles: { id: whole, query: text },
  dropped: { uris: list(text) },
  openFile: { uri: text, range: maybe(range), beside: maybe(flag) },
  openLink: { href: text },
  openText: { text, language: text, title: text },
  openDiff: { title: text, uri: text, diff: text },
  copy: { text },
  apply: { code: text, language: text, newFile: maybe(flag) },
  branch: { entryId: text },
  fork: { entryId: text },
  checkpoint: { action: among("diff", "restore"), checkpointId: text },
  banner: { id: text, action: text },
  openRecent: { sessionId: text },
  command: { command: text },
} satisfies { [T in WebviewMessage["type"]]: Record<string, Check> };

/** Whether this is a message that a page of ours sends; one of another version may say more. */
export function isOfPage(value: unknown): value is WebviewMessage {
  const type = (value as { type?: unknown } | null | undefined)?.type;
  return typeof type === "string" && Object.hasOwn(SHAPES, type)
    ? record(SHAPES[type as keyof typeof SHAPES])(value)
    : false;
}
