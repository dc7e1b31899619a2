"""Applying edits: matching rules, line endings, and texts a model can act on."""

from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pi_rpc.tools._edits import Edit, EditError, apply_edits
from pi_rpc.tools._fuzzy import FuzzyText, forgiving_forms
from pi_rpc.tools._passages import Passages


def edited(original: str, *edits: tuple[str, str]) -> str:
    return apply_edits(original, [Edit(old, new) for old, new in edits], "f.txt").text


def refusal(original: str, *edits: tuple[str, str]) -> str:
    with pytest.raises(EditError) as caught:
        edited(original, *edits)
    return str(caught.value)


# --- exact ---


def test_edits_match_the_original_and_not_each_others_results() -> None:
    assert edited("a b c", ("a", "b2"), ("b", "c2"), ("c", "a2")) == "b2 c2 a2"


def test_edits_may_come_in_any_order_and_touch() -> None:
    assert edited("one\ntwo\nthree\n", ("two\n", "2\n"), ("one\n", "1\n")) == "1\n2\nthree\n"


def test_an_edit_may_delete() -> None:
    assert edited("one\ntwo\nthree\n", ("two\n", "")) == "one\nthree\n"


def test_a_passage_that_occurs_twice_is_refused_with_its_lines() -> None:
    message = refusal("x = 1\ny\nx = 1\n", ("x = 1", "x = 2"))
    assert "oldText occurs 2 times in f.txt, at lines 1, 3. Add" in message
    assert "unique" in message


def test_occurrences_that_overlap_are_ambiguous_too() -> None:
    assert "occurs 2 times" in refusal("aaa", ("aa", "b"))


def test_a_passage_that_occurs_very_often_is_not_counted_to_the_end() -> None:
    message = refusal("a" * 5000, ("a", "b"))
    assert "1000 or more times" in message
    assert message.count("1,") <= 1


def test_a_passage_that_is_missing_is_refused_and_its_first_line_located() -> None:
    message = refusal("one\ntwo\nthree\n", ("two\nfour", "x"))
    assert "oldText was not found in f.txt" in message
    assert "first line is at line 2" in message
    assert "first line" not in refusal("one\n", ("two\nfour", "x"))


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_applied() -> None:
    message = refusal("a\na\nb\n", ("zzz", "x"), ("a", "x"), ("b", "c"))
    assert "edits[0].oldText was not found" in message
    assert "edits[1].oldText occurs 2 times" in message
    assert "edits[2]" not in message


def test_an_empty_passage_is_refused() -> None:
    assert "oldText is empty" in refusal("a", ("", "x"))
    assert "edits[1].oldText is empty" in refusal("a", ("a", "b"), ("", "x"))


def test_overlapping_passages_are_refused_by_name() -> None:
    assert "edits[0] and edits[2] overlap" in refusal(
        "abcdef", ("bcd", "x"), ("f", "y"), ("de", "z")
    )


def test_edits_that_change_nothing_are_refused() -> None:
    assert "newText is what the file already has" in refusal("abc", ("b", "b"))
    assert "every newText" in refusal("abc", ("b", "b"), ("c", "c"))


def test_one_edit_that_changes_nothing_is_fine_beside_one_that_does() -> None:
    assert edited("abc", ("b", "b"), ("c", "d")) == "abd"


# --- line endings and byte order mark ---


def test_a_byte_order_mark_stays_and_does_not_disturb_matching() -> None:
    assert edited("\ufeffone\ntwo\n", ("one\n", "1\n")) == "\ufeff1\ntwo\n"
    assert edited("\ufeffone\n", ("\ufeffone", "\ufeff1")) == "\ufeff1\n"
    assert edited("\ufeff\ufeffone\ntwo\n", ("two", "2")) == "\ufeff\ufeffone\n2\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_new_lines_get_the_files_ending(ending: str) -> None:
    original = f"one{ending}two{ending}three"
    assert edited(original, ("two", "2\n2b")) == f"one{ending}2{ending}2b{ending}three"
    assert edited(original, ("three", "3\r\n4\r5")) == original.replace(
        "three", f"3{ending}4{ending}5"
    )


def test_in_a_mixed_file_new_lines_get_the_ending_where_the_passage_begins() -> None:
    original = "one\r\ntwo\nthree\r\n"
    assert edited(original, ("one", "1\n1b")) == "1\r\n1b\r\ntwo\nthree\r\n"
    assert edited(original, ("two", "2\n2b")) == "one\r\n2\n2b\nthree\r\n"


def test_lines_that_an_edit_repeats_keep_their_own_endings() -> None:
    original = "one\r\ntwo\nthree\r\nfour\n"
    assert edited(original, ("one\ntwo\nthree\nfour\n", "one\ntwo\n3\nfour\n")) == (
        "one\r\ntwo\n3\r\nfour\n"
    )


_endings = st.sampled_from(["\n", "\r\n", "\r"])


@dataclass
class Case:
    original: str
    edits: list[Edit]
    expected: str


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    """Distinct words with mixed endings between them; runs of words are replaced."""
    bom = draw(st.sampled_from(["", "\ufeff"]))
    count = draw(st.integers(min_value=1, max_value=24))
    words = [f"<{index}é>" for index in range(count)]
    gaps = [draw(_endings | st.sampled_from([" ", "\t", ""])) for _ in words]
    replaced = [draw(st.booleans()) for _ in words]
    assume(any(replaced))
    original = bom + "".join(word + gap for word, gap in zip(words, gaps, strict=True))
    edits: list[Edit] = []
    expected = bom
    position, index = len(bom), 0
    while index < count:
        if not replaced[index]:
            expected += words[index] + gaps[index]
            position += len(words[index] + gaps[index])
            index += 1
            continue
        run = draw(st.integers(min_value=1, max_value=3))
        last = min(index + run, count) - 1
        old = "".join(words[i] + gaps[i] for i in range(index, last)) + words[last]
        lines = [f"[new {index} {n}]" for n in range(draw(st.integers(0, 3)))]
        ending = _ending_at(original, position)
        edits.append(Edit(_plain(old), draw(_endings).join(lines)))
        expected += ending.join(lines) + gaps[last]
        position += len(old) + len(gaps[last])
        index = last + 1
    return Case(original, draw(st.permutations(edits)), expected)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _ending_at(text: str, position: int) -> str:
    """Line by line, as slow as it is plain."""
    ending, start = "", 0
    for line in text.splitlines(keepends=True):
        own = line[len(line.rstrip("\r\n")) :]
        if own or not ending:
            ending = own or ending
        start += len(line)
        if position < start and own:
            return own
    return ending or "\n"


@given(_cases())
def test_untouched_text_stays_byte_for_byte_and_the_rest_is_as_asked(case: Case) -> None:
    result = apply_edits(case.original, case.edits, "f")
    assert result.text.encode() == case.expected.encode()
    assert not result.fuzzy
    rebuilt, position = "", 0
    for splice in result.splices:
        assert splice.start >= position
        rebuilt += case.original[position : splice.start] + splice.text
        position = splice.end
    assert rebuilt + case.original[position:] == result.text


# --- forgiving ---


@pytest.mark.parametrize(
    ("original", "old"),
    [
        ("say \u201chi\u201d now", 'say "hi" now'),
        ("it\u2019s", "it's"),
        ("a \u2014 b \u2212 c", "a - b - c"),
        ("a\u00a0b\u3000c", "a b c"),
        ("\uff46ull width", "full width"),
        ("line one   \nline two\t", "line one\nline two"),
        ("line one\nline two", "line one  \nline two  "),
        ("cafe\u0301", "café"),
        ("café", "cafe\u0301"),
        ('"plain"', "\u201cplain\u201d"),
    ],
)
def test_differences_that_models_make_are_forgiven(original: str, old: str) -> None:
    result = apply_edits(f"before\n{original}\nafter\n", [Edit(old, "new")], "f")
    assert result.text == "before\nnew\nafter\n"
    assert result.fuzzy


def test_only_the_passage_is_rewritten_when_an_edit_is_forgiven() -> None:
    original = (
        "\u201ckeep\u201d  \r\nx = \u201cone\u201d # \u201ckeep\u201d \u2026\r\nlast \u2014  \r\n"
    )
    assert edited(original, ('x = "one"', "x = 1\ny = 2")) == (
        "\u201ckeep\u201d  \r\nx = 1\r\ny = 2 # \u201ckeep\u201d \u2026\r\nlast \u2014  \r\n"
    )


def test_forgiven_and_exact_edits_go_together() -> None:
    original = "a = \u201c1\u201d\nb = 2   \nc = 3\n"
    assert edited(original, ('a = "1"', "a = 0"), ("c = 3", "c = 4")) == "a = 0\nb = 2   \nc = 4\n"


def test_what_looks_the_same_elsewhere_makes_an_exact_passage_ambiguous() -> None:
    message = refusal('x = \u201ca\u201d\nx = "a"\n', ('x = "a"', "y"))
    assert "occurs 2 times" in message
    assert "at lines 1, 2 (kinds of quotes" in message


def test_a_space_at_the_end_of_a_passage_counts_inside_a_line() -> None:
    assert edited("x = 1\nx =2\n", ("x = ", "y = ")) == "y = 1\nx =2\n"


def test_a_passage_of_white_space_is_only_matched_exactly() -> None:
    assert edited("a\n\t\nb\n", ("\t", "x")) == "a\nx\nb\n"
    assert "not found" in refusal("a\u00a0b", (" ", "x"))


def test_a_passage_that_ends_inside_one_character_rewrites_that_line_only() -> None:
    assert edited("one\nthe o\ufb03ce\u2026\ntwo\u2026\n", ("the of", "an of")) == (
        "one\nan office...\ntwo\u2026\n"
    )


def test_a_thousand_edits_fit_together_whatever_words_they_share() -> None:
    original = "".join(f"row {n} of the table\n" for n in range(5000))
    pairs = [(f"row {n} of the", f"line {n} of the") for n in range(0, 5000, 5)]
    pairs += [("row 4999 of the table\n", "")]
    expected = original
    for old, new in pairs:
        expected = expected.replace(old, new)
    assert edited(original, *pairs) == expected


def test_of_a_thousand_edits_that_do_not_fit_the_first_are_told_of() -> None:
    message = refusal("a\n", *((f"z{n}", "x") for n in range(1000)))
    assert "edits[19].oldText was not found" in message
    assert "edits[20]" not in message
    assert "may be more" in message


@given(
    st.text(alphabet="ab .\n", max_size=60),
    st.lists(st.text(alphabet="ab .\n", min_size=1, max_size=6), min_size=9, max_size=12),
)
def test_many_passages_are_found_where_one_is(text: str, wanted: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pi_rpc.tools._passages._FEW", 8)
        many = Passages(text, wanted)
    for passage in wanted:
        starts = [at for at in range(len(text)) if text.startswith(passage, at)]
        assert many.places(passage) == starts


_alphabet = st.sampled_from(
    [
        *"ab'\"- \t\n\n",
        *("\u201c", "\u2014", "\u00a0", "\u2026", "\ufb01"),
        *("é", "e\u0301", "\u0301"),
        *("\u1100", "\u1161"),  # parts of Hangul that compose
        "\U0001f600",
    ]
)
_texts = st.lists(_alphabet, max_size=30).map("".join)


@given(_texts, st.data())
def test_every_place_in_the_normal_form_leads_back_to_what_it_came_from(
    text: str, data: st.DataObject
) -> None:
    forgiving = FuzzyText(text)
    start = data.draw(st.integers(0, len(forgiving.normal)))
    end = data.draw(st.integers(start, len(forgiving.normal)))
    first, last, before, after = forgiving.original_span(start, end)
    assume(end > start)
    assert 0 <= first <= last <= len(text)
    # Cutting the passage out of the original is the same as cutting it out of the normal form.
    left = text[:first] + before + "\n|\n" + after + text[last:]
    wanted = forgiving.normal[:start] + "\n|\n" + forgiving.normal[end:]
    assert FuzzyText(left).normal == FuzzyText(wanted).normal


@given(_texts, _texts, _texts)
def test_a_forgiven_edit_leaves_all_other_lines_alone(before: str, old: str, after: str) -> None:
    original = f"{before}\n<<{old}>>\n{after}"
    wanted = FuzzyText(f"<<{old}>>").normal
    result = apply_edits(original, [Edit(wanted, "[new]")], "f")
    assert result.text == f"{before}\n[new]\n{after}"


@given(_texts)
def test_the_normal_form_is_reached_in_one_step(text: str) -> None:
    normal = FuzzyText(text).normal
    assert FuzzyText(normal).normal == normal


def test_a_line_of_combining_marks_is_not_sorted_for_minutes() -> None:
    marks = "a" + "\u0301\u0327" * 200_000
    assert FuzzyText(marks + "\u201c").normal == marks + '"'


def test_forms_to_look_for_start_with_the_closest() -> None:
    assert forgiving_forms("a \nb ") == ["a\nb ", "a\nb"]
    assert forgiving_forms("a\nb\n") == ["a\nb\n"]
    assert forgiving_forms(" \n\t") == []
