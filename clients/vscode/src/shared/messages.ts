/**
 * What the extension host and a chat webview say to each other.
 *
 * A webview shows one session. The host owns the connection, files and native surfaces; the webview owns what is
 * drawn. Shapes of the wire pass through unchanged: they are imported, never repeated. Both sides ignore messages
 * of a `type` that they do not know.
 *
 * How a session gets onto the screen: the webview says `ready`; the host answers with `session`, made of
 * `session/messages` and then `session/state` with `include: ["live"]`, and from then on forwards `agent/event` in
 * order, those included whose `seq` is above `messages.lastSeq`. The view skips what the snapshot has already.
 * After a gap, or another epoch, the host sends `session` again.
 */
import type {
  AgentEventParams,
  CheckpointSummary,
  CommandEntry,
  DiagnosticsAttachment,
  FileAttachment,
  FoundFile,
  ImageBlock,
  Message,
  PermissionRequestParams,
  QueueItem,
  Range,
  SelectionAttachment,
  SessionMessagesResult,
  SessionState,
  SessionSummary,
  TextAttachment,
} from "../generated/protocol";

/** What may be sent along with a message. */
export type Attachment = FileAttachment | SelectionAttachment | DiagnosticsAttachment | TextAttachment;

/** A session as a webview begins to draw it. */
export interface SessionSnapshot {
  /** `session/messages`, the newest page. */
  messages: SessionMessagesResult;
  /** `session/state` with `live`, asked for after the messages. */
  state: SessionState;
  /** `permission/request`s that this window can still answer. */
  permissions: PermissionRequestParams[];
  /** `checkpoint/list`, the newest first. */
  checkpoints?: CheckpointSummary[];
  /** Opened `readOnly`, for another process writes it. */
  readOnly: boolean;
}

/** A notice above the prompt that holds until the host takes it back. */
export interface Banner {
  /** Names it in `banner`. */
  id: string;
  /** How bad. */
  severity: "info" | "warning" | "error";
  /** A sentence or two. */
  text: string;
  /** Buttons. */
  actions: { id: string; label: string }[];
}

/** Text for the prompt box. */
export interface Draft {
  /** The text. */
  text: string;
  /** Images to go with it. */
  images?: ImageBlock[];
  /** Attachments to go with it. */
  attachments?: Attachment[];
}

/** Commands of the host that the webview has buttons for. */
export type HostCommand =
  | "newSession"
  | "openSession"
  | "renameSession"
  | "pickModel"
  | "pickThinking"
  | "pickPermissionMode"
  | "compact"
  | "attachSelection"
  | "attachDiagnostics"
  | "attachFile"
  | "setKey"
  | "showLog";

/** What the host says to the webview. */
export type HostMessage =
  /** Draw this session; null: none is open yet, show the empty state. */
  | { type: "session"; session: SessionSnapshot | null }
  /** `agent/event` params, in order, as they came; several at once. */
  | { type: "events"; events: AgentEventParams[] }
  /** Another page of `session/messages`: the answer to `loadOlder`. `error`: it could not be had. */
  | { type: "older"; beforeEntryId: string; page?: SessionMessagesResult; error?: string }
  /** What the runs of the session changed, anew: some of it was taken back. */
  | { type: "checkpoints"; checkpoints: CheckpointSummary[] }
  /** A whole message: the answer to `loadEntry`. */
  | { type: "entry"; entryId: string; message: Message }
  /** A question about a tool call. It stands until `resolved`. */
  | { type: "permission"; request: PermissionRequestParams }
  /** A permission request is over, whoever answered it. `answer`: the name of what was chosen here. */
  | { type: "resolved"; requestId: string; reason: string; answer?: string }
  /** The person reviews the edits of a request in a diff editor: how many hunks there are and are left out. */
  | { type: "review"; requestId: string; hunks: number; rejected: number; edited: boolean }
  /** The daemon is not there any more: nothing goes on, and what waited in its queue is in the view alone. */
  | { type: "gone" }
  /** All banners that hold. The view has one of its own for `interrupted` and for `readOnly`. */
  | { type: "banners"; banners: Banner[] }
  /** What `/name` calls up; sent at first and after `commands_changed`. */
  | { type: "commands"; commands: CommandEntry[] }
  /** The answer to `searchFiles`. */
  | { type: "files"; id: number; files: FoundFile[]; truncated: boolean }
  /** Sessions to offer while there is nothing to show, the newest first. */
  | { type: "recent"; sessions: SessionSummary[] }
  /** Add these to what goes with the next message, as chips. */
  | { type: "attach"; attachments: Attachment[]; images?: ImageBlock[] }
  /** Put text into the prompt box, in place of what is there or before it; `send` sends it at once. */
  | { type: "draft"; draft: Draft; how: "replace" | "prepend"; send?: boolean }
  /** The queue was emptied (stop, or `queue/remove` to edit): give the texts back to the prompt box. */
  | { type: "givenBack"; items: QueueItem[] }
  /** A message was not taken: give it back and say why. `kind` is `error.data.kind`. */
  | { type: "refused"; clientMessageId: string; error: string; kind?: string }
  /** A command took the message: it is done, and does not become a message of the session. */
  | { type: "handled"; clientMessageId: string }
  /** A `bash` request of the person ended without a message of its own: refused, or failed. */
  | { type: "bashRefused"; token: string; error: string }
  /** Put the caret into the prompt box. */
  | { type: "focus" }
  /** Settings that change what is drawn. */
  | { type: "settings"; settings: ViewSettings };

/** Settings that change what is drawn. */
export interface ViewSettings {
  /** Thinking is shown unfolded. */
  expandThinking: boolean;
  /** The prompt box checks spelling. */
  spellcheck: boolean;
}

/** What the webview says to the host. */
export type WebviewMessage =
  /** The page listens. `sessionId`: what it showed before it was reloaded. */
  | { type: "ready"; sessionId?: string }
  /** `prompt` (with `wait: "accepted"`), `steer` or `followUp`, by `how`. */
  | ({ type: "send"; how: "prompt" | "steer" | "followUp"; clientMessageId: string } & Draft)
  /** `abort`; the host answers with `givenBack`. */
  | { type: "stop" }
  /** `continue`. */
  | { type: "continue" }
  /** `queue/remove`; with `edit` the host answers with `givenBack`. */
  | { type: "dequeue"; itemId: string; edit: boolean }
  /** `bash` of the person; `token` comes back in `bash_output`. */
  | { type: "bash"; command: string; token: string; excludeFromContext: boolean }
  /** Cancel that request. */
  | { type: "cancelBash"; token: string }
  /** The answer to a `permission/request`. Without `optionId` it was dismissed. */
  | { type: "answer"; requestId: string; optionId?: string; feedback?: string }
  /** Open the edits of a `permission/request` in a diff editor. */
  | { type: "openReview"; requestId: string }
  /** A page of older messages. */
  | { type: "loadOlder"; beforeEntryId: string }
  /** A message that was cut (`truncated`), whole. */
  | { type: "loadEntry"; entryId: string }
  /** `file/search`. */
  | { type: "searchFiles"; id: number; query: string }
  /** Files dropped on the prompt box: URIs. The host answers with `attach`. */
  | { type: "dropped"; uris: string[] }
  /** Show a file. `uri` may be a `file:` URI, or a path as a model wrote it, relative to the session's directory. */
  | { type: "openFile"; uri: string; range?: Range; beside?: boolean }
  /** A link of a message. The host opens `http`, `https` and `mailto` alone, after its own check. */
  | { type: "openLink"; href: string }
  /** Show a text in an editor of its own, not saved. */
  | { type: "openText"; text: string; language: string; title: string }
  /** What an edit changed, as a unified diff, or the two texts of it. */
  | { type: "openDiff"; title: string; uri: string; diff: string }
  /** Put text on the clipboard. */
  | { type: "copy"; text: string }
  /** Put a code block into the active editor, in place of the selection; `newFile`: into an untitled file. */
  | { type: "apply"; code: string; language: string; newFile?: boolean }
  /** `branch` to a message of the person: the host sends `session` anew and `draft` with the text. */
  | { type: "branch"; entryId: string }
  /** `session/fork` at a message, opened where the host sees fit. */
  | { type: "fork"; entryId: string }
  /** `checkpoint/diff` or `checkpoint/restore`. */
  | { type: "checkpoint"; action: "diff" | "restore"; checkpointId: string }
  /** A button of a banner. */
  | { type: "banner"; id: string; action: string }
  /** Open one of the `recent` sessions here. */
  | { type: "openRecent"; sessionId: string }
  /** Run a command of the host for this session. */
  | { type: "command"; command: HostCommand };
