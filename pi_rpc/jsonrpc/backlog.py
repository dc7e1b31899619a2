"""What of one source's output waits for an other end that is slow to read.

Owns the account of it: all sources share one pipe, which does not know whose bytes it holds; and
how much is much. What is made of that is the application's.
"""

from collections import deque

from pi_rpc.jsonrpc.peer import Peer

__all__ = ["Backlog", "is_crowded", "share_of"]

_PRESSURE_BYTES = 1024 * 1024
_SHARE_BYTES = 256 * 1024
_SHARES_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 8 * 1024
"""What is sent is noted in pieces of about this size, so that the account stays small."""


def is_crowded(peer: Peer) -> bool:
    """So much output waits that deltas merge, and sources wait that have filled their share."""
    return peer.waiting_bytes > _PRESSURE_BYTES


def share_of(sources: int) -> int:
    """How many bytes of each of so many sources may wait; those of many are smaller."""
    return min(_SHARE_BYTES, _SHARES_BYTES // max(1, sources))


class Backlog:
    """The account of one source; tell it at once of everything that is sent."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._pieces: deque[list[int]] = deque()
        """Of each piece, where in all output it ends, and how many bytes it has."""
        self._size = 0

    def sent(self, size: int) -> None:
        """The last ``size`` bytes that the peer was given are the source's."""
        if not self._peer.waiting_bytes:
            self._pieces.clear()
            self._size = 0
            return
        end, pieces = self._peer.sent_bytes, self._pieces
        self._size += size
        if pieces and pieces[-1][1] < _PIECE_BYTES:
            pieces[-1][0] = end
            pieces[-1][1] += size
        else:
            pieces.append([end, size])

    @property
    def size(self) -> int:
        """How many bytes of the source's have not left yet; up to a piece more."""
        left = self._peer.sent_bytes - self._peer.waiting_bytes
        while self._pieces and self._pieces[0][0] <= left:
            self._size -= self._pieces.popleft()[1]
        return self._size
