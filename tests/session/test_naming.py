"""Names of files and folders are those that pi gives."""

from pathlib import Path

import pytest

from pi_rpc.session.naming import (
    check_session_id,
    folder_name,
    new_session_id,
    session_directory,
    session_file_name,
    session_id_in,
    valid_session_id,
)


@pytest.mark.parametrize(
    ("cwd", "expected"),
    [
        ("/home/ada/app", "--home-ada-app--"),
        ("/", "----"),
        ("/a/../b/./c", "--b-c--"),
        ("/a b/c:d\\e.f", "--a b-c-d-e.f--"),
    ],
)
def test_a_folder_is_named_after_its_directory(cwd: str, expected: str) -> None:
    assert folder_name(cwd) == expected


def test_a_name_that_is_too_long_for_a_folder_is_cut_and_stays_unique() -> None:
    names = {folder_name("/" + "ü" * 200 + tail) for tail in ("a", "b")}
    assert len(names) == 2
    assert all(len(name.encode()) <= 255 for name in names)


def test_a_chosen_directory_has_no_folders_in_it() -> None:
    agent = Path("/agent")
    assert session_directory(agent, "/w") == Path("/agent/sessions/--w--")
    assert session_directory(agent, "/w", session_dir=Path("/all")) == Path("/all")


def test_a_file_is_named_after_time_and_id() -> None:
    name = session_file_name("my_id", "2026-01-02T03:04:05.678Z")
    assert name == "2026-01-02T03-04-05-678Z_my_id.jsonl"
    assert session_id_in(name) == "my_id"


@pytest.mark.parametrize("name", ["x.jsonl", "a_b.txt", "a_.jsonl", "a_-b.jsonl", "", "_"])
def test_a_name_without_an_id_has_none(name: str) -> None:
    assert session_id_in(name) is None


@pytest.mark.parametrize("session_id", ["a", "A1", "a.b_c-d", "0" * 200])
def test_good_ids_are_taken(session_id: str) -> None:
    assert valid_session_id(session_id)


@pytest.mark.parametrize(
    "session_id", ["", ".", "a.", "-a", "a b", "a/b", "../a", "ä", "a\n", "a\x00", "0" * 201]
)
def test_bad_ids_are_refused(session_id: str) -> None:
    assert not valid_session_id(session_id)


def test_ids_sort_by_the_time_they_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for milliseconds in (1, 1_000, 1_767_225_600_000, 1_767_225_600_001):
        monkeypatch.setattr("time.time_ns", lambda ms=milliseconds: ms * 1_000_000)
        made.append(check_session_id(new_session_id()))
    assert made == sorted(made)
    assert {session_id[14] for session_id in made} == {"7"}
    assert {session_id[19] for session_id in made} <= set("89ab")
