/**
 * What a chat draws: a list of rows, each small enough to be drawn in a moment.
 *
 * A message becomes several rows: one for each piece of its text, one for its thinking, one for each tool call.
 * Rows change in place and count their `version`; who draws them compares that. No DOM, no editor.
 */
import type { ImageBlock, Location, PermissionRequestParams } from "../generated/protocol";
import type { Attachment } from "../shared/messages";
import type { Output } from "./output";

interface RowBase {
  /** Names the row for as long as the session is shown. */
  readonly key: string;
  /** Grows with every change. */
  version: number;
}

/** What the person said. */
export interface UserRow extends RowBase {
  readonly kind: "user";
  text: string;
  images: ImageBlock[];
  attachments: AttachmentLabel[];
  /** The session entry; absent while it is on its way, and of what a command took. */
  entryId?: string | undefined;
  /** A command took it: it is no message of the session. */
  handled?: boolean;
}

/** A piece of a reply's text: whole Markdown blocks, or the one that is still being written. */
export interface TextRow extends RowBase {
  readonly kind: "text";
  text: string;
  /** More of it may come. */
  open: boolean;
  /** The first row of its text: where a reader is told who speaks. */
  first: boolean;
  /** The whole text, for copying; on the last row alone. */
  whole?: (() => string) | undefined;
}

/** What the model thought. */
export interface ThinkingRow extends RowBase {
  readonly kind: "thinking";
  text: string;
  open: boolean;
  redacted: boolean;
}

/** How far a tool call has come. */
export type ToolPhase = "writing" | "waiting" | "running" | "done" | "failed" | "stopped";

/** Where a permission request stands. */
export interface Asked {
  request: PermissionRequestParams;
  /** What came of it; absent: it waits. */
  outcome?: { reason: string; answer?: string | undefined } | undefined;
  /** How the review of its edits stands. */
  review?: { hunks: number; rejected: number; edited: boolean } | undefined;
}

/** A call of a tool. */
export interface ToolRow extends RowBase {
  readonly kind: "tool";
  readonly toolCallId: string;
  name: string;
  /** `read`, `edit`, `execute` or `other`: how it is drawn. */
  tool: string;
  /** The call in a line. */
  title: string;
  args: Record<string, unknown>;
  /** Arguments as they are being written, JSON. */
  argsText: string;
  phase: ToolPhase;
  locations: Location[];
  output: Output;
  images: ImageBlock[];
  /** Unified diff of what it changed. */
  patch?: string | undefined;
  exitCode?: number | undefined;
  fullOutputPath?: string | undefined;
  durationMs?: number | undefined;
  asked?: Asked | undefined;
  /** The entry of its result, when that was cut and can be had whole. */
  truncatedEntryId?: string | undefined;
}

/** A command that the person ran. */
export interface BashRow extends RowBase {
  readonly kind: "bash";
  command: string;
  output: Output;
  running: boolean;
  cancelled: boolean;
  exitCode?: number | undefined;
  excludeFromContext: boolean;
  fullOutputPath?: string | undefined;
  /** What its request was named; while it runs here. */
  token?: string | undefined;
  error?: string | undefined;
}

/** A message of an extension or an application. */
export interface CustomRow extends RowBase {
  readonly kind: "custom";
  customType: string;
  text: string;
  images: ImageBlock[];
}

/** What a part of the conversation came to. */
export interface SummaryRow extends RowBase {
  readonly kind: "summary";
  of: "compaction" | "branch";
  text: string;
  tokensBefore?: number | undefined;
  tokensAfter?: number | undefined;
}

/** Something to know: an error, a retry, a diagnostic. */
export interface NoteRow extends RowBase {
  readonly kind: "note";
  severity: "info" | "warning" | "error" | "busy";
  text: string;
  detail?: string | undefined;
  /** The run can be continued. */
  canContinue: boolean;
  /** The entry that can be had whole. */
  cutEntryId?: string;
}

/** What a run changed, and how to take it back. */
export interface ChangesRow extends RowBase {
  readonly kind: "changes";
  checkpointId: string;
  files: { path: string; uri?: string; added?: number; removed?: number; kind: string }[];
  /** Files that only commands changed were left out, or the diff was cut. */
  partial: boolean;
  /** The files are as they were before the run again. */
  undone: boolean;
}

/** Any row. */
export type Row =
  | UserRow
  | TextRow
  | ThinkingRow
  | ToolRow
  | BashRow
  | CustomRow
  | SummaryRow
  | NoteRow
  | ChangesRow;

/** An attachment as a chip shows it. */
export interface AttachmentLabel {
  type: Attachment["type"];
  /** A few words. */
  label: string;
  /** All of it, for a tooltip. */
  detail: string;
  /** A file to open: a URI, or an absolute path. */
  target?: string | undefined;
  /** The first line, from 0. */
  line?: number | undefined;
}
