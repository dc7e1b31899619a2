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


LAUGHS = "\n".join(
    ["a0: &a0 [1]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    + ["description: *a11"]
)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (LAUGHS, r"\(line 2\): aliases and anchors are not supported"),
        ("a: 1\nb: &b text", r"\(line 3\): aliases and anchors are not supported"),
        ("a: &a [*a]", "aliases and anchors are not supported"),
        ("a: *b", "aliases and anchors are not supported"),
        ("a: " + "[" * 50_000, "nested more than 32 levels deep"),
        ("a: " + "{b: " * 10_000, "nested more than 32 levels deep"),
        ("- " * 20_000, "nested more than 32 levels deep"),
        ("a: [" + "1," * 30_000 + "]", "more than 2000 values"),
        ("a: " + "b" * 65_536, "longer than 65536 characters"),
        ("a: !!bool maybe", "a value that is none of its kind"),
        ('a: !!int ""', "a value that is none of its kind"),
        ("a: !!timestamp x", "a value that is none of its kind"),
        ("a: 1" + ":10" * 300 + ".5", "a value that is none of its kind"),
    ],
)
def test_what_would_cost_much_to_read_is_refused_with_its_reason(written: str, reason: str) -> None:
    with pytest.raises(FrontMatterError, match=reason):
        parse_front_matter(f"---\n{written}\n---\nbody")


def test_as_many_levels_as_people_write_are_read() -> None:
    keys, _ = parse_front_matter("---\na: " + "[" * 30 + "x" + "]" * 30 + "\n---\n")
    value = keys["a"]
    while isinstance(value, list):
        (value,) = value
    assert value == "x"
