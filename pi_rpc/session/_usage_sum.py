"""What a session has used so far, kept while its entries go by.

Owns which entries count and the sums. Does not own prices, nor what one run used.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct

from pi_rpc.llm.messages import AssistantMessage, ToolResultMessage, Usage, UsageCost
from pi_rpc.session._repair import plain_object, repaired_usage
from pi_rpc.session.entries import (
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    MessageEntry,
    UsageEntry,
)

__all__ = ["UsageSum", "usage_in"]


def usage_in(entry: AnyEntry) -> Usage | None:
    """The tokens that an entry says were spent; None when it says nothing of any."""
    usage: object = None
    match entry:
        case MessageEntry(message=AssistantMessage() | ToolResultMessage() as message):
            usage = message.usage
        case UsageEntry() | CompactionEntry() | BranchSummaryEntry():
            usage = entry.usage
    return usage if isinstance(usage, Usage) else None


class _Cost(Struct, gc=False):
    input: float = 0
    output: float = 0
    cacheRead: float = 0  # noqa: N815 - as in the file
    cacheWrite: float = 0  # noqa: N815
    total: float = 0


class _Usage(Struct, gc=False):
    cost: _Cost
    input: float = 0
    output: float = 0
    cacheRead: float = 0  # noqa: N815
    cacheWrite: float = 0  # noqa: N815
    totalTokens: float = 0  # noqa: N815
    cacheWrite1h: float = 0  # noqa: N815
    reasoning: float = 0


_decode_many = msgspec.json.Decoder(list[_Usage]).decode


def _decode_one(usage: bytes) -> list[_Usage]:
    fields = plain_object(usage)
    return [] if fields is None else [msgspec.convert(repaired_usage(fields), _Usage)]


class UsageSum:
    """Sums of usages."""

    def __init__(self) -> None:
        self._tokens = [0] * 7
        self._cost = [0.0, 0.0, 0.0, 0.0, 0.0]

    def add(self, usage: Usage) -> None:
        """Count one more."""
        tokens, costs, cost = self._tokens, self._cost, usage.cost
        tokens[0] += usage.input
        tokens[1] += usage.output
        tokens[2] += usage.cache_read
        tokens[3] += usage.cache_write
        tokens[4] += usage.total_tokens
        tokens[5] += usage.cache_write_1h or 0
        tokens[6] += usage.reasoning or 0
        costs[0] += cost.input
        costs[1] += cost.output
        costs[2] += cost.cache_read
        costs[3] += cost.cache_write
        costs[4] += cost.total

    def add_json(self, usages: Sequence[bytes]) -> None:
        """Count usages that are JSON objects; what one does not say is 0."""
        try:
            many = _decode_many(b"[" + b",".join(usages) + b"]")
        except msgspec.MsgspecError:
            many = [usage for each in usages for usage in _decode_one(each)]
        tokens, costs = self._tokens, self._cost
        tokens[0] += int(sum([each.input for each in many]))
        tokens[1] += int(sum([each.output for each in many]))
        tokens[2] += int(sum([each.cacheRead for each in many]))
        tokens[3] += int(sum([each.cacheWrite for each in many]))
        tokens[4] += int(sum([each.totalTokens for each in many]))
        tokens[5] += int(sum([each.cacheWrite1h for each in many]))
        tokens[6] += int(sum([each.reasoning for each in many]))
        costs[0] += sum([each.cost.input for each in many])
        costs[1] += sum([each.cost.output for each in many])
        costs[2] += sum([each.cost.cacheRead for each in many])
        costs[3] += sum([each.cost.cacheWrite for each in many])
        costs[4] += sum([each.cost.total for each in many])

    def total(self) -> Usage:
        """The sums so far."""
        tokens, cost = self._tokens, self._cost
        return Usage(
            input=tokens[0],
            output=tokens[1],
            cache_read=tokens[2],
            cache_write=tokens[3],
            total_tokens=tokens[4],
            cache_write_1h=tokens[5] or UNSET,
            reasoning=tokens[6] or UNSET,
            cost=UsageCost(
                input=cost[0],
                output=cost[1],
                cache_read=cost[2],
                cache_write=cost[3],
                total=cost[4],
            ),
        )
