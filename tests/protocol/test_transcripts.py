"""What a release has said, the daemon of today says too; and what is no such thing is noticed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.protocol.transcripts import (
    FOLDER,
    RELEASE,
    Comparison,
    Difference,
    record,
    replay,
    write_release,
)

FILES = sorted(FOLDER.glob("v1/*/*.jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_a_release_has_said_is_said_today(path: Path, tmp_path: Path) -> None:
    replay(path, tmp_path / "home")


def test_this_release_has_its_transcripts() -> None:
    assert RELEASE.is_dir(), "record them with make transcripts"


def test_transcripts_of_a_release_are_never_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "v1" / "9.9"
    write_release(folder, ["end"])
    before = (folder / "end.jsonl").read_bytes()
    with pytest.raises(FileExistsError):
        write_release(folder, ["lines"])
    assert [each.name for each in folder.iterdir()] == ["end.jsonl"]
    assert (folder / "end.jsonl").read_bytes() == before


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    text = record("lines", tmp_path_factory.mktemp("recorded") / "home")
    return [json.loads(each) for each in text.splitlines()]


def changed(lines: list[dict[str, Any]], change: Any, path: Path) -> Path:
    """A file with every frame of the daemon's changed."""
    path.write_text(
        "".join(
            json.dumps({**each, "daemon": change(each["daemon"])} if "daemon" in each else each)
            + "\n"
            for each in lines
        )
    )
    return path


def test_what_was_recorded_a_moment_ago_is_the_same(lines: Any, tmp_path: Path) -> None:
    replay(changed(lines, lambda frame: frame, tmp_path / "a.jsonl"), tmp_path / "home")


def without_field(frame: dict[str, Any]) -> dict[str, Any]:
    """As if a release had had a field that is gone today."""
    event = frame.get("params", {}).get("event", {})
    if event.get("type") == "agent_start":
        event["mood"] = "good"
    return frame


def without_answer(frame: dict[str, Any]) -> dict[str, Any]:
    """As if a release had answered something else."""
    if "disposition" in (frame.get("result") or {}):
        frame["result"]["disposition"] = "handled"
    return frame


def without_event(frame: dict[str, Any]) -> dict[str, Any]:
    """As if a release had had an event that is gone today."""
    event = frame.get("params", {}).get("event", {})
    if event.get("type") == "agent_start":
        event["type"] = "agent_woke"
    return frame


@pytest.mark.parametrize("change", [without_field, without_answer, without_event])
def test_a_daemon_that_says_less_or_something_else_is_noticed(
    change: Any, lines: Any, tmp_path: Path
) -> None:
    told = json.loads(json.dumps(lines))
    with pytest.raises(Difference):
        replay(changed(told, change, tmp_path / "a.jsonl"), tmp_path / "home")


SAME = [
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}]}),
    ({"methods": ["a", "c"]}, {"methods": ["a", "b", "c"]}),
    ({"methods": ["a", "…"]}, {"methods": ["a", "b"]}),
    ({"seq": 3}, {"seq": 4}),
    ({"message": "It failed"}, {"message": "It did not work"}),
    ({"models": [{"id": "x", "input": ["text"]}]}, {"models": [{"id": "y", "input": ["image"]}]}),
    ({"x": "0000000a", "y": "0000000a"}, {"x": "0000000b", "y": "0000000b"}),
    ({"cost": 0}, {"cost": 0.0}),
]
OTHER = [
    ({"a": 1}, {}),
    ({"a": None}, {}),
    ({"a": 1}, {"a": True}),
    ({"a": 1}, {"a": "1"}),
    ({"a": 1}, {"a": 2}),
    ({"a": "x"}, {"a": "y"}),
    ({"a": [1]}, {"a": [1, 2]}),
    ({"a": [1, 2]}, {"a": [2, 1]}),
    ({"methods": ["a", "b"]}, {"methods": ["b", "a"]}),
    ({"methods": ["a", "b"]}, {"methods": ["a"]}),
    ({"seq": 3}, {"seq": "3"}),
    ({"message": "It failed"}, {"message": 5}),
    ({"models": [{"id": "x"}]}, {"models": [{"name": "x"}]}),
    ({"models": [{"id": "x"}]}, {"models": []}),
    ({"x": "0000000a", "y": "0000000a"}, {"x": "0000000b", "y": "0000000c"}),
    ({"x": "run_00000000000a"}, {"x": "0000000b"}),
]


@pytest.mark.parametrize(("was", "now"), SAME)
def test_additions_and_what_is_for_people_are_no_difference(was: Any, now: Any) -> None:
    Comparison().check(was, now)


@pytest.mark.parametrize(("was", "now"), OTHER)
def test_what_is_gone_or_is_something_else_is_one(was: Any, now: Any) -> None:
    comparison = Comparison()
    with pytest.raises(Difference):
        comparison.check(was, now)
    assert comparison.ids == {}
