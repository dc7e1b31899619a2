import assert from "node:assert/strict";
import test from "node:test";
import { line, plain, quoted } from "../../../src/host/words";

test("what a model wrote becomes neither an icon nor a link", () => {
  assert.doesNotMatch(plain("echo $(pass)"), /\$\(/);
  assert.doesNotMatch(plain("echo [Allow](command:pi.review.accept)"), /\]\(/);
});

test("what does not print, or turns the text round, is seen", () => {
  assert.equal(plain("rm \u202egnp.exe\u0007\u200b"), "rm \\u{202e}gnp.exe\\u{7}\\u{200b}");
  assert.equal(plain("ls \u{e0072}\u3164"), "ls \\u{e0072}\\u{3164}");
  assert.equal(plain("tabs\tand\nlines, ümlaute, 漢字, 🙂"), "tabs\tand\nlines, ümlaute, 漢字, 🙂");
});

test("in a list it is one line, cut at its end", () => {
  assert.equal(line("a\n  b\t c "), "a b c");
  assert.equal(line("x".repeat(300), 10), `${"x".repeat(9)}…`);
});

test("code among words is quoted where nothing draws it as code", () => {
  assert.equal(quoted("the command `git log` and `ls *`"), "the command “git log” and “ls *”");
});
