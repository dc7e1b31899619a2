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
  };
}

/** The same of a stored run. */
export function changesOfCheckpoint(summary: CheckpointSummary): ChangesRow | null {
  if (summary.kind !== "run" || summary.files.length === 0) return null;
  const files = summary.files.map(({ path, uri, kind }) => ({ path, uri, kind }));
  const { checkpointId, notRestorable } = summary;
  return {
    kind: "changes",
    key: `k:${checkpointId}`,
    version: 0,
    checkpointId,
    files,
    partial: notRestorable.length > 0,
  };
}
