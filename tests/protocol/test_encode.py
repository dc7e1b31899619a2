"""Writing JSON for the wire."""

import json

from pi_rpc.agent.events import Diagnostic
from pi_rpc.agent.messages import OpaqueMessage
from pi_rpc.protocol.encode import encode, encode_event


def test_half_a_surrogate_pair_is_written_as_a_replacement_character() -> None:
    event = Diagnostic(severity="info", message="\udcff.py", source="\ud83d\ude00")
    sent = json.loads(encode_event(b'"s"', 1, event))
    told = sent["params"]["event"]
    assert (told["message"], told["source"]) == ("\ufffd.py", "\U0001f600")


def test_messages_of_unknown_roles_survive_beside_it() -> None:
    opaque = OpaqueMessage("far", b'{"role":"far","n":1}')
    assert json.loads(encode({"\udcff": ("\udcff", opaque)})) == {
        "\ufffd": ["\ufffd", {"role": "far", "n": 1}]
    }
