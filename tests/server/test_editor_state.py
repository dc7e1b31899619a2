"""What ``editor/didChange`` says, and which files its URIs mean."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, Raw

from pi_rpc.server.editor import EditorState

URI = "file:///a/f.py"


def say(state: EditorState, **params: Any) -> None:
    state.take(Raw(json.dumps(params).encode()))


def open_in(state: EditorState, version: int, *, dirty: bool) -> None:
    say(state, openDocuments=[{"uri": URI, "version": version, "dirty": dirty}])


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b%20c/%C3%A9%25.py", "/a/b c/é%.py"),
        ("file:///a/é", "/a/é"),
        ("file://localhost/a", "/a"),
        ("file:/a/b", "/a/b"),
        ("FILE:///a#L3", "/a"),
        ("file:///a?x=1", "/a"),
        ("file:///a%23b%3F", "/a#b?"),
        ("file:///a/../b/./c", "/b/c"),
        ("file:///a%2Fb", "/a/b"),
        ("file:///bad%zz", "/bad%zz"),
        ("file:///caf%E9", os.fsdecode(b"/caf\xe9")),
    ],
)
def test_a_uri_names_the_file_that_its_bytes_name(uri: str, path: str) -> None:
    state = EditorState()
    say(state, openDocuments=[{"uri": uri, "version": 1, "dirty": True}])
    assert [each.path for each in state.open.values()] == [Path(path)]
    assert list(state.open) == [uri]


@pytest.mark.parametrize(
    "uri",
    [
        "untitled:Untitled-1",
        "git:/a/f.py",
        "file://host/share/f",
        "file:relative",
        "",
        "file:///%00",
    ],
)
def test_what_is_no_file_here_is_left_out(uri: str) -> None:
    state = EditorState()
    say(state, openDocuments=[{"uri": uri}, {"uri": URI}])
    assert list(state.open) == [URI]


def test_what_is_absent_is_as_it_was() -> None:
    state = EditorState()
    open_in(state, 1, dirty=True)
    say(state, activeDocument=URI)
    say(state, selection=None, diagnostics=[{"uri": URI, "diagnostics": []}])
    assert state.open[URI].dirty
    assert (state.said.active_document, state.said.selection) == (URI, UNSET)
    assert state.said.diagnostics == [{"uri": URI, "diagnostics": []}]
    say(state, openDocuments=[])
    assert state.open == {}


def test_what_cannot_be_read_changes_nothing_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = EditorState()
    open_in(state, 1, dirty=True)
    for wrong in ({"openDocuments": 5}, {"openDocuments": [{"version": 1}]}):
        say(state, **wrong)
    assert state.open[URI].dirty
    assert len(caplog.records) == 2


def test_an_edit_of_ours_makes_a_document_dirty_and_a_save_clean_again() -> None:
    state = EditorState()
    open_in(state, 1, dirty=False)
    state.edited(URI)
    assert state.open[URI].dirty
    state.saved(URI, 2)
    assert not state.open[URI].dirty
    state.edited("file:///closed")
    state.saved("file:///closed", 1)
    assert list(state.open) == [URI]


def test_news_from_before_a_save_that_come_after_it_do_not_count() -> None:
    state = EditorState()
    open_in(state, 1, dirty=False)
    state.edited(URI)
    state.saved(URI, 2)
    open_in(state, 2, dirty=True)  # sent when the edit was made
    assert not state.open[URI].dirty
    open_in(state, 3, dirty=True)  # the person goes on
    assert state.open[URI].dirty
    say(state, openDocuments=[])
    open_in(state, 1, dirty=True)  # opened anew, counted from the start
    assert state.open[URI].dirty
