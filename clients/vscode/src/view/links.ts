/**
 * Which links of a message may be followed, and to what.
 *
 * A model wrote them: anything but `http`, `https`, `mailto` and files is left as text. The host checks again.
 */
import type { Range } from "../generated/protocol";

export type Link = { kind: "web"; href: string } | { kind: "file"; uri: string; range?: Range };

const SCHEME = /^([a-z][a-z0-9+.-]*):/i;
const LINES = /(?:#L(\d+)(?:-L?(\d+))?|:(\d+)(?::\d+)?(?:-(\d+))?)$/;

/** Where a link leads; null: nowhere that we follow. */
export function linkTarget(href: string): Link | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what hides a scheme is refused
  if (href === "" || /[\u0000-\u001f\u007f]/.test(href)) return null;
  const scheme = SCHEME.exec(href)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return URL.canParse(href) ? { kind: "web", href } : null;
  if (scheme === "mailto") return { kind: "web", href };
  if (scheme === "file") return file(href);
  // `main.py:12` looks like a scheme and is none.
  if (scheme !== undefined && !(scheme.includes(".") && /^[^:]*:\d/.test(href))) return null;
  if (href.startsWith("//") || href.startsWith("#")) return null;
  return file(decode(href));
}

function file(path: string): Link {
  const lines = LINES.exec(path);
  if (!lines) return { kind: "file", uri: path };
  const first = Number(lines[1] ?? lines[3]);
  const last = Number(lines[2] ?? lines[4] ?? first);
  const uri = path.slice(0, lines.index);
  if (first < 1 || uri === "") return { kind: "file", uri: path };
  const range = {
    start: { line: first - 1, character: 0 },
    end: { line: Math.max(first, last) - 1, character: 0 },
  };
  return { kind: "file", uri, range };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
