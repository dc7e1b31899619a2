/** Colours code, for the languages that are met most. */
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import lua from "highlight.js/lib/languages/lua";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  lua,
  python,
  ruby,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** More than this is shown without colours, in characters. */
export const MOST_HIGHLIGHTED = 12_000;

/** Puts colours on what an element shows, when there is time for it. */
export function highlight(code: HTMLElement, text: string, language: string): void {
  if (!hljs.getLanguage(language) || text.length > MOST_HIGHLIGHTED) return;
  whenIdle(() => {
    if (code.textContent !== text) return;
    const { value } = hljs.highlight(text, { language, ignoreIllegals: true });
    code.replaceChildren(elementsOf(value));
  });
}

function whenIdle(act: () => void): void {
  if (typeof requestIdleCallback === "function") requestIdleCallback(act, { timeout: 500 });
  else setTimeout(act, 0);
}

const ENTITIES: Record<string, string> = {
  "&lt;": "<",
  "&gt;": ">",
  "&amp;": "&",
  "&quot;": '"',
  "&#x27;": "'",
};

/** What highlight.js writes is spans with a class, and text: they are made here rather than parsed as HTML. */
export function elementsOf(marked: string): DocumentFragment {
  const root = document.createDocumentFragment();
  const open: ParentNode[] = [root];
  for (const part of marked.match(/<span class="[^"]*">|<\/span>|[^<]+|</g) ?? []) {
    const into = open[open.length - 1] ?? root;
    const name = /^<span class="([^"]*)">$/.exec(part)?.[1];
    if (name !== undefined) {
      const span = document.createElement("span");
      span.className = name;
      into.append(span);
      open.push(span);
    } else if (part === "</span>") {
      if (open.length > 1) open.pop();
    } else into.append(part.replace(/&(?:lt|gt|amp|quot|#x27);/g, (entity) => ENTITIES[entity] ?? entity));
  }
  return root;
}
