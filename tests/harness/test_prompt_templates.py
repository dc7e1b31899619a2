"""Prompt templates: which files are found, and the language of their arguments."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.harness._selection import Selection
from pi_rpc.harness.prompt_templates import (
    PromptTemplate,
    find_templates,
    parse_arguments,
    substitute,
)
from pi_rpc.harness.skills import Place


def _place(path: Path, *, named: bool = False) -> Place:
    return Place(path=path, scope="project", selection=Selection((), path), named=named)


def _found(*places: Place | Path) -> tuple[list[PromptTemplate], list[str]]:
    problems: list[str] = []
    all_places = [each if isinstance(each, Place) else _place(each) for each in places]
    return find_templates(all_places, problems), problems


def test_a_template_has_its_file_s_name_and_what_the_front_matter_says(tmp_path: Path) -> None:
    path = tmp_path / "review.md"
    path.write_text('---\ndescription: Reviews.\nargument-hint: "[focus]"\n---\n\nReview $1.\n')
    assert _found(tmp_path) == (
        [
            PromptTemplate(
                name="review",
                description="Reviews.",
                argument_hint="[focus]",
                body="Review $1.",
                path=path,
                scope="project",
            )
        ],
        [],
    )


@pytest.mark.parametrize(
    ("body", "description"),
    [
        ("\n  First line. \nSecond.", "First line."),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 60 + "..."),
        ("", ""),
        ("---\ndescription: ''\n---\nBody", "Body"),
    ],
)
def test_without_a_description_the_first_line_s_beginning_is_it(
    tmp_path: Path, body: str, description: str
) -> None:
    (tmp_path / "t.md").write_text(body)
    ((template,), problems) = _found(tmp_path)
    assert template.description == description
    assert template.argument_hint is None
    assert problems == []


def test_only_markdown_files_right_in_the_folder_count(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "folder.md").mkdir()
    for name in ("b.md", "a.md", "c.txt", ".hidden.md", "sub/d.md", "ignored.md"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("ignored.*\n")
    (tmp_path / "linked.md").symlink_to("sub/d.md")
    (tmp_path / "dead.md").symlink_to("nowhere")
    templates, problems = _found(tmp_path)
    assert [each.name for each in templates] == ["a", "b", "linked"]
    assert problems == []


def test_of_two_templates_with_one_name_the_first_place_wins(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.md").write_text(folder)
    templates, problems = _found(tmp_path / "a", tmp_path / "b", tmp_path / "a")
    assert [each.body for each in templates] == ["a"]
    first, second = tmp_path / "a" / "t.md", tmp_path / "b" / "t.md"
    assert problems == [f"{second}: a prompt template named t is already in {first}; ignored"]


def test_a_bad_template_is_named_and_the_others_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("---\na: b: c\n---\nBody")
    (tmp_path / "hint.md").write_text("---\nargument-hint: [focus]\n---\nBody")
    (tmp_path / "large.md").write_bytes(b"x" * (1024 * 1024 + 1))
    templates, problems = _found(tmp_path)
    assert [each.name for each in templates] == ["hint"]
    assert [each.split(": ")[0] for each in problems] == [
        str(tmp_path / name) for name in ("bad.md", "hint.md", "large.md")
    ]
    assert "argument-hint: " in problems[1]


def test_a_named_place_may_be_a_file_and_must_exist(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("x")
    (tmp_path / "t.txt").write_text("x")
    templates, problems = _found(
        *(_place(tmp_path / name, named=True) for name in ("t.md", "gone", "t.txt"))
    )
    assert [each.name for each in templates] == ["t"]
    assert problems == [
        f"{tmp_path / 'gone'}: named in prompts but does not exist; ignored",
        f"{tmp_path / 't.txt'}: named in prompts but is no Markdown file; ignored",
    ]
    assert _found(tmp_path / "gone") == ([], [])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", []),
        ("  \n\t ", []),
        ("a  b\nc", ["a", "b", "c"]),
        ('"a b" c', ["a b", "c"]),
        ("'a b' c", ["a b", "c"]),
        ("\"\" a ''", ["", "a", ""]),
        ("doesn't matter", ["doesn't", "matter"]),
        ('say "it" x"y z"', ["say", "it", 'x"y', 'z"']),
        (r'"the \"fast\" path"', ['the "fast" path']),
        (r'"a \n \\ b"', [r"a \n \\ b"]),
        (r"'it\'s' \"x", ["it's", r"\"x"]),
        ('"open end', ['"open', "end"]),
        ('\'open "closed one"', ["'open", "closed one"]),
        ('"a"b c', ["ab", "c"]),
        ('"a""b"', ['a"b"']),
        (r'"a\"', [r'"a\"']),
        ('"it\'s"', ["it's"]),
    ],
)
def test_arguments_are_split_with_quotes_at_their_beginning_only(
    text: str, arguments: list[str]
) -> None:
    assert parse_arguments(text) == arguments


@pytest.mark.parametrize(
    ("body", "arguments", "result"),
    [
        ("$1-$2-$3", ["a", "b"], "a-b-"),
        ("$0|$10", list("abcdefghij"), "|j"),
        ("$@ $ARGUMENTS", ["a", "b c"], "a b c a b c"),
        ("${1:-x} ${2:-y z} ${3:-}", ["", "b"], "x b "),
        ("${@:-none}|${ARGUMENTS:-none}", [], "none|none"),
        ("${@:-none}|${ARGUMENTS:-none}", ["a", "b"], "a b|a b"),
        ("${@:2}", ["a", "b", "c"], "b c"),
        ("${@:0}", ["a", "b"], "a b"),
        ("${@:1:2}|${@:2:0}|${@:9}", ["a", "b", "c"], "a b||"),
        ("$ARGUMENTSX $1st", ["a"], "aX ast"),
        ("$x ${x} $ ${1} $$1", ["a"], "$x ${x} $ ${1} $a"),
        ("${1:-$2}", ["", "b"], "$2"),
        ("$1 $2", ["$2", "$1"], "$2 $1"),
        ("$99999999999999999999|${@:99999999999999999999:9}", ["a"], "|"),
        ("${@:1:99999999999999999999}", ["a", "b"], "a b"),
        ("\u0661 $\u0661", ["a"], "\u0661 $\u0661"),
    ],
)
def test_placeholders_are_filled(body: str, arguments: list[str], result: str) -> None:
    assert substitute(body, arguments) == result


_TOKENS = st.sampled_from(
    ["$1", "$2", "$@", "$ARGUMENTS", "${1:-d}", "${@:2}", "${@:1:1}", "text", " ", "$", "}"]
)
_BODIES = st.lists(_TOKENS, max_size=8).map("".join)


@given(_BODIES, st.lists(_BODIES, max_size=3))
def test_values_are_never_looked_at_for_placeholders_again(body: str, values: list[str]) -> None:
    """Filling in words that hold no placeholder, and the values after it, must come out alike."""
    words = [f"\0{at}\0" if value else "" for at, value in enumerate(values)]
    expected = re.sub("\0([0-9]+)\0", lambda found: values[int(found[1])], substitute(body, words))
    assert substitute(body, values) == expected


@given(st.lists(st.text(alphabet="ab '\"\n$1@{}:-", min_size=0), max_size=5))
def test_quoted_arguments_come_out_as_they_went_in(values: list[str]) -> None:
    text = " ".join('"' + value.replace('"', '\\"') + '"' for value in values)
    assert parse_arguments(text) == values


@given(st.text(alphabet="ab \"'\\\n"))
def test_no_character_but_white_space_quotes_and_backslashes_is_lost(text: str) -> None:
    kept = "".join(parse_arguments(text))
    assert re.sub(r"[\s\"'\\]", "", kept) == re.sub(r"[\s\"'\\]", "", text)


def test_a_template_is_expanded_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("Look at ${1:-all} for ${@:2}.")
    ((template,), _) = _found(tmp_path)
    assert template.expanded('"a b" speed  "x $1"') == "Look at a b for speed x $1."
    assert template.expanded("") == "Look at all for ."
