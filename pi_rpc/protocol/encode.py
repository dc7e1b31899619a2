"""Writing JSON: the one encoder of the wire, and notifications as finished bytes.

Owns how payloads are encoded; framing and what framing demands (escapes of line ends) is
``pi_rpc.jsonrpc``'s. ``encode_update`` is the hot path: one call per streamed delta."""

from typing import Any

from pi_rpc.agent.messages import encode_json
from pi_rpc.llm.events import BlockEvent

__all__ = ["encode", "encode_event", "encode_notification", "encode_update"]

encode = encode_json
"""JSON of any wire value; messages of unknown roles come out as the bytes they came in."""


def encode_notification(method: str, params: Any) -> bytes:
    """A whole notification. ``params`` is a struct, a dict, or bytes wrapped in ``msgspec.Raw``."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def encode_event(session_id_json: bytes, seq: int, event: Any) -> bytes:
    """A whole ``agent/event`` notification. ``session_id_json`` is ``encode(session_id)``, made
    once per session; ``event`` is what ``convert.to_wire`` gave."""
    return (
        b'{"jsonrpc":"2.0","method":"agent/event","params":{"sessionId":%b,"seq":%d,"event":%b}}'
        % (session_id_json, seq, encode(event))
    )


def encode_update(
    session_id_json: bytes, seq: int, message_id_json: bytes, event: BlockEvent
) -> bytes:
    """A whole ``agent/event`` notification with a ``message_update`` that is only a delta.

    ``session_id_json`` and ``message_id_json`` are ``encode`` of the ids, made once per session
    and message. Equal, byte for byte, to ``encode_event`` of the same update."""
    return (
        b'{"jsonrpc":"2.0","method":"agent/event","params":{"sessionId":%b,"seq":%d,"event":'
        b'{"type":"message_update","messageId":%b,"assistantMessageEvent":%b}}}'
        % (session_id_json, seq, message_id_json, encode(event))
    )
