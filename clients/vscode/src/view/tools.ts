/** Folds what is told about tool calls into their rows. */
import type {
  CallDescription,
  ImageBlock,
  LiveTool,
  PermissionRequestParams,
  TextBlock,
  ToolCall,
  ToolExecutionEnd,
  ToolExecutionStart,
  ToolExecutionUpdate,
  ToolResultMessage,
} from "../generated/protocol";
import { Output } from "./output";
import type { ToolRow } from "./rows";

// As long as the daemon has not described a call: of its own tools we know how they are drawn.
const KINDS: Record<string, string> = {
  read: "read",
  grep: "read",
  find: "read",
  ls: "read",
  edit: "edit",
  write: "edit",
  bash: "execute",
};

export function newToolRow(toolCallId: string, name: string): ToolRow {
  return {
    kind: "tool",
    key: `t:${toolCallId}`,
    version: 0,
    toolCallId,
    name,
    tool: KINDS[name] ?? "other",
    title: name,
    args: {},
    argsText: "",
    phase: "writing",
    locations: [],
    output: new Output(),
    images: [],
  };
}

/** The arguments as the model gave them. */
export function setCall(row: ToolRow, call: ToolCall): void {
  row.args = call.arguments;
  row.argsText = "";
  if (row.phase === "writing") row.phase = "waiting";
  if (row.title === row.name) row.title = titleOf(row.name, call.arguments);
  row.version++;
}

/** A piece of the arguments. Of those that are still being written the path or command is shown at once. */
export function growCall(row: ToolRow, delta: string): void {
  row.argsText += delta;
  row.version++;
  if (row.title !== row.name || row.argsText.length > 4_000) return;
  const found = /"(path|command|pattern)"\s*:\s*("(?:[^"\\]|\\.)*")/.exec(row.argsText);
  if (found?.[1] && found[2]) row.title = titleOf(row.name, { [found[1]]: parseText(found[2]) });
}

/** What the daemon says of a call that was not seen to begin. */
export function describeCall(row: ToolRow, { kind, title, locations }: Partial<CallDescription>): void {
  if (kind !== undefined) row.tool = kind;
  if (title !== undefined) row.title = title;
  if (locations !== undefined) row.locations = locations;
  row.version++;
}

export function startCall(row: ToolRow, event: ToolExecutionStart): void {
  row.args = event.args;
  row.argsText = "";
  row.tool = event.kind;
  row.title = event.title;
  row.locations = event.locations;
  row.phase = "running";
  row.version++;
}

export function askCall(row: ToolRow, request: PermissionRequestParams): void {
  row.tool = request.kind;
  row.title = request.title;
  row.locations = request.locations;
  if (isRecord(request.args)) row.args = request.args;
  if (row.phase === "writing" || row.phase === "waiting") row.phase = "running";
  row.asked = { request };
  row.version++;
}

export function liveCall(row: ToolRow, tool: LiveTool): void {
  row.args = tool.args;
  if (row.title === row.name) row.title = titleOf(row.name, tool.args);
  describeCall(row, tool);
  row.phase = "running";
  row.output.replace(tool.output);
  row.version++;
}

export function updateCall(row: ToolRow, event: ToolExecutionUpdate): void {
  const { delta, content, omittedBytes } = event.partialResult;
  if (delta !== undefined) row.output.append(delta);
  else {
    row.output.replace(textOf(content));
    row.images = imagesOf(content);
  }
  if (omittedBytes !== undefined) row.output.omitted = omittedBytes;
  row.version++;
}

export function endCall(row: ToolRow, event: ToolExecutionEnd): void {
  setResult(row, event.result.content, event.result.details, event.isError);
  const structured = event.result.structuredContent;
  if (isRecord(structured) && typeof structured.exit_code === "number") row.exitCode = structured.exit_code;
  row.durationMs = event.durationMs;
}

/** Whether a person refused the call. */
export function wasRejected({ asked }: ToolRow): boolean {
  const answer = asked?.outcome?.answer;
  return (
    asked?.request.options.some(({ name, kind }) => name === answer && kind.startsWith("reject")) ?? false
  );
}

/** The stored result; of a call that was seen to end it has nothing new. */
export function storedResult(row: ToolRow, message: ToolResultMessage): void {
  setResult(row, message.content, message.details, message.isError);
  row.durationMs = message.durationMs;
}

/** The run is over: what has not ended will not. */
export function stopCall(row: ToolRow): void {
  if (row.phase === "done" || row.phase === "failed" || row.phase === "stopped") return;
  row.phase = "stopped";
  row.version++;
}

function setResult(
  row: ToolRow,
  content: (TextBlock | ImageBlock)[],
  details: unknown,
  isError: boolean,
): void {
  row.phase = isError ? "failed" : "done";
  const text = textOf(content);
  if (text !== row.output.text) row.output.replace(text);
  row.output.omitted = 0;
  row.images = imagesOf(content);
  if (isRecord(details)) {
    if (typeof details.patch === "string" && details.patch !== "") row.patch = details.patch;
    if (typeof details.fullOutputPath === "string") row.fullOutputPath = details.fullOutputPath;
  }
  row.version++;
}

export function textOf(content: string | (TextBlock | ImageBlock | { type: string })[]): string {
  if (typeof content === "string") return content;
  return content.flatMap((block) => (isText(block) ? [block.text] : [])).join("\n\n");
}

export function imagesOf(content: string | (TextBlock | ImageBlock | { type: string })[]): ImageBlock[] {
  return typeof content === "string"
    ? []
    : content.filter((block): block is ImageBlock => block.type === "image");
}

function isText(block: { type: string }): block is TextBlock {
  return block.type === "text";
}

function titleOf(name: string, args: Record<string, unknown>): string {
  const of = (key: string) => (typeof args[key] === "string" ? (args[key] as string) : undefined);
  const command = of("command");
  if (command !== undefined && name === "bash") return `$ ${command}`;
  const about = of("path") ?? of("pattern") ?? command ?? of("query") ?? of("url");
  return about === undefined ? name : `${name} ${about}`;
}

/** Arguments for people: a line for each, texts as they are. */
export function argsText(args: Record<string, unknown>): string {
  const shown = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  return Object.entries(args)
    .map(([name, value]) => `${name}: ${shown(value)}`)
    .join("\n");
}

function parseText(json: string): string {
  try {
    return String(JSON.parse(json));
  } catch {
    return json;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
