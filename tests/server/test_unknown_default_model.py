"""A default session cannot begin with a model that does not exist; whatever needs it says so."""

import json
from pathlib import Path
from typing import Any

from msgspec.structs import fields

from pi_rpc.protocol.methods import METHODS
from tests.server.wire import wire

GOLDEN = Path(__file__).parents[1] / "golden"
ABOUT_A_SESSION = {
    name: method
    for name, method in METHODS.items()
    if method.sender == "client"
    and method.is_request
    and method.params is not None
    and "sessionId" in method.params.__struct_encode_fields__
}
NAMED_OTHERWISE = {"session/open", "session/close", "session/delete"}
"""They say which session they mean."""


def least_params(name: str) -> dict[str, Any]:
    """The fields of a request's params that must be there."""
    params = METHODS[name].params
    assert params is not None
    golden = json.loads((GOLDEN / f"{params.__name__}.json").read_text(encoding="utf-8"))
    required = [each.encode_name for each in fields(params) if each.required]
    return {name: golden[name] for name in required}


def test_every_request_about_the_default_session_is_answered_as_its_row_says(
    tmp_path: Path,
) -> None:
    with wire(tmp_path, (), "--model", "nobody/nothing") as client:
        for name in sorted(set(ABOUT_A_SESSION) - NAMED_OTHERWISE):
            answer = client.answer(client.say(name, least_params(name)))
            assert answer["error"]["data"]["kind"] == "modelNotFound", name
            assert "modelNotFound" in METHODS[name].errors, name


def test_a_request_that_begins_no_session_is_not_said_to_need_a_model() -> None:
    for name in ("session/close", "session/delete", "session/list", "model/list"):
        assert "modelNotFound" not in METHODS[name].errors, name
