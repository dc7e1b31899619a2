"""Prompts larger than any model reads are refused, so that no event is larger than a frame."""

from pathlib import Path
from typing import Any

import pytest

from pi_rpc.jsonrpc.framing import MAX_FRAME_BYTES
from tests.server.wire import wire

MOST_CHARACTERS = 4 * 1024 * 1024
MOST_IMAGE_BYTES = 32 * 1024 * 1024


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("prompt", {"message": "\ufffd" * (MOST_CHARACTERS + 1)}, "message"),
        (
            "steer",
            {"message": [{"type": "text", "text": "a" * (MOST_CHARACTERS // 2 + 1)}] * 2},
            "message",
        ),
        (
            "followUp",
            {
                "message": "look",
                "images": [
                    {
                        "type": "image",
                        "mimeType": "image/png",
                        "data": "A" * (MOST_IMAGE_BYTES // 2 + 4),
                    }
                ]
                * 2,
            },
            "images",
        ),
    ],
    ids=["characters", "blocks", "images"],
)
def test_what_no_model_could_read_is_refused_and_nothing_begins(
    tmp_path: Path, method: str, params: dict[str, Any], path: str
) -> None:
    with wire(tmp_path) as client:
        session = client.ask("session/new")["sessionId"]
        refusal = client.answer(client.say(method, {"sessionId": session, **params}))["error"]
        assert refusal["data"] == {"kind": "invalidParams", "path": path}
        assert refusal["message"].startswith(f"{path}: expected at most ")
        assert client.ask("session/state", {"sessionId": session})["phase"] == "idle"
        assert not client.events("agent_start")


def test_the_longest_prompt_is_announced_in_frames_that_fit(tmp_path: Path) -> None:
    longest = "\x01" * MOST_CHARACTERS
    with wire(tmp_path, [[{"text": "ok"}]]) as client:
        session = client.ask("session/new")["sessionId"]
        told = client.ask("prompt", {"sessionId": session, "message": longest})
        assert told["text"] == "ok"
        (said,) = (
            each["message"]
            for each in client.events("message_end")
            if each["message"]["role"] == "user"
        )
        assert len(str(said)) > MOST_CHARACTERS
    assert 6 * MOST_CHARACTERS < MAX_FRAME_BYTES / 2
