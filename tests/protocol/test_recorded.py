"""The exchanges that the document shows are what the daemon says today.

``PI_RPC_RECORD=1`` writes them anew instead.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pi_rpc.protocol.errors import COMMON_ERRORS, ERRORS
from pi_rpc.protocol.methods import METHODS
from pi_rpc.protocol.notifications import AgentEventParams
from tests.protocol.daemon_process import ROOT
from tests.protocol.exchanges import EXCHANGES
from tests.protocol.recorder import (
    ELISION,
    Placeholders,
    as_headers,
    as_lines,
    block,
    block_names,
    with_block,
)

PATH = ROOT / "protocol.md"
DOCUMENT = PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXCHANGES)
def test_an_exchange_of_the_document_is_what_the_daemon_says(name: str, tmp_path: Path) -> None:
    said = EXCHANGES[name].record(tmp_path / "home")
    text = as_headers(said) if name == "headers" else as_lines(said)
    if os.environ.get("PI_RPC_RECORD"):
        document = PATH.read_text(encoding="utf-8")
        PATH.write_text(with_block(document, name, text), encoding="utf-8")
        return
    assert block(DOCUMENT, name) == text, "if this is meant, record it anew with PI_RPC_RECORD=1"


def test_every_marker_has_an_exchange_and_every_exchange_a_marker() -> None:
    assert sorted(block_names(DOCUMENT)) == sorted(EXCHANGES)


def test_a_document_without_a_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="recorded:gone"):
        with_block(DOCUMENT, "gone", "")


def test_placeholders_keep_apart_what_is_apart_and_together_what_is_the_same() -> None:
    places = Placeholders(Path("/tmp/x"), lists={"models": 1}, texts={"description": 3})
    said = {
        "entryId": "0a1b2c3d",
        "parentId": "ffffffff",
        "again": "0a1b2c3d",
        "uri": "file:///tmp/x/engine",
        "timestamp": 1796035958032,
        "models": ["a", "b"],
        "description": "long",
        "isError": False,
    }
    assert places.of(said) == {
        "entryId": "00000001",
        "parentId": "00000002",
        "again": "00000001",
        "uri": "file:///home/ada/engine",
        "timestamp": 1767225600000,
        "models": ["a", ELISION],
        "description": "lon" + ELISION,
        "isError": False,
    }


# --- what is shown keeps to the tables ----------------------------------------------------------


def frames(name: str) -> list[tuple[str, dict[str, Any]]]:
    """The frames of an exchange: who sends, and what."""
    shown = block(DOCUMENT, name)
    if name != "headers":
        return [(line[0], json.loads(line[2:])) for line in shown.splitlines()]
    found = re.findall(r"^([→←]) Content-Length: (\d+)\n\n(.*)$", shown, re.MULTILINE)
    assert all(len(body.encode()) == int(length) for _, length, body in found)
    return [(sender, json.loads(body)) for sender, _, body in found]


def whole(value: Any) -> Any:
    """A value without the marks of what was left out."""
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    return [whole(each) for each in value if each != ELISION] if isinstance(value, list) else value


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_frames_of_an_exchange_are_what_the_tables_say(name: str) -> None:
    # By who has asked.
    asked: dict[str, dict[Any, str]] = {"→": {}, "←": {}}
    for sender, frame in frames(name):
        assert frame.pop("jsonrpc") == "2.0"
        if "method" not in frame:
            check_answer(asked["→" if sender == "←" else "←"].pop(frame["id"]), frame)
            continue
        if "id" in frame:
            asked[sender][frame["id"]] = frame["method"]
        if (method := METHODS.get(frame["method"])) is None:
            assert sender == "→"
            continue
        # Either side cancels what it has asked.
        if method.name != "$/cancelRequest":
            assert sender == ("←" if method.sender == "daemon" else "→")
        assert method.is_request == ("id" in frame)
        if method.params is not None and not is_refused(name, frame.get("id")):
            msgspec.json.decode(json.dumps(whole(frame.get("params", {}))), type=method.params)
    assert asked["→"] == {}
    resolved = {
        frame["params"]["id"]
        for sender, frame in frames(name)
        if (sender, frame.get("method")) == ("←", "$/cancelRequest")
    }
    assert set(asked["←"]) == resolved


def check_answer(asked: str, frame: dict[str, Any]) -> None:
    """An answer fits the row of the method that was asked."""
    if "error" in frame:
        own = METHODS[asked].errors if asked in METHODS else ()
        kind = frame["error"]["data"]["kind"]
        assert kind in (*own, *COMMON_ERRORS)
        assert frame["error"]["code"] == ERRORS[kind].code
        assert set(frame["error"]["data"]) - {"kind"} <= set(ERRORS[kind].fields)
    elif frame["result"] is None and METHODS[asked].sender == "daemon":
        pass  # Clients may answer so: nothing was chosen.
    elif METHODS[asked].result is None:
        assert frame["result"] is None
    else:
        msgspec.json.decode(json.dumps(whole(frame["result"])), type=METHODS[asked].result)


def is_refused(name: str, number: Any) -> bool:
    """The request is one that shows what wrong params are answered with."""
    answers = [frame for sender, frame in frames(name) if sender == "←" and "error" in frame]
    return any(
        frame["id"] == number and frame["error"]["data"]["kind"] == "invalidParams"
        for frame in answers
    )


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_events_of_an_exchange_are_numbered_without_a_gap(name: str) -> None:
    numbers: dict[str, list[int]] = {}
    for _, frame in frames(name):
        if frame.get("method") == "agent/event":
            event = msgspec.convert(frame["params"], AgentEventParams)
            numbers.setdefault(event.session_id, []).append(event.seq)
    for each in numbers.values():
        assert each == list(range(1, len(each) + 1))


def test_every_method_is_shown_in_the_exchange_that_its_row_names() -> None:
    used = {
        name: {frame["method"] for _, frame in frames(name) if "method" in frame}
        for name in EXCHANGES
    }
    for name, method in METHODS.items():
        assert name in used[method.exchange], name
