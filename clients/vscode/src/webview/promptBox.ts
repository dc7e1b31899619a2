/** The prompt box: text, attachments and images, completion, history, and the keys that send and stop. */
import type { CommandEntry, FoundFile, ImageBlock, ModelState, QueueItem } from "../generated/protocol";
import type { Attachment, Draft } from "../shared/messages";
import { labelOf } from "../view/attachments";
import {
  type Completing,
  complete,
  completingAt,
  fitting,
  History,
  joined,
  meaningOf,
  OWN_COMMANDS,
} from "../view/prompt";
import { attachmentChip } from "./chips";
import { type Choice, CompletionList } from "./completion";
import { h, iconButton, show } from "./dom";
import { imagesOfTransfer, urisOfTransfer } from "./dropped";
import type { Host } from "./host";
import { icon } from "./icons";
import { imageSource } from "./images";

/** What the box does with what was written. */
export interface PromptActions {
  send(draft: Draft, how: "prompt" | "steer" | "followUp"): void;
  bash(command: string, excludeFromContext: boolean): void;
  stop(): void;
  /** Scrolls the conversation by a page. */
  page(direction: -1 | 1): void;
}

export class PromptBox {
  readonly element: HTMLElement;
  readonly input: HTMLTextAreaElement;
  private readonly completion: CompletionList;
  private readonly chips = h("div", { class: "chips" });
  private readonly unseen = h("div", { class: "prompt-note", role: "status" });
  private readonly error = h("div", { class: "prompt-error", role: "alert" });
  private readonly history: History;
  private attachments: Attachment[] = [];
  private images: ImageBlock[] = [];
  private commands: CommandEntry[] = [];
  private completing: Completing | null = null;
  private search = 0;
  private running = false;
  private model: Pick<ModelState, "name" | "input"> | undefined;

  constructor(
    private readonly host: Host,
    private readonly actions: PromptActions,
  ) {
    const kept = host.read();
    this.history = new History(kept.history ?? []);
    const props = { class: "prompt-input", rows: "1", "aria-label": "Message to pi" };
    this.input = h("textarea", { ...props, "aria-haspopup": "listbox", spellcheck: "false" });
    this.input.value = kept.text ?? "";
    this.completion = new CompletionList(this.input, (choice) => this.take(choice));
    this.element = h(
      "div",
      { class: "prompt-box" },
      this.completion.element,
      this.error,
      this.chips,
      this.unseen,
      this.input,
    );
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("input", () => this.changed());
    this.input.addEventListener("blur", () => this.completion.close());
    this.input.addEventListener("paste", (event) => this.paste(event));
    this.element.addEventListener("dragover", (event) => {
      event.preventDefault();
      this.element.classList.add("dropping");
    });
    this.element.addEventListener("dragleave", () => this.element.classList.remove("dropping"));
    this.element.addEventListener("drop", (event) => this.drop(event));
    this.setState(false, false);
    this.drawChips();
    this.showError("");
  }

  /** Whether a run goes on, and whether anything may be sent. */
  setState(running: boolean, readOnly: boolean): void {
    this.running = running;
    this.input.disabled = readOnly;
    this.input.placeholder = readOnly
      ? "This session is read-only here"
      : running
        ? "Steer pi (Enter), or follow up when it is done (Alt+Enter)"
        : "Ask pi. @ for files, / for commands, ! for the shell";
  }

  /** The model that is asked. */
  setModel(model: Pick<ModelState, "name" | "input"> | undefined): void {
    this.model = model;
    this.drawUnseen();
  }

  setSpellcheck(on: boolean): void {
    this.input.spellcheck = on;
  }

  setCommands(commands: CommandEntry[]): void {
    this.commands = commands;
    if (this.completing?.kind === "command") this.suggest();
  }

  setFiles(id: number, files: FoundFile[]): void {
    if (id !== this.search || this.completing?.kind !== "file") return;
    this.completion.open(files.slice(0, 20).map(fileChoice), this.completing.query);
  }

  attach(attachments: Attachment[], images: ImageBlock[] = []): void {
    for (const one of attachments) {
      const same = JSON.stringify(one);
      if (!this.attachments.some((other) => JSON.stringify(other) === same)) this.attachments.push(one);
    }
    this.images.push(...images);
    this.drawChips();
  }

  setDraft(draft: Draft, how: "replace" | "prepend"): void {
    const text = how === "replace" ? draft.text : joined([draft.text], this.input.value);
    if (how === "replace") this.attachments = this.images = [];
    this.attach(draft.attachments ?? [], draft.images);
    this.setText(text);
  }

  /** Puts back what had been waiting, before what is being written. */
  giveBack(items: QueueItem[]): void {
    if (items.length === 0) return;
    this.setText(
      joined(
        items.map((item) => item.text),
        this.input.value,
      ),
    );
    for (const item of items) this.attach((item.attachments ?? []) as Attachment[], item.images);
  }

  showError(text: string): void {
    this.error.textContent = text;
    show(this.error, text !== "");
  }

  focus(): void {
    this.input.focus();
  }

  get isEmpty(): boolean {
    return this.input.value.trim() === "" && this.attachments.length === 0 && this.images.length === 0;
  }

  /** Sends what is written; while a run goes on it steers, or follows up. */
  send(followUp: boolean): void {
    if (this.isEmpty || this.input.disabled) return;
    const meaning = meaningOf(this.input.value, this.commands);
    if (meaning?.kind === "own") this.host.post({ type: "command", command: meaning.command });
    else if (meaning?.kind === "bash") this.actions.bash(meaning.command, meaning.excludeFromContext);
    else {
      const draft: Draft = { text: meaning?.text ?? "" };
      if (this.attachments.length > 0) draft.attachments = this.attachments;
      if (this.images.length > 0) draft.images = this.images;
      this.actions.send(draft, !this.running ? "prompt" : followUp ? "followUp" : "steer");
      this.attachments = [];
      this.images = [];
    }
    if (meaning) this.history.add(this.input.value.trim());
    this.host.keep({ history: this.history.texts });
    this.showError("");
    this.setText("");
    this.drawChips();
  }

  private key(event: KeyboardEvent): void {
    if (event.isComposing) return;
    if (this.completion.key(event)) event.preventDefault();
    else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.send(event.altKey);
    } else if (event.key === "Escape" && this.running) {
      event.preventDefault();
      this.actions.stop();
    } else if (event.key === "PageUp" || event.key === "PageDown") {
      event.preventDefault();
      this.actions.page(event.key === "PageUp" ? -1 : 1);
    } else if ((event.key === "ArrowUp" || event.key === "ArrowDown") && !event.shiftKey && !event.altKey) {
      this.moveInHistory(event);
    }
  }

  private moveInHistory(event: KeyboardEvent): void {
    const { value, selectionStart, selectionEnd } = this.input;
    const up = event.key === "ArrowUp";
    // Only from the first or the last line: elsewhere the keys move the caret.
    const beyond = up ? value.slice(0, selectionStart) : value.slice(selectionEnd);
    if (selectionStart !== selectionEnd || beyond.includes("\n")) return;
    const text = this.history.move(up ? -1 : 1, value);
    if (text === null) return;
    event.preventDefault();
    this.setText(text);
  }

  private changed(): void {
    this.host.keep({ text: this.input.value });
    this.element.classList.toggle("shell", /^\s*!/.test(this.input.value));
    this.completing = completingAt(this.input.value, this.input.selectionStart);
    this.suggest();
  }

  private suggest(): void {
    if (!this.completing) this.completion.close();
    else if (this.completing.kind === "command") {
      const ours = OWN_COMMANDS.filter(({ name }) => !this.commands.some((one) => one.name === name));
      const all: CommandHint[] = [...this.commands, ...ours];
      const { query } = this.completing;
      this.completion.open(fitting(all, query).slice(0, 20).map(commandChoice), query);
    } else this.host.post({ type: "searchFiles", id: ++this.search, query: this.completing.query });
  }

  private take(choice: Choice): void {
    if (!this.completing) return;
    const { text, caret } = complete(this.input.value, this.completing, choice.value, choice.more);
    this.completion.close();
    this.setText(text, caret);
    if (choice.more) this.changed();
  }

  private setText(text: string, caret = text.length): void {
    this.completing = null;
    this.completion.close();
    this.input.value = text;
    this.input.setSelectionRange(caret, caret);
    this.element.classList.toggle("shell", /^\s*!/.test(text));
    this.host.keep({ text });
  }

  private paste(event: ClipboardEvent): void {
    if (event.clipboardData) this.takeFiles(event.clipboardData, event);
  }

  private drop(event: DragEvent): void {
    event.preventDefault();
    this.element.classList.remove("dropping");
    if (!event.dataTransfer) return;
    const uris = urisOfTransfer(event.dataTransfer);
    if (uris.length > 0) this.host.post({ type: "dropped", uris });
    else this.takeFiles(event.dataTransfer, event);
  }

  private takeFiles(transfer: DataTransfer, event: Event): void {
    const { images, refused } = imagesOfTransfer(transfer);
    if (images.length > 0) event.preventDefault();
    if (refused !== "") this.showError(refused);
    for (const image of images) {
      image.then(
        (block) => this.attach([], [block]),
        () => this.showError("The image could not be read."),
      );
    }
  }

  private drawChips(): void {
    const chips = this.attachments.map((one, index) =>
      attachmentChip(labelOf(one), this.host, () => {
        this.attachments = this.attachments.filter((_, at) => at !== index);
        this.drawChips();
        this.focus();
      }),
    );
    this.images.forEach((image, index) => {
      const src = imageSource(image);
      const remove = () => {
        this.images = this.images.filter((_, at) => at !== index);
        this.drawChips();
        this.focus();
      };
      const picture = src ? h("img", { src, alt: "", class: "thumbnail" }) : icon("image");
      chips.push(
        h(
          "span",
          { class: "chip" },
          picture,
          "image",
          iconButton(icon("close"), "Remove the image", remove, "small"),
        ),
      );
    });
    this.chips.replaceChildren(...chips);
    show(this.chips, chips.length > 0);
    this.drawUnseen();
  }

  private drawUnseen(): void {
    const { model, images } = this;
    const blind = model !== undefined && images.length > 0 && !model.input.includes("image");
    this.unseen.textContent = blind
      ? `${model.name} does not take images. Choose another model for them.`
      : "";
    show(this.unseen, blind);
  }
}

function fileChoice(file: FoundFile): Choice {
  const folder = file.kind === "directory";
  const path = folder ? `${file.path.replace(/\/$/, "")}/` : file.path;
  const name = path.slice(path.replace(/\/$/, "").lastIndexOf("/") + 1);
  const detail = path === name ? "" : path.slice(0, path.length - name.length);
  return { value: path, label: name, detail, icon: icon(folder ? "folder" : "file"), more: folder };
}

type CommandHint = Pick<CommandEntry, "name" | "description" | "argumentHint">;

function commandChoice(command: CommandHint): Choice {
  const hint = [command.argumentHint, command.description].filter(Boolean).join(" · ");
  return { value: command.name, label: `/${command.name}`, detail: hint, icon: icon("spark"), more: false };
}
