"""Rules: how they are written, what they match, how they read."""

from pathlib import Path

import pytest

from pi_rpc.harness.permissions.rules import (
    Rule,
    RuleEffect,
    RuleError,
    RuleSet,
    command_rule,
    command_text,
    parse_rule,
    path_rule,
    read_rules,
)


@pytest.mark.parametrize(
    "text",
    ["bash", "bash(git status*)", "edit(src/**)", "*", "read(~/x)", "bash(a (b) c)", "a.b:c-d"],
)
def test_a_rule_is_written_as_it_was_read(text: str) -> None:
    assert parse_rule(text, "allow").text == text
    assert parse_rule(f" {text} ", "deny").text == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "()", "bash(", "bash)", "bash(a", "(a)", "bash()", "bash( )", "*(a)", "a b"),
        *("bash(a) b", "bash(a\0)", "bash(a\\)"),
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        parse_rule(text, "allow")


@pytest.mark.parametrize("effect", ["ask", "deny"])
@pytest.mark.parametrize(
    ("text", "tool"), [("bash(rm", "bash"), ("(rm)", "*"), ("", "*"), ("edit(a) b", "edit")]
)
def test_a_strict_rule_that_cannot_be_read_is_about_all_of_its_tool(
    effect: RuleEffect, text: str, tool: str
) -> None:
    rules, problems = read_rules({effect: [text]})
    assert [(rule.effect, rule.text) for rule in rules.rules] == [(effect, tool)]
    assert rules.rules[0].fault
    assert len(problems) == 1
    assert problems[0].startswith(f"{effect}[0]: ")


def test_a_rule_to_allow_that_cannot_be_read_is_left_out() -> None:
    rules, problems = read_rules({"allow": ["bash(rm", "read"]})
    assert [rule.text for rule in rules.rules] == ["read"]
    assert problems == [
        "allow[0]: should be a tool's name or tool(pattern), such as bash(git status*); ignored"
    ]


@pytest.mark.parametrize(
    ("pattern", "words", "matches"),
    [
        ("git status", ["git", "status"], True),
        ("git status", ["git", "status", "-s"], False),
        ("git status*", ["git", "status", "-s"], True),
        ("git status*", ["git", "status-x"], True),
        ("git status *", ["git", "status"], True),
        ("git status *", ["git", "status-x"], False),
        ("git status *", ["git status"], False),
        ("git *", ["git", "a b"], True),
        ("git *", ["git x"], False),
        ("git", ["git", "x"], False),
        ("cat*", ["cat"], True),
        ("cat*", ["cat", "x"], True),
        ("cat*", ["catx"], False),
        ("cat*", ["/bin/cat"], False),
        ("npm test", ["npm test"], False),
        ("npm test", ["npm", "tests"], False),
        ("NPM test", ["npm", "test"], False),
        ("* --help", ["git", "--help"], True),
        ("* --help", ["git", "x --help"], False),
        ("git * main", ["git", "push", "main"], True),
        ("git * main", ["git", "main"], False),
        ("*", ["anything", "at all"], True),
        ("echo \\*", ["echo", "x"], False),
        ("a*b*c", ["abbc"], True),
        ("a*b*c", ["acb"], False),
        ("ab*ba", ["aba"], False),
        ("echo 'a b'", ["echo", "a b"], True),
        ("git status*", ["git", "status", "\n", "x"], True),
    ],
)
def test_a_command_rule_matches_whole_commands(
    pattern: str, words: list[str], matches: bool
) -> None:
    assert Rule("allow", "bash", pattern).matches_command(words) is matches


@pytest.mark.parametrize("words", [["rm"], ["rm", "-r"], ["RM", "x"], ["rmdir"]])
def test_a_rule_that_denies_commands_takes_any_case_and_longer_names(words: list[str]) -> None:
    rule = Rule("deny", "bash", "rm*")
    assert rule.matches_command(words)
    assert not rule.matches_command(["git", "rm"])


def test_many_wildcards_take_no_time_to_speak_of() -> None:
    assert not Rule("deny", "bash", "a*" * 50 + "b").matches_command(["a" * 50_000])


@pytest.mark.parametrize(
    ("pattern", "path", "allows", "denies"),
    [
        ("src/**", "/p/src/a/b", True, True),
        ("src/**", "/p/src", False, True),
        ("src/**", "/p/srcs/a", False, False),
        ("src/**", "/q/src/a", False, False),
        ("src/*", "/p/src/a", True, True),
        ("src/*", "/p/src/a/b", False, True),
        ("src", "/p/src", True, True),
        ("src", "/p/src/a", False, True),
        ("src/", "/p/src/a", True, True),
        ("*.md", "/p/a/b.md", True, True),
        ("*.md", "/q/b.md", False, False),
        ("/p/*.md", "/p/b.md", True, True),
        ("/p/*.md", "/p/a/b.md", False, False),
        ("**/x/*.py", "/p/a/b/x/c.py", True, True),
        ("a/**/b", "/p/a/b", True, True),
        ("a/**/b", "/p/a/x/y/b", True, True),
        ("../q/**", "/q/x", True, True),
        ("./a", "/p/a", True, True),
        ("./a", "/p/b/a", False, False),
        ("app/[id]/{x}.ts", "/p/app/[id]/{x}.ts", True, True),
        ("app/[id]/x", "/p/app/i/x", False, False),
        ("a?", "/p/ab", True, True),
        ("a?", "/p/a/b", False, False),
        ("a\\*", "/p/ab", False, False),
        ("a\\*", "/p/a*", True, True),
        ("SRC/**", "/p/src/a", False, True),
        ("caf\u00e9/**", "/p/cafe\u0301/x", False, True),
        ("**", "/p/a/b", True, True),
        ("**", "/p/a", True, True),
        ("**/", "/p/a", True, True),
        ("a/**/**", "/p/a/b", True, True),
        ("**", "/q/a", False, False),
        ("/**", "/q/a", True, True),
    ],
)
def test_a_path_rule_matches_like_gitignore(
    pattern: str, path: str, allows: bool, denies: bool
) -> None:
    cwd = Path("/p")
    assert Rule("allow", "edit", pattern).matches_path(Path(path), cwd) is allows
    assert Rule("deny", "edit", pattern).matches_path(Path(path), cwd) is denies


def test_a_rule_follows_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = Path(tmp_path).resolve()
    assert Rule("allow", "edit", "~/x/**").matches_path(home / "x" / "y", Path("/p"))
    assert not Rule("allow", "edit", "~x/**").matches_path(home / "x" / "y", Path("/p"))


def test_only_a_rule_that_denies_follows_links_in_its_pattern(tmp_path: Path) -> None:
    cwd = tmp_path.resolve()
    (cwd / "real").mkdir()
    (cwd / "link").symlink_to(cwd / "real")
    assert Rule("deny", "edit", "link/**").matches_path(cwd / "real" / "x", cwd)
    assert not Rule("allow", "edit", "link/**").matches_path(cwd / "real" / "x", cwd)


@pytest.mark.parametrize(
    ("tool", "called", "kind", "about"),
    [
        ("edit", "write", "edit", True),
        ("write", "edit", "edit", False),
        ("read", "grep", "read", True),
        ("grep", "read", "read", False),
        ("*", "deploy", "other", True),
        ("execute", "bash", "execute", False),
        ("bash", "bash", "execute", True),
        ("Bash", "bash", "execute", False),
    ],
)
def test_read_and_edit_mean_every_tool_of_that_kind(
    tool: str, called: str, kind: str, about: bool
) -> None:
    assert Rule("allow", tool).names(called, kind) is about
    assert RuleSet((Rule("deny", tool),)).about("deny", called, kind) == (
        (Rule("deny", tool),) if about else ()
    )


@pytest.mark.parametrize(
    "words",
    [["git", "status"], ["echo", "*"], ["a b", "'"], ["x", "\\*"], ["x", ""], ["ls", "é\n"]],
)
def test_a_rule_made_for_a_command_matches_exactly_that(words: list[str]) -> None:
    rule = command_rule(words)
    assert rule.matches_command(words)
    assert parse_rule(rule.text, "allow") == rule
    assert not rule.matches_command([*words, "more"])
    assert not rule.matches_command(["other", *words])
    assert command_rule(words, prefix=True).matches_command([*words, "more"])
    assert command_text(words) == " ".join(command_text([word]) for word in words)


@pytest.mark.parametrize("name", ["a", "b/c", "b/*", "[x]", "b/a\\b", "ü", "a b", "~", "(x)"])
def test_a_rule_made_for_a_file_matches_exactly_that(name: str) -> None:
    cwd = Path("/p")
    rule = path_rule("edit", cwd / name, cwd)
    assert parse_rule(rule.text, "allow") == rule
    assert rule.matches_path(cwd / name, cwd)
    for other in ("b/d", "sub/" + name, name + "x"):
        assert not rule.matches_path(cwd / other, cwd)
    assert path_rule("read", Path("/q/r"), cwd, below=True).matches_path(Path("/q/r/s/t"), cwd)
    assert path_rule("edit", cwd, cwd, below=True).matches_path(cwd / "x", cwd)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bash(git status)", "the command `git status`"),
        ("bash(git status *)", "commands like `git status *`"),
        ("bash(echo \\*)", "the command `echo *`"),
        ("edit(src/**)", "edit: files like `src/**`"),
        ("edit(a.py)", "edit: the file `a.py`"),
        ("deploy", "every use of deploy"),
        ("*", "every tool"),
    ],
)
def test_a_rule_has_words_for_people(text: str, words: str) -> None:
    assert parse_rule(text, "allow").words == words


def test_rule_sets_are_added_without_doubles() -> None:
    one = RuleSet((Rule("allow", "a"), Rule("deny", "b")))
    assert one + RuleSet((Rule("deny", "b"), Rule("ask", "c"))) == RuleSet(
        (Rule("allow", "a"), Rule("deny", "b"), Rule("ask", "c"))
    )
