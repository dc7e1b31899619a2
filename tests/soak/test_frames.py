"""Nonsense by chance: the daemon answers what is a request, and goes on."""

from pathlib import Path

import pytest

from tests.soak.frames import Cases
from tests.soak.fuzzing import Fuzzed

FEW, MANY = 3_000, 200_000
MEMORY_LIMIT = 150 * 1024 * 1024
"""Bytes; sessions that nonsense has opened stay open."""


def fuzz(home: Path, seed: int, number: int) -> None:
    with Fuzzed(home) as fuzzed:
        fuzzed.begin()
        fuzzed.fuzz(Cases(seed, fuzzed.places), number)
        memory = fuzzed.finish()
    kinds = {"bytes", "value", "shape"}
    assert kinds < set(fuzzed.counts)
    assert sum(fuzzed.counts.values()) >= number
    # Cases reach what they are meant to try: parsing, dispatch, params and what is behind them.
    assert {"parseError", "invalidRequest", "methodNotFound", "invalidParams"} < set(fuzzed.errors)
    assert memory < MEMORY_LIMIT


@pytest.mark.parametrize("seed", range(2))
def test_no_frame_crashes_hangs_or_confuses_the_daemon(seed: int, tmp_path: Path) -> None:
    fuzz(tmp_path, seed, FEW)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 104))
def test_no_frame_of_very_many_does(seed: int, tmp_path: Path) -> None:
    fuzz(tmp_path, seed, MANY // 4)
