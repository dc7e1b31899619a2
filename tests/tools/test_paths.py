"""Path arguments: every rule of how their text becomes a path."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.agent.ports import PortError
from pi_rpc.tools._paths import (
    display_path,
    display_text,
    file_uri,
    locations_of,
    resolve_path,
    spellings_on_disk,
    title_path,
)

CWD = Path("/srv/project")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.txt", "/srv/project/a.txt"),
        ("./a/../b.txt", "/srv/project/b.txt"),
        ("../other", "/srv/other"),
        ("/etc/hosts", "/etc/hosts"),
        ("//etc/hosts", "/etc/hosts"),
        ("@src/a.py", "/srv/project/src/a.py"),
        ("@@types/node", "/srv/project/@types/node"),
        ("@/etc/hosts", "/etc/hosts"),
        ("~x", "/srv/project/~x"),
        ("a\u00a0b\u2003c\u202fd\u205fe\u3000f", "/srv/project/a b c d e f"),
        ("file:///tmp/a%20b", "/tmp/a b"),
        ("file://localhost/tmp/a", "/tmp/a"),
        ("FILE:/tmp/a", "/tmp/a"),
        ("@file:///tmp/%C3%A9", "/tmp/é"),
        (".", "/srv/project"),
        ("dir/", "/srv/project/dir"),
    ],
)
def test_text_becomes_an_absolute_path(text: str, path: str) -> None:
    assert str(resolve_path(text, CWD)) == path


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(resolve_path("~", CWD)) == "/home/someone"
    assert str(resolve_path("~/a", CWD)) == "/home/someone/a"
    assert str(resolve_path("@~/a", CWD)) == "/home/someone/a"


def test_bytes_that_are_no_unicode_survive_a_url() -> None:
    assert os.fsencode(resolve_path("file:///tmp/%FF", CWD)) == b"/tmp/\xff"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("@", "empty"),
        ("a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("a\ud800b", "no file name can have"),
        ("file://server/share", "not a file of this machine"),
        ("file:relative", "not a file of this machine"),
        ("file://[", "not a valid file URL"),
    ],
)
def test_what_cannot_be_a_path_is_refused_in_printable_words(text: str, says: str) -> None:
    with pytest.raises(PortError, match=says) as caught:
        resolve_path(text, CWD)
    caught.value.message.encode()
    assert "\0" not in caught.value.message


def test_other_spellings_come_in_the_order_in_which_they_are_tried() -> None:
    path = Path("/d/L'été at 10.00 AM.png")
    assert [str(other) for other in spellings_on_disk(path)] == [
        "/d/L'été at 10.00\u202fAM.png",
        "/d/L'e\u0301te\u0301 at 10.00 AM.png",
        "/d/L\u2019été at 10.00 AM.png",
        "/d/L\u2019e\u0301te\u0301 at 10.00 AM.png",
    ]
    assert spellings_on_disk(Path("/d/plain.txt")) == []


def test_paths_are_shown_as_a_person_would_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert display_path(Path("/srv/project/src/a.py"), CWD) == "src/a.py"
    assert display_path(CWD, CWD) == "."
    assert display_path(Path("/home/someone/a"), CWD) == "~/a"
    assert display_path(Path("/srv/projects/a"), CWD) == "/srv/projects/a"


@given(st.text())
def test_shown_text_is_one_printable_line(text: str) -> None:
    shown = display_text(text)
    assert shown.isprintable()
    shown.encode()


@given(st.text() | st.none() | st.integers())
def test_titles_and_locations_take_whatever_a_model_gave(text: object) -> None:
    assert title_path(text, CWD).isprintable()
    for location in locations_of(text, CWD):
        assert location.uri.startswith("file:///")


def test_uris_escape_what_needs_it() -> None:
    assert file_uri(Path("/tmp/a b#é")) == "file:///tmp/a%20b%23%C3%A9"
    assert file_uri(Path(os.fsdecode(b"/tmp/\xff"))) == "file:///tmp/%FF"


def test_without_a_working_directory_only_absolute_paths_have_locations() -> None:
    assert locations_of("a.txt", None) == ()
    assert [place.uri for place in locations_of("/tmp/a", None)] == ["file:///tmp/a"]
    assert title_path("a.txt", None) == "a.txt"
