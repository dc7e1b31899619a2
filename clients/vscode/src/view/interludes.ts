/** What holds a conversation up for a while: a retry, a compaction. Each has one row, which goes or becomes another. */
import type { AutoRetryStart, CompactionEnd, CompactionStart } from "../generated/protocol";
import { type Group, summaryRow } from "./groups";
import type { Row } from "./rows";
import type { Transcript } from "./transcript";

export class Interludes {
  private retry: Group | null = null;
  private compaction: Group | null = null;

  constructor(private readonly transcript: Transcript) {}

  /** The session is another one. */
  reset(): void {
    this.retry = this.compaction = null;
  }

  /** Nothing goes on any more, and nobody says so. */
  stop(): void {
    this.retryEnd();
    if (this.compaction) this.transcript.replace(this.compaction, null);
    this.compaction = null;
  }

  compactionStart(reason: CompactionStart["reason"]): void {
    const why =
      { manual: "", overflow: ": the context is full", threshold: ": the context is filling up" }[reason] ??
      "";
    this.compaction = { rows: [this.transcript.note("busy", `Compacting the conversation${why}`)] };
    this.transcript.add(this.compaction);
  }

  compactionEnd(event: CompactionEnd): void {
    let row: Row;
    if (event.result) {
      row = summaryRow("compaction", event.result.summary, this.transcript.newKey());
      row.tokensBefore = event.result.tokensBefore;
      row.tokensAfter = event.result.estimatedTokensAfter;
    } else if (event.aborted) row = this.transcript.note("info", "Compaction stopped; nothing has changed.");
    else row = this.transcript.note("error", event.errorMessage ?? "Compaction failed; nothing has changed.");
    this.transcript.replace(this.compaction ?? undefined, { rows: [row] });
    this.compaction = null;
  }

  retryStart({ attempt, maxAttempts, delayMs, errorMessage }: AutoRetryStart): void {
    const wait = delayMs >= 1_000 ? ` in ${Math.round(delayMs / 1_000)} s` : "";
    const text = `Trying again${wait} (${attempt} of ${maxAttempts})`;
    const group = { rows: [this.transcript.note("busy", text, errorMessage)] };
    // Below the reply that has just failed.
    this.retryEnd();
    this.transcript.add(group);
    this.retry = group;
  }

  retryEnd(): void {
    if (this.retry) this.transcript.replace(this.retry, null);
    this.retry = null;
  }
}
