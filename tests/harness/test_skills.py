"""Skills: which files are found, what is said of bad ones, and what the model is told."""

import os
from pathlib import Path

import pytest

from pi_rpc.harness._selection import Selection
from pi_rpc.harness.skills import (
    Place,
    Skill,
    find_skills,
    skill_invocation,
    skill_listing,
)


def _place(path: Path, **options: bool) -> Place:
    return Place(path=path, scope="user", selection=Selection((), path), **options)


def _write(path: Path, name: str | None = None, description: str | None = "Does it.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"name: {name}"] if name else []
    lines += [f"description: {description}"] if description else []
    path.write_text("\n".join(["---", *lines, "---", "Do it well."]))
    return path


def _found(*places: Path | Place) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    all_places = [each if isinstance(each, Place) else _place(each) for each in places]
    return [skill.name for skill in find_skills(all_places, problems)], problems


def test_a_skill_is_a_folder_with_its_file_at_any_depth(tmp_path: Path) -> None:
    path = _write(tmp_path / "group" / "pdf" / "SKILL.md", "pdf", "Reads PDF files.")
    problems: list[str] = []
    (skill,) = find_skills([_place(tmp_path)], problems)
    assert skill == Skill(name="pdf", description="Reads PDF files.", path=path, scope="user")
    assert skill.folder == path.parent
    assert problems == []


def test_nothing_below_a_skill_is_searched(tmp_path: Path) -> None:
    _write(tmp_path / "outer" / "SKILL.md", "outer")
    _write(tmp_path / "outer" / "inner" / "SKILL.md", "inner")
    assert _found(tmp_path) == (["outer"], [])


def test_the_place_itself_may_be_a_skill(tmp_path: Path) -> None:
    _write(tmp_path / "SKILL.md", "whole")
    _write(tmp_path / "sub" / "SKILL.md", "sub")
    assert _found(tmp_path) == (["whole"], [])


def test_without_a_name_the_folder_s_counts_and_that_of_a_loose_file(tmp_path: Path) -> None:
    _write(tmp_path / "of-folder" / "SKILL.md")
    _write(tmp_path / "of-file.md")
    assert _found(tmp_path) == (["of-file", "of-folder"], [])


def test_loose_files_count_only_at_the_top_and_only_with_a_description(tmp_path: Path) -> None:
    _write(tmp_path / "top.md", "top")
    _write(tmp_path / "sub" / "below.md", "below")
    (tmp_path / "README.md").write_text("# What this is")
    (tmp_path / "broken.md").write_text("---\na: b: c\n---\n")
    _write(tmp_path / "mute.md", "mute", None)
    assert _found(tmp_path) == (["top"], [])
    assert _found(_place(tmp_path, loose_files=False)) == ([], [])


@pytest.mark.parametrize("folder", [".hidden", "node_modules", ".git"])
def test_hidden_folders_and_dependencies_are_not_searched(tmp_path: Path, folder: str) -> None:
    _write(tmp_path / folder / "a" / "SKILL.md", "hidden")
    assert _found(tmp_path) == ([], [])


@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".fdignore"])
def test_ignore_files_are_honoured_where_they_lie_and_below(tmp_path: Path, name: str) -> None:
    for skill in ("kept", "drafts/one", "sub/drafts/two", "sub/tmp-x", "sub/tmp-y"):
        _write(tmp_path / skill / "SKILL.md", skill.replace("/", "-"))
    (tmp_path / name).write_text("# comment\n/drafts/\n")
    (tmp_path / "sub" / name).write_text("tmp-*\n!tmp-y\n")
    assert _found(tmp_path) == (["kept", "sub-drafts-two", "sub-tmp-y"], [])


def test_an_ignored_skill_file_does_not_stop_the_search_below(tmp_path: Path) -> None:
    _write(tmp_path / "a" / "SKILL.md", "outer")
    _write(tmp_path / "a" / "b" / "SKILL.md", "inner")
    (tmp_path / ".ignore").write_text("/a/SKILL.md\n")
    assert _found(tmp_path) == (["inner"], [])


def test_links_are_followed_and_circles_end(tmp_path: Path) -> None:
    _write(tmp_path / "elsewhere" / "tool" / "SKILL.md", "tool")
    place = tmp_path / "place"
    place.mkdir()
    (place / "linked").symlink_to(tmp_path / "elsewhere")
    (place / "loop").symlink_to(place)
    (tmp_path / "elsewhere" / "back").symlink_to(place)
    (place / "self").symlink_to("self")
    (place / "dead.md").symlink_to("nowhere")
    assert _found(place) == (["tool"], [])


def test_a_file_that_is_reached_twice_is_one_skill(tmp_path: Path) -> None:
    _write(tmp_path / "a" / "x" / "SKILL.md", "x")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert _found(tmp_path / "a", tmp_path / "b") == (["x"], [])


def test_of_two_skills_with_one_name_the_first_place_wins_and_the_other_is_named(
    tmp_path: Path,
) -> None:
    first = _write(tmp_path / "a" / "x" / "SKILL.md", "same", "First.")
    second = _write(tmp_path / "b" / "x" / "SKILL.md", "same", "Second.")
    names, problems = _found(tmp_path / "a", tmp_path / "b")
    assert names == ["same"]
    assert problems == [f"{second}: a skill named same is already in {first}; ignored"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("no front matter", "a description is required; ignored"),
        ("---\nname: x\n---\n", "a description is required; ignored"),
        ("---\ndescription: '  '\n---\n", "a description is required; ignored"),
        ("---\ndescription: 5\n---\n", "description: Input should be a valid string; ignored"),
        ("---\ndescription: a: b\n---\n", "the front matter is not valid YAML (line 2)"),
        ("---\n- a\n---\n", "the front matter must hold keys and values; ignored"),
        ("x" * (1024 * 1024 + 1), "larger than 1024 KiB; ignored"),
    ],
    ids=["none", "missing", "blank", "number", "yaml", "list", "large"],
)
def test_a_bad_skill_is_named_and_not_loaded_and_the_others_are(
    tmp_path: Path, text: str, complaint: str
) -> None:
    _write(tmp_path / "good" / "SKILL.md", "good")
    bad = tmp_path / "bad" / "SKILL.md"
    bad.parent.mkdir()
    bad.write_text(text)
    names, problems = _found(tmp_path)
    assert names == ["good"]
    assert len(problems) == 1
    assert problems[0].startswith(f"{bad}: {complaint}")


@pytest.mark.parametrize(
    "name", ["Upper", "under_score", "-front", "back-", "two--hyphens", "n" * 65]
)
def test_a_name_against_the_rules_is_loaded_and_complained_of(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / "s" / "SKILL.md", name)
    names, problems = _found(tmp_path)
    assert names == [name]
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}: the name ")


def test_a_long_description_is_loaded_and_complained_of(tmp_path: Path) -> None:
    _write(tmp_path / "ok" / "SKILL.md", "ok", "d" * 1024)
    path = _write(tmp_path / "s" / "SKILL.md", "s", "d" * 1025)
    assert _found(tmp_path) == (
        ["ok", "s"],
        [f"{path}: the description is longer than 1024 characters (1025)"],
    )


def test_a_key_that_does_not_fit_is_named_and_the_skill_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "s" / "SKILL.md"
    path.parent.mkdir()
    path.write_text(
        "---\nname: 5\ndescription: d\ndisable-model-invocation: maybe\nlicense: [x]\n---\n"
    )
    names, problems = _found(tmp_path)
    assert names == ["s"]
    assert [each.split(": ")[1] for each in problems] == ["name", "disable-model-invocation"]


def test_a_named_place_that_is_missing_or_no_markdown_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    _, problems = _found(
        _place(tmp_path / "gone", named=True), _place(tmp_path / "x.txt", named=True)
    )
    assert problems == [
        f"{tmp_path / 'gone'}: named in skills but does not exist; ignored",
        f"{tmp_path / 'x.txt'}: named in skills but is no Markdown file; ignored",
    ]
    assert _found(tmp_path / "gone") == ([], [])


def test_a_named_file_is_a_skill_and_must_be_a_good_one(tmp_path: Path) -> None:
    good, bad = _write(tmp_path / "a.md", "a"), _write(tmp_path / "b.md", "b", None)
    assert _found(_place(good, named=True), _place(bad, named=True)) == (
        ["a"],
        [f"{bad}: a description is required; ignored"],
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    path = _write(tmp_path / "s" / "SKILL.md", "s")
    path.chmod(0)
    assert _found(tmp_path) == (
        [],
        [
            f"{tmp_path / 'closed'}: cannot be read: Permission denied; ignored",
            f"{path}: cannot be read: Permission denied; ignored",
        ],
    )
    (tmp_path / "closed").chmod(0o700)


def test_a_link_to_a_whole_disk_is_not_walked_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pi_rpc.harness.skills._MAX_FOLDERS", 5)
    for at in range(20):
        _write(tmp_path / f"s{at:02}" / "SKILL.md")
    names, problems = _found(tmp_path)
    assert names == ["s00", "s01", "s02", "s03"]
    assert problems == [f"{tmp_path}: more than 5 folders; the rest is not searched"]


_SKILLS = [
    Skill(name="a&b", description='<Do> "it"', path=Path("/s/a's/SKILL.md"), scope="user"),
    Skill(
        name="quiet",
        description="d",
        path=Path("/s/q/SKILL.md"),
        scope="user",
        disable_model_invocation=True,
    ),
]


def test_the_listing_is_escaped_and_leaves_out_what_only_people_may_call_up() -> None:
    listing = skill_listing(_SKILLS, ["bash", "read"])
    assert "<name>a&amp;b</name>" in listing
    assert "<description>&lt;Do&gt; &quot;it&quot;</description>" in listing
    assert "<location>/s/a&#x27;s/SKILL.md</location>" in listing
    assert "quiet" not in listing


@pytest.mark.parametrize(
    ("tools", "reader"), [(["bash", "read"], "with read"), (["bash", "edit"], "with bash")]
)
def test_the_listing_says_with_which_tool_to_read(tools: list[str], reader: str) -> None:
    assert reader in skill_listing(_SKILLS, tools)


def test_nothing_is_listed_when_no_tool_can_read_or_no_skill_is_for_the_model() -> None:
    assert skill_listing(_SKILLS, ["edit", "write"]) == ""
    assert skill_listing(_SKILLS[1:], ["read"]) == ""


def test_an_invocation_is_the_body_in_a_tag_and_then_the_arguments(tmp_path: Path) -> None:
    path = _write(tmp_path / "s" / "SKILL.md", "s")
    (skill,) = find_skills([_place(tmp_path)], [])
    text = (
        f'<skill name="s" location="{path}">\n'
        f"References are relative to {path.parent}.\n\nDo it well.\n</skill>"
    )
    assert skill_invocation(skill) == text
    assert skill_invocation(skill, "  now, please ") == f"{text}\n\nnow, please"


def test_an_invocation_reads_the_file_as_it_is_now(tmp_path: Path) -> None:
    path = _write(tmp_path / "s" / "SKILL.md", "s")
    (skill,) = find_skills([_place(tmp_path)], [])
    path.write_text("---\nbroken: [\n---\nChanged.")
    assert "\n\nChanged.\n</skill>" in skill_invocation(skill)
