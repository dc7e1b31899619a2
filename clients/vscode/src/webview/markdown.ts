/**
 * Markdown as elements: markdown-it parses, and its tokens become elements one by one.
 *
 * No HTML is made or taken: what a model writes as tags is shown as text, images are links, and links lead nowhere
 * but to the host.
 */
import MarkdownIt, { type Token } from "markdown-it";
import { type Link, linkTarget } from "../view/links";
import { codeBlock } from "./code";
import { type Child, h, link } from "./dom";
import type { Host } from "./host";

const parser = new MarkdownIt({ html: false, linkify: true, typographer: false });
// Links are judged where they are drawn, so that one which is refused still shows its text.
parser.validateLink = () => true;
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

const TAGS: Record<string, keyof HTMLElementTagNameMap> = {
  paragraph_open: "p",
  blockquote_open: "blockquote",
  bullet_list_open: "ul",
  ordered_list_open: "ol",
  list_item_open: "li",
  table_open: "table",
  thead_open: "thead",
  tbody_open: "tbody",
  tr_open: "tr",
  th_open: "th",
  td_open: "td",
  strong_open: "strong",
  em_open: "em",
  s_open: "s",
};

/** A path with a folder or a line in it, as models mention them. */
const PATH = /^(?:\.{0,2}\/)?(?:[\w@.+-]+\/)+[\w@.+-]+\.\w+(?::\d+(?:-\d+)?)?$|^[\w@.+-]+\.\w+:\d+(?:-\d+)?$/;

/** Draws a text into an element, in place of what was there. */
export function renderMarkdown(into: HTMLElement, text: string, host: Host): void {
  into.replaceChildren();
  draw(parser.parse(text, {}), into, host);
}

function draw(tokens: Token[], root: HTMLElement, host: Host): void {
  const open: HTMLElement[] = [root];
  const into = () => open[open.length - 1] ?? root;
  for (const token of tokens) {
    if (token.nesting === 1) {
      const element = opened(token, host);
      // A table scrolls by itself; the row does not.
      if (token.type === "table_open") into().append(h("div", { class: "table", tabindex: "0" }, element));
      else if (!token.hidden) into().append(element);
      open.push(token.hidden ? into() : element);
    } else if (token.nesting === -1) {
      if (open.length > 1) open.pop();
    } else if (token.type === "inline") draw(token.children ?? [], into(), host);
    else into().append(leaf(token, host) || "");
  }
}

function opened(token: Token, host: Host): HTMLElement {
  if (token.type === "link_open") return anchor(String(token.attrGet("href") ?? ""), host);
  if (token.type === "heading_open") return h("h3", { class: `heading ${token.tag}` });
  const element = h(TAGS[token.type] ?? "span");
  const start = token.attrGet("start");
  if (start !== null && token.type === "ordered_list_open") element.setAttribute("start", String(start));
  const align = /text-align:(left|right|center)/.exec(String(token.attrGet("style") ?? ""));
  if (align?.[1]) element.classList.add(`align-${align[1]}`);
  return element;
}

function leaf(token: Token, host: Host): Child {
  switch (token.type) {
    case "text":
    case "text_special":
    case "html_inline":
    case "html_block":
      return token.content;
    case "softbreak":
      return "\n";
    case "hardbreak":
      return h("br");
    case "hr":
      return h("hr");
    case "code_inline":
      return inlineCode(token.content, host);
    case "code_block":
      return codeBlock(token.content.replace(/\n$/, ""), "", false, host).element;
    case "fence":
      return codeBlock(token.content.replace(/\n$/, ""), token.info, false, host).element;
    case "image": {
      const element = anchor(String(token.attrGet("src") ?? ""), host);
      element.append(token.content || "image");
      return element;
    }
    default:
      return token.content;
  }
}

function inlineCode(text: string, host: Host): HTMLElement {
  const target = PATH.test(text) ? linkTarget(text) : null;
  const code = h("code", {}, text);
  return target?.kind === "file" ? link(code, text, () => follow(target, host)) : code;
}

function anchor(href: string, host: Host): HTMLElement {
  const target = linkTarget(href);
  if (!target) return h("span", { class: "refused-link", title: `Not followed: ${href}` });
  return link(null, target.kind === "web" ? target.href : target.uri, () => follow(target, host));
}

function follow(target: Link, host: Host): void {
  if (target.kind === "web") host.post({ type: "openLink", href: target.href });
  else host.post({ type: "openFile", uri: target.uri, ...(target.range ? { range: target.range } : {}) });
}
