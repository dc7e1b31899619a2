"""Front matter: where it begins and ends, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.harness.front_matter import FrontMatterError, parse_front_matter


@pytest.mark.parametrize(
    ("text", "keys", "body"),
    [
        ("---\na: 1\n---\n\nbody\n\n", {"a": 1}, "body"),
        ("--- \na: 1\n---  \nbody", {"a": 1}, "body"),
        ("---\n---\nbody", {}, "body"),
        ("---\n# nothing\n---\nbody", {}, "body"),
        ("---\na: 1\n---", {"a": 1}, ""),
        ("body\n---\na: 1\n---\n", {}, "body\n---\na: 1\n---\n"),
        ("---\na: 1\nbody\n", {}, "---\na: 1\nbody\n"),
        ("----\na: 1\n---\n", {}, "----\na: 1\n---\n"),
        ("---\na: 1\n----\n", {}, "---\na: 1\n----\n"),
        ("", {}, ""),
        ("---\na: |\n  x\n  y\nb: [1, 2]\n1: c\n---\n", {"a": "x\ny\n", "b": [1, 2]}, ""),
    ],
)
def test_it_stands_between_two_lines_of_dashes_at_the_top(
    text: str, keys: dict[str, object], body: str
) -> None:
    assert parse_front_matter(text) == (keys, body)


@pytest.mark.parametrize(
    "written",
    ["a: b: c", "- 1", "text", "a: [", "a: 2024-99-99", "a: *b", "[" * 5000, "a: \x07"],
    ids=["colons", "list", "scalar", "open", "date", "alias", "deep", "control"],
)
def test_what_is_no_mapping_is_refused_with_one_error(written: str) -> None:
    with pytest.raises(FrontMatterError):
        parse_front_matter(f"---\n{written}\n---\nbody")


def test_the_error_names_the_line_of_the_file() -> None:
    with pytest.raises(FrontMatterError, match=r"\(line 3\)"):
        parse_front_matter("---\na: 1\nb: c: d\n---\n")


def test_objects_of_python_are_not_made() -> None:
    with pytest.raises(FrontMatterError):
        parse_front_matter("---\na: !!python/object/apply:os.getcwd []\n---\n")


@given(st.text())
def test_no_text_fails_otherwise(text: str) -> None:
    for each in (text, f"---\n{text}\n---\n"):
        try:
            parse_front_matter(each)
        except FrontMatterError:
            continue
