/** Begins the chat in its page. */
import type { HostMessage } from "../shared/messages";
import { App } from "./app";
import type { Host, Kept } from "./host";

interface VsCodeApi {
  postMessage(message: unknown): void;
  getState(): Kept | undefined;
  setState(state: Kept): void;
}

declare function acquireVsCodeApi(): VsCodeApi;

const api = acquireVsCodeApi();
let kept: Kept = api.getState() ?? {};

const host: Host = {
  post: (message) => api.postMessage(message),
  read: () => kept,
  keep(more) {
    kept = { ...kept, ...more };
    api.setState(kept);
  },
};

const root = document.getElementById("app");
if (root) {
  const app = new App(root, host);
  window.addEventListener("message", (event: MessageEvent<HostMessage>) => app.take(event.data));
  const { sessionId } = kept;
  host.post({ type: "ready", ...(sessionId === undefined ? {} : { sessionId }) });
}
