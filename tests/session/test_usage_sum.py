"""Sums over a session: of what is appended, and of what a file holds."""

import msgspec
import pytest
from msgspec import UNSET

from pi_rpc.llm.messages import Usage, UsageCost
from pi_rpc.session._usage_sum import UsageSum

COST = UsageCost(input=0.5, output=1, cache_read=0.25, cache_write=2, total=3.75)
PLAIN = Usage(
    input=1, output=20, cache_read=300, cache_write=4000, total_tokens=4321, cost=UsageCost.ZERO
)
FULL = msgspec.structs.replace(PLAIN, cost=COST, cache_write_1h=1000, reasoning=7)


@pytest.mark.parametrize("usages", [[], [PLAIN], [FULL], [FULL, PLAIN, FULL]])
def test_what_was_appended_and_what_was_read_add_up_to_the_same(usages: list[Usage]) -> None:
    appended, read = UsageSum(), UsageSum()
    for usage in usages:
        appended.add(usage)
    read.add_json([msgspec.json.encode(usage) for usage in usages])
    assert appended.total() == read.total()


def test_parts_of_a_sum_are_there_when_one_of_its_usages_says_them() -> None:
    total = UsageSum()
    total.add(PLAIN)
    assert (total.total().cache_write_1h, total.total().reasoning) == (UNSET, UNSET)
    total.add(FULL)
    total.add(FULL)
    assert (total.total().cache_write_1h, total.total().reasoning) == (2000, 14)
    assert total.total().output == 60


def test_a_part_that_a_file_leaves_empty_counts_as_nothing() -> None:
    raw = msgspec.json.encode(FULL)
    total = UsageSum()
    total.add_json([raw, raw.replace(b'"reasoning":7', b'"reasoning":null')])
    assert total.total().reasoning == 7
    assert total.total().input == 2
