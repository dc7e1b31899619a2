import assert from "node:assert/strict";
import { homedir } from "node:os";
import test from "node:test";
import type * as vscode from "vscode";
import { located } from "../../../src/host/opening";
import { page } from "../../../src/host/page";
import { stricter } from "../../../src/host/settings";
import { Uri } from "../vscode";

test("a file is found where a model says it is", () => {
  const cases: [string, string | undefined, number?][] = [
    ["/a/b.py", "/a/b.py"],
    ["src/b.py", "/project/src/b.py"],
    ["./b.py:12", "/project/b.py", 11],
    ["b.py:12:3", "/project/b.py", 11],
    ["b.py:12-20", "/project/b.py", 11],
    ["b.py#L7", "/project/b.py", 6],
    ["b.py#L7-L9", "/project/b.py", 6],
    ["~/notes.md", `${homedir()}/notes.md`],
    ["file:///a/b%20c.py", "/a/b c.py"],
    ["file:///a/b.py#L3", "/a/b.py", 2],
    ["file://other.example/a/b.py", undefined],
    ["", undefined],
  ];
  for (const [text, path, line] of cases) {
    const expected = path === undefined ? undefined : { path, ...(line !== undefined && { line }) };
    assert.deepEqual(located(text, "/project"), expected, text);
  }
  assert.equal(located("b.py", undefined), undefined);
});

test("of two permission modes the stricter one holds", () => {
  assert.equal(stricter("full", "readonly"), "readonly");
  assert.equal(stricter("ask", "full"), "ask");
  assert.equal(stricter("edits", undefined), "edits");
});

test("the page runs our script alone, and loads nothing from anywhere else", () => {
  const webview = { cspSource: "https://here", asWebviewUri: (uri: Uri) => uri } as unknown as vscode.Webview;
  const made = () => page(webview, Uri.file("/extension") as unknown as vscode.Uri);
  const html = made();
  const policy = /content="(default-src[^"]*)"/.exec(html)?.[1] ?? "";
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|\*|http:/);
  const nonce = /script-src 'nonce-([^']+)'/.exec(policy)?.[1];
  assert.deepEqual(html.match(/<script[^>]*>/g), [
    `<script nonce="${nonce}" src="file:///extension/dist/webview.js">`,
  ]);
  assert.doesNotMatch(html, / style=|<style| on\w+=/);
  assert.notEqual(made(), html, "the number is used once");
});
