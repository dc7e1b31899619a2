/** Below the prompt box: model, thinking and permission mode, how full the context is, and send or stop. */
import type { SessionState } from "../generated/protocol";
import type { HostCommand } from "../shared/messages";
import { dollars, tokens } from "../view/format";
import { h, iconButton, show } from "./dom";
import type { Host } from "./host";
import { icon } from "./icons";

const MODES: Record<string, string> = {
  ask: "Ask first",
  edits: "Edit freely",
  full: "Full access",
  readonly: "Read only",
};

export class Footer {
  readonly element: HTMLElement;
  private readonly model: HTMLButtonElement;
  private readonly thinking: HTMLButtonElement;
  private readonly mode: HTMLButtonElement;
  private readonly bar = h("span", { class: "gauge-bar" });
  private readonly percent = h("span", { class: "gauge-text" });
  private readonly gauge: HTMLElement;
  private readonly cost = h("span", { class: "cost" });
  private readonly sendButton: HTMLButtonElement;
  private readonly stopButton: HTMLButtonElement;

  constructor(
    private readonly host: Host,
    actions: { send(): void; stop(): void },
  ) {
    this.model = this.picker("Choose the model", "pickModel", "model");
    this.thinking = this.picker("How much the model thinks", "pickThinking", "thinking");
    this.mode = this.picker("What tools may do without asking", "pickPermissionMode", "mode");
    const meter = {
      class: "gauge",
      role: "meter",
      "aria-label": "Context",
      "aria-valuemin": "0",
      "aria-valuemax": "100",
    };
    this.gauge = h("span", meter, h("span", { class: "gauge-track" }, this.bar), this.percent);
    this.sendButton = iconButton(icon("send"), "Send (Enter)", actions.send, "send");
    this.stopButton = iconButton(icon("stop"), "Stop (Escape)", actions.stop, "stop");
    const right = h(
      "span",
      { class: "footer-right" },
      this.gauge,
      this.cost,
      this.sendButton,
      this.stopButton,
    );
    this.element = h(
      "div",
      { class: "footer", role: "toolbar", "aria-label": "Session" },
      this.attachMenu(),
      this.model,
      this.thinking,
      this.mode,
      right,
    );
    this.update(null, false, false);
  }

  update(state: SessionState | null, running: boolean, readOnly: boolean): void {
    this.model.textContent = state ? (state.model?.name ?? "Choose a model") : "";
    this.thinking.textContent = state ? state.thinkingLevel : "";
    this.mode.textContent = state ? (MODES[state.permissionMode] ?? state.permissionMode) : "";
    this.mode.classList.toggle("careful", state?.permissionMode === "full");
    show(this.model, state !== null);
    show(this.thinking, (state?.model?.thinkingLevels.length ?? 0) > 1);
    show(this.mode, state !== null);
    for (const one of [this.model, this.thinking, this.mode]) one.disabled = readOnly;
    this.sendButton.disabled = readOnly;
    this.sendButton.title = running ? "Steer (Enter)" : "Send (Enter)";
    show(this.stopButton, running);
    this.drawUsage(state);
  }

  private drawUsage(state: SessionState | null): void {
    const usage = state?.contextUsage;
    const percent = usage?.percent ?? null;
    show(this.gauge, percent !== null);
    show(this.cost, (state?.tokens.total ?? 0) > 0);
    if (state) {
      const { input, output, cacheRead, cacheWrite } = state.tokens;
      this.cost.textContent = state.cost > 0 ? dollars(state.cost) : tokens(state.tokens.total);
      const cached =
        cacheRead + cacheWrite > 0
          ? `, cache ${tokens(cacheRead)} read and ${tokens(cacheWrite)} written`
          : "";
      this.cost.title = `This session: ${tokens(input)} tokens in, ${tokens(output)} out${cached}, ${dollars(state.cost)}`;
    }
    if (!usage || percent === null) return;
    this.bar.style.width = `${Math.min(100, Math.max(2, percent))}%`;
    this.gauge.classList.toggle("high", percent >= 75);
    this.percent.textContent = `${Math.round(percent)}%`;
    this.gauge.setAttribute("aria-valuenow", String(Math.round(percent)));
    this.gauge.title = `Context: ${tokens(usage.tokens ?? 0)} of ${tokens(usage.contextWindow)} tokens`;
  }

  private picker(title: string, command: HostCommand, name: string): HTMLButtonElement {
    const run = () => this.host.post({ type: "command", command });
    return h("button", { class: `picker ${name}`, type: "button", title, on: { click: run } });
  }

  // Nothing is attached by itself: this is where it is asked for.
  private attachMenu(): HTMLElement {
    const items: [string, HostCommand][] = [
      ["The selection", "attachSelection"],
      ["Problems of the file", "attachDiagnostics"],
      ["A file…", "attachFile"],
    ];
    const menu = h("div", { class: "menu", role: "menu" });
    const toggle = iconButton(icon("add"), "Attach", () => open(menu.hidden === true));
    const open = (wanted: boolean) => {
      show(menu, wanted);
      toggle.setAttribute("aria-expanded", String(wanted));
      if (wanted) menu.querySelector("button")?.focus();
    };
    for (const [label, command] of items) {
      const run = () => {
        open(false);
        this.host.post({ type: "command", command });
      };
      menu.append(
        h("button", { class: "menu-item", type: "button", role: "menuitem", on: { click: run } }, label),
      );
    }
    toggle.setAttribute("aria-haspopup", "menu");
    open(false);
    const wrap = h("span", { class: "attach" }, toggle, menu);
    wrap.addEventListener("focusout", (event) => {
      if (!wrap.contains(event.relatedTarget as Node | null)) open(false);
    });
    wrap.addEventListener("keydown", (event) => {
      if (menu.hidden || !["Escape", "ArrowDown", "ArrowUp"].includes(event.key)) return;
      event.preventDefault();
      if (event.key === "Escape") {
        open(false);
        toggle.focus();
        return;
      }
      const buttons = [...menu.querySelectorAll("button")];
      const step = event.key === "ArrowDown" ? 1 : buttons.length - 1;
      buttons[
        (buttons.indexOf(document.activeElement as HTMLButtonElement) + step) % buttons.length
      ]?.focus();
    });
    return wrap;
  }
}
