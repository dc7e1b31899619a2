/** What axe-core finds in a chat: violations of WCAG 2.2, levels A and AA. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults, RunOptions } from "axe-core";
import type { Chat } from "./chat.mts";

declare const axe: { run(context: Document, options: RunOptions): Promise<AxeResults> };

const SOURCE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const OPTIONS: RunOptions = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
  resultTypes: ["violations"],
};

/** Each violation in words: the rule, where, and why. None is what is wanted. */
export async function violations(chat: Chat): Promise<string[]> {
  const frame = await chat.frame();
  // The page has no background: it is seen on that of the side bar.
  await frame.evaluate(() => {
    document.documentElement.style.background = "var(--vscode-sideBar-background)";
  });
  if (!(await frame.evaluate(() => "axe" in window))) await frame.evaluate(SOURCE);
  const found = await frame.evaluate((options) => axe.run(document, options), OPTIONS);
  return found.violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n  ${html.slice(0, 200)}\n  ${failureSummary}`),
  );
}
