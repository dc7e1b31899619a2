/** What a run changed, as a row. */
import type { AgentSettled, CheckpointSummary } from "../generated/protocol";
import { parseDiff } from "./diff";
import type { ChangesRow } from "./rows";

/** The changes of a run that has just settled; null: it changed no file that is known of. */
export function changesOfRun(event: AgentSettled): ChangesRow | null {
  if (event.checkpointId === undefined || event.diff === undefined) return null;
  const files = parseDiff(event.diff).map(({ path, kind, added, removed }) => ({
    path,
    kind,
    added,
    removed,
  }));
  if (files.length === 0) return null;
  const partial = event.diffTruncated === true;
  return {
    kind: "changes",
    key: `k:${event.checkpointId}`,
    version: 0,
    checkpointId: event.checkpointId,
    files,
    partial,
    undone: false,
  };
}

/** The same of a stored run. `all`: the checkpoints of its session, the newest first; `cwd`: its directory. */
export function changesOfCheckpoint(
  summary: CheckpointSummary,
  all: CheckpointSummary[],
  cwd: string,
): ChangesRow | null {
  if (summary.kind !== "run" || summary.files.length === 0) return null;
  const files = summary.files.map(({ path, uri, kind }) => ({
    // As in the diff of a run that has just settled.
    path: path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path,
    uri,
    kind,
  }));
  const { checkpointId, notRestorable } = summary;
  return {
    kind: "changes",
    key: `k:${checkpointId}`,
    version: 0,
    checkpointId,
    files,
    partial: notRestorable.length > 0,
    undone: isUndone(summary, all),
  };
}

/** Whether all of what a checkpoint holds was restored, and that was not taken back. `all`: the newest first. */
export function isUndone({ checkpointId, files }: CheckpointSummary, all: CheckpointSummary[]): boolean {
  const last = all.find(({ restored }) => restored === checkpointId);
  if (!last || isUndone(last, all)) return false;
  const restored = new Set(last.files.map(({ uri }) => uri));
  return files.every(({ uri }) => restored.has(uri));
}
