/** The side of the webview that speaks with the extension host, as the rest of it sees that. */
import type { WebviewMessage } from "../shared/messages";

export interface Host {
  post(message: WebviewMessage): void;
  /** The page's own memory: what is kept while it is hidden or reloaded. */
  read(): Kept;
  keep(kept: Partial<Kept>): void;
}

/** What a reload of the page does not lose. */
export interface Kept {
  sessionId?: string | undefined;
  text?: string;
  history?: string[];
}
