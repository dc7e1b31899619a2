/**
 * Texts of others, made fit for where VS Code reads more into them than words.
 *
 * Labels and the status bar draw `$(name)` as an icon, notifications make links of `[text](command:…)`, and
 * characters that do not print or turn the direction of the text can hide what a person is asked about.
 */
import { plainly } from "../shared/asked";

/** The same words, with nothing in them but words. */
export function plain(text: string): string {
  return plainly(text).replace(/\$\(/g, "$\u200b(").replace(/\]\(/g, "]\u200b(");
}

/** Words with `code` in them, for where code looks like any word. */
export function quoted(text: string): string {
  return plain(text.replace(/`([^`]+)`/g, "“$1”"));
}

/** On one line, for a list: cut where it is longer than anybody reads there. */
export function line(text: string, longest = 200): string {
  const words = plain(text.replace(/\s+/g, " ").trim());
  return words.length > longest ? `${words.slice(0, longest - 1)}…` : words;
}
