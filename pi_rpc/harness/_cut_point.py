"""Where a conversation is cut: what is summarised, and what stays as it is.

Owns the reading of a branch as pieces with a size, and the choice of the cut. Pure. Does not own
what is made of the parts (``pi_rpc.harness.compaction``).
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from pi_rpc.agent.messages import AgentMessage, MessageRoles, convert_to_llm
from pi_rpc.harness.usage import estimate_tokens
from pi_rpc.llm.messages import AssistantMessage, ToolCall, ToolResultMessage
from pi_rpc.session.context import build_context
from pi_rpc.session.entries import CompactionEntry
from pi_rpc.session.stored import StoredEntry

__all__ = ["Cut", "Piece", "choose_cut", "cut_within", "pieces_of"]


class Piece(Struct, frozen=True):
    """An entry between the newest compaction and the leaf."""

    entry_id: str
    message: AgentMessage | None
    """What the model reads of it, edits applied; None when it reads nothing."""
    tokens: int
    is_compaction: bool = False
    """An older compaction, in the part that a newer one kept."""


class Cut(Struct, frozen=True):
    """Three parts: ``[:turn_start]`` and ``[turn_start:at]`` are summarised, ``[at:]`` stays."""

    at: int
    turn_start: int
    """Where the turn begins that the cut goes through; ``at`` when it goes between turns."""


def pieces_of(
    branch: Sequence[StoredEntry], roles: MessageRoles
) -> tuple[CompactionEntry | None, list[Piece]]:
    """The newest compaction of ``branch``, and what its context holds beside that summary.

    ``branch`` is the path to the leaf, at least from the first entry that the newest compaction
    keeps.
    """
    context = build_context(branch)
    visible = dict(zip(context.entry_ids, context.messages, strict=True))
    compaction, selected = _since_compaction(branch)
    pieces = []
    for stored in selected:
        message = None if stored.type == "compaction" else visible.get(stored.id)
        read = [] if message is None else convert_to_llm([message], roles)
        if not read:
            message = None
        tokens = estimate_tokens(message) or sum(estimate_tokens(each) for each in read)
        pieces.append(Piece(stored.id, message, tokens, stored.type == "compaction"))
    return compaction, pieces


def _since_compaction(
    branch: Sequence[StoredEntry],
) -> tuple[CompactionEntry | None, list[StoredEntry]]:
    for at in range(len(branch) - 1, -1, -1):
        if branch[at].type != "compaction":
            continue
        entry = branch[at].entry
        if isinstance(entry, CompactionEntry):
            kept = entry.first_kept_entry_id
            first = next((i for i in range(at) if branch[i].id == kept), at)
            return entry, [*branch[first:at], *branch[at + 1 :]]
    return None, list(branch)


def choose_cut(pieces: Sequence[Piece], keep_tokens: int) -> Cut:
    """Cut so that about the newest ``keep_tokens`` stay.

    The cut never comes between a tool call and its result. When everything fits, or there is no
    place to cut, everything stays.
    """
    candidates = _candidates(pieces)
    if not candidates:
        return Cut(0, 0)
    chosen, kept = candidates[0], 0
    for index in range(len(pieces) - 1, -1, -1):
        kept += pieces[index].tokens
        if pieces[index].message is not None and kept >= keep_tokens:
            later = bisect_left(candidates, index)
            chosen = candidates[later] if later < len(candidates) else candidates[-1]
            break
    return _cut_at(pieces, chosen)


def cut_within(pieces: Sequence[Piece], limit: int) -> Cut:
    """Cut as early as what stays has at most ``limit`` tokens; at the end if need be."""
    left = list(accumulate(piece.tokens for piece in reversed(pieces)))[::-1]
    for candidate in _candidates(pieces):
        if left[candidate] <= limit:
            return _cut_at(pieces, candidate)
    return _cut_at(pieces, len(pieces))


def _candidates(pieces: Sequence[Piece]) -> list[int]:
    """Where a cut may go: before any message, unless a result after it answers a call before it."""
    calls: dict[str, int] = {}
    pending = [0] * (len(pieces) + 2)
    for index, piece in enumerate(pieces):
        if isinstance(piece.message, AssistantMessage):
            for block in piece.message.content:
                if isinstance(block, ToolCall):
                    calls[block.id] = index
        elif isinstance(piece.message, ToolResultMessage):
            call = calls.get(piece.message.tool_call_id)
            if call is not None:
                pending[call + 1] += 1
                pending[index + 1] -= 1
    return [
        index
        for index, (piece, waiting) in enumerate(zip(pieces, accumulate(pending), strict=False))
        if piece.message is not None
        and not isinstance(piece.message, ToolResultMessage)
        and not waiting
    ]


def _cut_at(pieces: Sequence[Piece], index: int) -> Cut:
    turn_start = index
    if index == len(pieces) or not _starts_turn(pieces[index]):
        starts = (i for i in range(index - 1, -1, -1) if _starts_turn(pieces[i]))
        turn_start = next(starts, index)
    at = index
    # A change of model or the like belongs to the message that follows it.
    while 0 < at < len(pieces) and _is_silent(pieces[at - 1]):
        at -= 1
    return Cut(at, min(turn_start, at))


def _is_silent(piece: Piece) -> bool:
    return piece.message is None and not piece.is_compaction


def _starts_turn(piece: Piece) -> bool:
    return piece.message is not None and not isinstance(
        piece.message, AssistantMessage | ToolResultMessage
    )
