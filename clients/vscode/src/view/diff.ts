/** A unified diff as lines to draw. */

export interface DiffLine {
  kind: "same" | "added" | "removed" | "hunk" | "note";
  text: string;
  /** Numbers in the old and the new file, from 1. */
  old?: number;
  new?: number;
}

export interface DiffFile {
  path: string;
  kind: "changed" | "created" | "deleted";
  lines: DiffLine[];
  added: number;
  removed: number;
}

/** The files of a diff, of git or with `---` and `+++` alone. */
export function parseDiff(diff: string): DiffFile[] {
  const files: DiffFile[] = [];
  let file: DiffFile | undefined;
  let oldLine = 0;
  let newLine = 0;
  let oldLeft = 0;
  let newLeft = 0;
  for (const line of diff.split("\n")) {
    if (file && (oldLeft > 0 || newLeft > 0)) {
      const text = line.slice(1);
      if (line.startsWith("+")) {
        file.lines.push({ kind: "added", text, new: newLine++ });
        file.added++;
        newLeft--;
        continue;
      }
      if (line.startsWith("-")) {
        file.lines.push({ kind: "removed", text, old: oldLine++ });
        file.removed++;
        oldLeft--;
        continue;
      }
      if (line.startsWith(" ") || line === "") {
        file.lines.push({ kind: "same", text, old: oldLine++, new: newLine++ });
        oldLeft--;
        newLeft--;
        continue;
      }
    }
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (hunk && file) {
      oldLine = Number(hunk[1]);
      newLine = Number(hunk[3]);
      oldLeft = Number(hunk[2] ?? 1);
      newLeft = Number(hunk[4] ?? 1);
      if (file.lines.length > 0) file.lines.push({ kind: "hunk", text: line });
    } else if (line.startsWith("diff --git ")) {
      file = begin(files, line.slice(line.lastIndexOf(" b/") + 3));
    } else if (line.startsWith("--- ")) {
      const path = line.slice(4);
      if (!file || file.lines.length > 0) file = begin(files, path);
      if (path === "/dev/null") file.kind = "created";
    } else if (line.startsWith("+++ ") && file) {
      const path = line.slice(4);
      if (path === "/dev/null") file.kind = "deleted";
      else file.path = path.replace(/^b\//, "");
    } else if (line.startsWith("# pi-rpc:") || line.startsWith("\\ ")) {
      file?.lines.push({ kind: "note", text: line.replace(/^(# pi-rpc:|\\) */, "") });
    }
  }
  return files;
}

function begin(files: DiffFile[], path: string): DiffFile {
  const file: DiffFile = { path, kind: "changed", lines: [], added: 0, removed: 0 };
  files.push(file);
  return file;
}
