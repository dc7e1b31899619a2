"""Reading what clients really send: repair of text, and the id of a frame that cannot be read.

Owns byte-level tolerance: a byte order mark, invalid UTF-8, halves of surrogate pairs, and a
careful look at the top level of broken JSON. Does not own the envelope (see ``_envelope``). No I/O.
"""

import re
from typing import NamedTuple

__all__ = ["Salvage", "has_only_utf8", "salvage", "with_whole_surrogates", "without_bad_utf8"]

BOM = b"\xef\xbb\xbf"

_PIECE_BYTES = 1 << 20
_HEAD_BYTES = 256 * 1024
_TAIL_BYTES = 4096

# Patterns are compiled when they are needed: nearly no connection does.
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATES = rb"(?<!\\)((?:\\\\)*+)(?:(" + _HIGH + _LOW + rb")|" + _HIGH + b"|" + _LOW + b")"

_TOKEN = rb'(?s)"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]|[^\s"{}\[\]:,]++|"'
_INTEGER = rb"-?(?:0|[1-9][0-9]{0,299})"
_STRING = rb'"(?:[^"\\]|\\.)*+"'
_LAST_ID = (
    rb'[,{]\s*"id"\s*:\s*(-?[0-9]{1,300}|' + _STRING + rb")\s*"
    rb'(?:,\s*"[^"\\]*+"\s*:\s*(?:' + _STRING + rb"|[-+.\w]++)\s*)*\}\s*\Z"
)


class Salvage(NamedTuple):
    """What could be made out in a frame that is not readable as a whole."""

    id: int | str | None
    """The id at the top level, if it is certain."""
    is_response: bool
    """It has a result or an error and no method: it answers a request of ours."""


def has_only_utf8(payload: bytes) -> bool:
    """Whether the bytes are UTF-8. In pieces, so that 64 MiB do not become a string of 256."""
    if payload.isascii():
        return True
    try:
        if len(payload) <= _PIECE_BYTES:
            payload.decode()
            return True
        view, start = memoryview(payload), 0
        while start < len(view):
            end = min(start + _PIECE_BYTES, len(view))
            # A piece ends before the first byte of a character.
            while end < len(view) and end > start and view[end] & 0xC0 == 0x80:
                end -= 1
            str(view[start : max(end, start + 1)], "utf-8")
            start = max(end, start + 1)
    except UnicodeDecodeError:
        return False
    return True


def without_bad_utf8(payload: bytes) -> bytes:
    """The payload with everything that is not UTF-8 read as U+FFFD."""
    return payload.decode("utf-8", "replace").encode()


def with_whole_surrogates(payload: bytes) -> bytes:
    r"""The payload with each half of a surrogate pair (``\ud83d`` alone) turned into U+FFFD."""
    return re.sub(_SURROGATES, _keep_pairs, payload)


def _keep_pairs(match: re.Match[bytes]) -> bytes:
    return match[0] if match[2] else match[1] + b"\\ufffd"


def salvage(payload: bytes, *, complete: bool = True, tail: bytes | None = None) -> Salvage:
    """Looks for the id of an unreadable frame.

    Only an id at the top level counts, and only one whose end is seen. The cost is bounded: a
    quarter of a megabyte from the front, then the last members if the frame is ``complete``.
    ``tail`` is the frame's end where ``payload`` is only its beginning.
    """
    found, has_method, has_outcome = _scan_top_level(payload[:_HEAD_BYTES])
    if tail is None and complete and len(payload) > _HEAD_BYTES:
        tail = payload[-_TAIL_BYTES:]
    if found is None and tail is not None:
        last = re.search(_LAST_ID, tail)
        if last is not None:
            found = _id_of(last[1])
    return Salvage(found, is_response=has_outcome and not has_method)


def _scan_top_level(text: bytes) -> tuple[int | str | None, bool, bool]:
    """The id, whether there is a method, whether there is a result or an error."""
    found: int | str | None = None
    has_method = has_outcome = False
    stack: list[bytes] = []
    key = previous = b""
    for match in re.finditer(_TOKEN, text):
        token = match[0]
        if token in (b"{", b"["):
            stack.append(b"}" if token == b"{" else b"]")
        elif token in (b"}", b"]"):
            if not stack or stack.pop() != token or not stack:
                break
        elif token == b'"':
            break
        elif len(stack) == 1 and stack[0] == b"}":
            if token == b":":
                key = previous
                has_method = has_method or key == b'"method"'
                has_outcome = has_outcome or key in (b'"result"', b'"error"')
            elif previous == b":" and key == b'"id"' and found is None and match.end() < len(text):
                found = _id_of(token)
        previous = token
    return found, has_method, has_outcome


def _id_of(token: bytes) -> int | str | None:
    if re.fullmatch(_INTEGER, token):
        return int(token)
    if token.startswith(b'"') and len(token) > 1:
        import msgspec

        try:
            return msgspec.json.decode(without_bad_utf8(with_whole_surrogates(token)), type=str)
        except msgspec.DecodeError:
            return None
    return None
