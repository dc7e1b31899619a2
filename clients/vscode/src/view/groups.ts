/** Messages as groups of rows, in the order of the conversation. */
import type {
  AssistantMessage,
  BashExecutionMessage,
  CustomMessage,
  Message,
  MessageUpdate,
  UserMessage,
} from "../generated/protocol";
import { splitStored } from "./attachments";
import { Output } from "./output";
import type { BashRow, NoteRow, Row, SummaryRow, TextRow, ThinkingRow, ToolRow, UserRow } from "./rows";
import { ENOUGH, Splitter } from "./splitter";
import { growCall, imagesOf, setCall, textOf } from "./tools";

/** Rows that come and go together. */
export interface Group {
  rows: Row[];
  /** The message, and the entry that holds it. */
  messageId?: string | undefined;
  entryId?: string | undefined;
}

/** Finds the row of a tool call, or makes it. */
export type ToolRows = (toolCallId: string, name: string) => ToolRow;

type Block =
  | { kind: "text"; splitter: Splitter; rows: TextRow[] }
  | { kind: "thinking"; rows: ThinkingRow[] }
  | { kind: "tool"; rows: ToolRow[] };

/** A reply, while it is written and after. */
export class Reply implements Group {
  rows: Row[] = [];
  entryId: string | undefined;
  private readonly blocks: (Block | undefined)[] = [];
  private note: NoteRow | undefined;

  constructor(
    public messageId: string | undefined,
    private readonly key: string,
    private readonly tools: ToolRows,
    readonly timestamp: number,
  ) {}

  /** Takes up what is new; true: rows came or went. */
  update(event: MessageUpdate["assistantMessageEvent"]): boolean {
    const at = event.contentIndex;
    const before = this.rows.length;
    switch (event.type) {
      case "text_start":
        this.textBlock(at);
        break;
      case "text_delta": {
        const block = this.textBlock(at);
        this.drawText(at, block, block.splitter.append(event.delta), true);
        break;
      }
      case "text_end":
        this.setText(at, event.content, false);
        break;
      case "thinking_start":
        this.setThinking(at, "", true, false);
        break;
      case "thinking_delta":
        this.setThinking(at, this.thinkingText(at) + event.delta, true, false);
        break;
      case "thinking_end":
        this.setThinking(at, event.content, false, false);
        break;
      case "toolcall_start":
        this.toolBlock(at, event.id, event.toolName);
        break;
      case "toolcall_delta": {
        const block = this.blocks[at];
        if (block?.kind === "tool" && block.rows[0]) growCall(block.rows[0], event.delta);
        break;
      }
      case "toolcall_end":
        setCall(this.toolBlock(at, event.toolCall.id, event.toolCall.name), event.toolCall);
        break;
    }
    this.collect();
    return this.rows.length !== before;
  }

  /** Takes the whole message in place of what was drawn. */
  replace(message: AssistantMessage, open: boolean): void {
    this.blocks.length = Math.min(this.blocks.length, message.content.length);
    message.content.forEach((block, at) => {
      if (block.type === "text") this.setText(at, block.text, open && at === message.content.length - 1);
      else if (block.type === "thinking")
        this.setThinking(
          at,
          block.thinking,
          open && at === message.content.length - 1,
          block.redacted === true,
        );
      else if (block.type === "toolCall") setCall(this.toolBlock(at, block.id, block.name), block);
    });
    this.note = open ? undefined : endNote(message, this.key);
    this.collect();
  }

  private textBlock(at: number): Block & { kind: "text" } {
    const found = this.blocks[at];
    if (found?.kind === "text") return found;
    const block = { kind: "text" as const, splitter: new Splitter(), rows: [] };
    this.blocks[at] = block;
    return block;
  }

  private setText(at: number, text: string, open: boolean): void {
    let block = this.textBlock(at);
    block.splitter.finish();
    let from = block.splitter.pieces.length - 1;
    if (block.splitter.text !== text) {
      const rows = block.rows;
      block = { kind: "text", splitter: new Splitter(), rows };
      this.blocks[at] = block;
      // A short text is one row: most messages are, and a long session is not scanned line by line.
      if (text.length <= 2 * ENOUGH && !open) block.splitter.pieces[0] = text;
      else block.splitter.append(text);
      if (!open) block.splitter.finish();
      from = 0;
    }
    this.drawText(at, block, from, open);
  }

  private drawText(at: number, block: Block & { kind: "text" }, from: number, open: boolean): void {
    const { pieces } = block.splitter;
    block.rows.length = Math.min(block.rows.length, pieces.length);
    for (let piece = Math.max(0, Math.min(from, block.rows.length)); piece < pieces.length; piece++) {
      const text = pieces[piece] ?? "";
      const last = piece === pieces.length - 1;
      const row = block.rows[piece];
      const { splitter } = block;
      const whole = last ? () => splitter.text : undefined;
      if (row) {
        Object.assign(row, { text, open: open && last, whole });
        row.version++;
      } else {
        const key = `${this.key}:${at}:${piece}`;
        block.rows[piece] = {
          kind: "text",
          key,
          version: 0,
          text,
          open: open && last,
          first: piece === 0,
          whole,
        };
      }
    }
  }

  private thinkingText(at: number): string {
    const block = this.blocks[at];
    return block?.kind === "thinking" ? (block.rows[0]?.text ?? "") : "";
  }

  private setThinking(at: number, text: string, open: boolean, redacted: boolean): void {
    const block = this.blocks[at];
    const row = block?.kind === "thinking" ? block.rows[0] : undefined;
    if (row) {
      Object.assign(row, { text, open, redacted });
      row.version++;
      return;
    }
    const made: ThinkingRow = {
      kind: "thinking",
      key: `${this.key}:${at}`,
      version: 0,
      text,
      open,
      redacted,
    };
    this.blocks[at] = { kind: "thinking", rows: [made] };
  }

  private toolBlock(at: number, id: string, name: string): ToolRow {
    const row = this.tools(id, name);
    this.blocks[at] = { kind: "tool", rows: [row] };
    return row;
  }

  private collect(): void {
    const rows: Row[] = [];
    for (const block of this.blocks) {
      for (const row of block?.rows ?? []) {
        const empty =
          (row.kind === "text" && row.text.trim() === "") ||
          (row.kind === "thinking" && row.text === "" && !row.open);
        if (!empty) rows.push(row);
      }
    }
    if (this.note) rows.push(this.note);
    this.rows = rows;
  }
}

// What a whole run came to is told when it settles; here, why a reply is not what it should be.
function endNote(message: AssistantMessage, key: string): NoteRow | undefined {
  const base = { kind: "note" as const, key: `${key}:end`, version: 0, canContinue: false };
  if (message.stopReason === "error") {
    return {
      ...base,
      severity: "error",
      text: message.errorMessage ?? "The provider failed without a reason.",
    };
  }
  if (message.stopReason === "aborted") return { ...base, severity: "info", text: "Stopped" };
  if (message.stopReason === "length") {
    return {
      ...base,
      severity: "warning",
      text: "The reply was cut: it reached the most tokens that the model may write.",
    };
  }
  return undefined;
}

/** Rows of a message that comes in one piece; none where there is nothing to show. */
export function groupOf(message: Message, messageId: string, tools: ToolRows): Group {
  const key = `m:${messageId}`;
  switch (message.role) {
    case "user":
      return { messageId, rows: [userRow(message, key)] };
    case "assistant": {
      const reply = new Reply(messageId, key, tools, message.timestamp);
      reply.replace(message, false);
      return reply;
    }
    case "bashExecution":
      return { messageId, rows: [bashRow(message, key)] };
    case "custom":
      return { messageId, rows: message.display ? [customRow(message, key)] : [] };
    case "branchSummary":
      return { messageId, rows: [summaryRow("branch", message.summary, key)] };
    case "compactionSummary": {
      const row = summaryRow("compaction", message.summary, key);
      row.tokensBefore = message.tokensBefore;
      return { messageId, rows: [row] };
    }
    default:
      return { messageId, rows: [] };
  }
}

export function userRow(message: UserMessage, key: string): UserRow {
  const { text, attachments } = splitStored(textOf(message.content));
  return {
    kind: "user",
    key,
    version: 0,
    text,
    images: imagesOf(message.content),
    attachments,
  };
}

function bashRow(message: BashExecutionMessage, key: string): BashRow {
  return {
    kind: "bash",
    key,
    version: 0,
    command: message.command,
    output: Output.of(message.output),
    running: false,
    cancelled: message.cancelled,
    exitCode: message.exitCode ?? undefined,
    excludeFromContext: message.excludeFromContext === true,
    fullOutputPath: message.fullOutputPath ?? undefined,
  };
}

function customRow(message: CustomMessage, key: string): Row {
  const { customType, content } = message;
  return { kind: "custom", key, version: 0, customType, text: textOf(content), images: imagesOf(content) };
}

export function summaryRow(of: "compaction" | "branch", text: string, key: string): SummaryRow {
  return { kind: "summary", key, version: 0, of, text };
}

/** `session/messages` cut it. */
export function isTruncated(message: Message): boolean {
  return (message as { truncated?: unknown }).truncated === true;
}
