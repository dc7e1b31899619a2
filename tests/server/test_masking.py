"""No credential reaches what is recorded, however it is written."""

import json
from typing import Any

import pytest

from pi_rpc.doors.masking import MASK, Masks

KEY = "sk-ant-0123456789"
ODD = 'pass"word\\/ä9'


def frame(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}, ensure_ascii=False).encode()


@pytest.mark.parametrize("key", [KEY, ODD])
def test_a_value_that_was_resolved_is_taken_out_of_frames_both_ways(key: str) -> None:
    known: set[str] = set()
    masks = Masks(lambda: tuple(known))
    said = {"text": f"the key is {key}, really", "other": [key, 5, None, {key: "name"}]}
    before = frame(id=1, result=said)
    assert masks.sent(before) == before
    known.add(key)
    for masked in (masks.sent(before), masks.came(before)):
        result = json.loads(masked)["result"]
        assert result["text"] == f"the key is {MASK}, really"
        assert result["other"][:3] == [MASK, 5, None]
    # As a client may write it.
    escaped = "".join(f"\\u{ord(each):04x}" for each in key)
    came = masks.came(b'{"method":"x","params":{"query":"' + escaped.encode() + b'"}}')
    assert json.loads(came)["params"] == {"query": MASK}
    assert key not in masks.text(f"it was {key}")


@pytest.mark.parametrize(
    "params",
    [
        {"provider": "openai", "apiKey": KEY},
        {"provider": "openai", "apiKey": {"nested": KEY}},
        {"provider": "openai", "apiKeyCommand": f"echo {KEY}"},
        ["openai", KEY],
        KEY,
    ],
)
def test_nothing_of_a_key_that_is_set_is_shown(params: Any) -> None:
    masks = Masks()
    masked = masks.came(frame(id=1, method="auth/set", params=params))
    assert KEY.encode() not in masked
    assert json.loads(masked)["method"] == "auth/set"


def test_a_key_that_was_set_is_known_again() -> None:
    masks = Masks()
    masks.came(frame(id=1, method="auth/set", params={"provider": "openai", "apiKey": KEY}))
    assert masks.sent(frame(method="x", params={"text": f"<{KEY}>"})) == (
        b'{"jsonrpc":"2.0","method":"x","params":{"text":"<***>"}}'
    )


def test_the_field_of_a_key_is_masked_wherever_it_is() -> None:
    masked = Masks().came(frame(id=1, method="auth/Set", params={"apiKey": "short"}))
    assert json.loads(masked)["params"] == {"apiKey": MASK}


@pytest.mark.parametrize(
    "broken",
    [
        f'{{"id":1,"method":"auth/set","params":{{"apiKey":"{KEY}"'.encode(),
        f'{{"id":1,"method":"auth/set","params":{{"apiKey":"{KEY}","x":"\\ud800"}}}}'.encode(),
    ],
)
def test_a_frame_that_cannot_be_read_shows_no_key(broken: bytes) -> None:
    assert KEY.encode() not in Masks().came(broken)


@pytest.mark.parametrize("answer", [b'"value":"hunter2-hunter2"', b'"value":"hunter2\\ud800"'])
def test_the_answer_to_a_secret_question_is_not_shown_and_known_again(answer: bytes) -> None:
    masks = Masks()
    masks.sent(
        b'{"jsonrpc":"2.0","id":"d1","method":"ui/input","params":{"requestId":"q1","title":"?",'
        b'"secret":true}}'
    )
    came = masks.came(b'{"jsonrpc":"2.0","id":"d1","result":{' + answer + b"}}")
    assert b"hunter2" not in came
    if b"ud800" not in answer:
        assert b"hunter2" not in masks.sent(frame(method="x", params=["hunter2-hunter2"]))


def test_other_answers_and_words_that_are_no_keys_stay() -> None:
    masks = Masks(lambda: ("ollama",))
    masks.sent(b'{"jsonrpc":"2.0","id":"d1","method":"ui/input","params":{"title":"name?"}}')
    for each in (
        frame(id="d1", result={"value": "Ada Lovelace"}),
        frame(method="x", params={"provider": "ollama"}),
    ):
        assert masks.came(each) == each
