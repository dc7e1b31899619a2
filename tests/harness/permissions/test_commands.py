"""Shell text, taken apart; and the proof that bash runs exactly what we believe it runs."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pi_rpc.harness.permissions.commands import LONGEST, parse_command
from tests.deadlines import DEADLINE_S

PROGRAMS = ("git", "ls", "echo-it", "cat", "npm")
ODD_WORDS = [
    "plain",
    "a.b",
    "-x",
    "--long=value",
    "a=b",
    "HEAD~1",
    "a#b",
    "50%",
    "a,b",
    "a:b",
    "@a",
    "+x",
    "^a",
    "a^b",
    "_",
    "-",
    "--",
    "..",
    "/",
    "a/b",
    "''",
    '""',
    "'a b'",
    '"a b"',
    "a' 'b",
    'a" "b',
    "'a'\"b\"c",
    "\\ ",
    "\\\\",
    "\\'",
    '\\"',
    "\\$x",
    "\\*",
    "\\a",
    "\\;",
    "\\|\\&",
    "\\#",
    "'\\'",
    "'\\n'",
    '"\\n"',
    '"\\\\"',
    '"\\""',
    '"\\$x"',
    '"\\`x\\`"',
    "'$x'",
    "'`x`'",
    "'$(x)'",
    "'*'",
    '"*"',
    "'?'",
    "'[a]'",
    "'{a,b}'",
    '"{a,b}"',
    "'~'",
    '"~/x"',
    "a\\~",
    "\\~",
    "'a\nb'",
    '"a\nb"',
    "'a\tb'",
    "'ü'",
    '"日本"',
    '"a!"',
    '"! a"',
    "'!x'",
    "'a;b'",
    '"a && b"',
    "'>x'",
    "'#'",
    "\\!",
    "\\=",
    "a'='b",
    "''''",
    '""""',
    "a''",
    "''a",
    "'\"'",
    '"\'"',
    "a\\b\\c",
    "'a'\\''b'",
    "5",
    "12",
    "1.5",
    "-1",
    "2a",
    "if",
    "then",
    "done",
    "%1",
    "a@b.c",
    "\\(",
    "\\)",
    "'()'",
    "\\{",
    "\\}",
    "\\[",
    "\\<",
    "\\>",
    "0x1f",
    "a\\ b",
    '"a\\ b"',
    "'a\\ b'",
    '"\\a"',
    "a--b",
    "x+=1",
    "A=1",
    "'A'=1",
]
JOINS = [" ; ", ";", "\n", " && ", "&&", " || ", "||", " | ", "|", "\n\n", " ;\n", " &&\n", " |\n "]
ENDS = [
    "",
    " 2>&1",
    " >/dev/null",
    " 2>/dev/null",
    " 2>&1 >/dev/null",
    " </dev/null",
    " &>/dev/null",
]


def words_of(text: str) -> list[list[str]]:
    parsed = parse_command(text)
    assert parsed.problems == (), text
    return [list(words) for words in parsed.simple]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git status", [["git", "status"]]),
        ('git \'a b\'"c\\"d"e\\ f', [["git", 'a bc"de f']]),
        ("a | b && c || d; e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a 2>&1 >/dev/null | b", [["a"], ["b"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ('a "\\$(x)"', [["a", "$(x)"]]),
        ("a &&\n\n b |\n c", [["a"], ["b"], ["c"]]),
    ],
)
def test_a_plain_command_is_its_words(text: str, words: list[list[str]]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ls $(x)", "a command substitution"),
        ("ls $x", "a variable"),
        ("ls <(x)", "a process substitution"),
        ("ls > x", "a redirection"),
        ("ls <<E\nE", "a here-document"),
        ("ls <<< x", "a here-string"),
        ("A=1 ls", "an assignment"),
        ("f() { ls; }", "a function"),
        ("(ls)", "a subshell"),
        ("ls &", "a command in the background"),
        ("ls *", "a wildcard"),
        ("ls {a,b}", "a brace expansion or a group"),
        ("ls $'a'", "a string with escapes, `$'…'`"),
        ("! ls", "a negation"),
        ("ls # x", "a comment"),
        ("ls ~", "a home directory written as ~"),
        ("ls (", "something that cannot be parsed"),
        ("ls \u202e", "a character that is not seen (right-to-left override)"),
        ("ls é", "letters beyond ASCII outside of quotes"),
        ("", "no command"),
        ("sudo ls", "`sudo` runs other programs"),
        ("find . -delete", "`find -delete` can run other programs or write elsewhere"),
    ],
)
def test_what_is_not_plain_is_named_in_words(text: str, problem: str) -> None:
    parsed = parse_command(text)
    assert problem in parsed.problems


def test_a_command_too_long_is_not_looked_at_and_says_so() -> None:
    parsed = parse_command("x" * (LONGEST + 1))
    assert parsed.unsure
    assert parsed.problems == ("it is longer than 64 KiB, too long to be judged",)
    assert not parse_command("x" * LONGEST).unsure


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 5000,
        "((" * 5000,
        "{ " * 5000,
        "<<E " * 500,
        "'" * 999,
        '"' * 999,
        "`" * 999,
        "a=" * 5000,
        "\\" * 9999,
        "if " * 3000,
        "\x00" * 10,
        "\ud800",
        "$" * 9000,
        "${" * 3000,
        "sudo " * 3000,
        "é" * 9000,
        "{a,b}" * 3000,
        "sh -c '" * 1000,
        "<(" * 3000,
        'env -S "' * 999,
    ],
    ids=lambda text: ascii(text[:8])[1:-1],
)
def test_no_text_breaks_the_reading(text: str) -> None:
    assert parse_command(text).problems


def test_the_grammar_is_imported_with_the_first_command() -> None:
    program = (
        "import sys; from pi_rpc.harness.permissions import decision\n"
        "assert 'tree_sitter' not in sys.modules\n"
        "from pi_rpc.harness.permissions.commands import parse_command\n"
        "parse_command('ls'); assert 'tree_sitter' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S)


def generated_lists() -> list[tuple[str, list[bool]]]:
    """Lists of commands with odd words, always the same; and which of the commands are run.

    All programs succeed, so that what comes after ``||`` is not.
    """
    chance = random.Random(6)
    singles = [f"git {word} x {word}{word}" for word in ODD_WORDS]
    lists = [("\n".join(singles), [True] * len(singles))]
    for _ in range(300):
        text, runs = "", []
        for number in range(chance.randint(1, 4)):
            join = chance.choice(JOINS) if number else ""
            words = [chance.choice(PROGRAMS), *chance.choices(ODD_WORDS, k=chance.randint(0, 5))]
            if chance.random() < 0.3:
                words.append("".join(chance.choices(ODD_WORDS, k=2)))
            text += join + chance.choice([" ", "  ", "\t"]).join(words) + chance.choice(ENDS)
            runs.append(runs[-1] if join.strip() == "|" else join.strip() != "||")
        lists.append((text, runs))
    return lists


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_runs_exactly_the_words_that_were_read(tmp_path: Path) -> None:
    bash = shutil.which("bash") or "bash"
    (tmp_path / "bin").mkdir()
    log = tmp_path / "log"
    log.mkdir()
    for name in PROGRAMS:
        stub = tmp_path / "bin" / name
        stub.write_text(f"#!{bash}\nprintf '%s\\0' {name} \"$@\" > '{log}'/$$\n")
        stub.chmod(0o755)
    environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    plain = 0
    for text, runs in generated_lists():
        parsed = parse_command(text)
        if parsed.problems:
            continue
        plain += 1
        subprocess.run(
            [bash, "--norc", "--noprofile", "-c", text],
            env=environment,
            cwd=tmp_path / "bin",
            check=False,
            timeout=DEADLINE_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ran = []
        for file in log.iterdir():  # one for each process: both ends of a pipe run at once
            ran.append(file.read_bytes().decode().removesuffix("\0"))
            file.unlink()
        believed = [
            "\0".join(words) for words, runs_it in zip(parsed.simple, runs, strict=True) if runs_it
        ]
        assert sorted(ran) == sorted(believed), text
    assert plain >= 200
