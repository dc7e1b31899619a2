"""A writer is killed at any point of a write: what was announced is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pi_rpc.session import JsonlSession
from tests.deadlines import DEADLINE_S
from tests.session.builders import ids, user_entry

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def crash(target: Path, number: int, share: float, how: str) -> list[str]:
    """Run the writer until it dies; the ids it announced."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.session.crash_writer",
            str(target),
            str(number),
            str(share),
            how,
        ],
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode in (9, -9), done.stderr.decode()
    return done.stdout.decode().split()


@pytest.mark.parametrize("how", ["exit", "kill"])
@pytest.mark.parametrize(("number", "share"), [(1, 0.0), (2, 0.01), (4, 0.5), (6, 0.999), (7, 1.0)])
async def test_every_announced_entry_survives_a_crash_in_a_write(
    tmp_path: Path, number: int, share: float, how: str
) -> None:
    announced = crash(tmp_path, number, share, how)
    assert len(announced) == number
    (path,) = tmp_path.glob("*.jsonl")
    session = await JsonlSession.open(path)
    found = ids(session)
    assert found[:number] == announced
    # A line that was written but not announced may count, part of one may not.
    assert len(found) - number == (1 if share == 1.0 else 0)
    added = await session.append(user_entry(session, "after the crash"))
    await session.aclose()
    again = await JsonlSession.open(path, read_only=True)
    assert ids(again) == [*found, added.id]
    await again.aclose()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_a_crash_while_the_file_is_made_leaves_no_session(
    tmp_path: Path, share: float
) -> None:
    assert crash(tmp_path, 0, share, "kill") == []
    assert list(tmp_path.glob("*.jsonl")) == []


async def test_crash_after_crash_loses_nothing(tmp_path: Path) -> None:
    announced = crash(tmp_path, 2, 0.3, "kill")
    (path,) = tmp_path.glob("*.jsonl")
    for number, share in [(1, 0.7), (3, 0.1), (2, 0.95)]:
        announced += crash(path, number, share, "kill")
    session = await JsonlSession.open(path)
    assert ids(session) == announced
    assert len(announced) == 8
    await session.aclose()
    assert [name for name in os.listdir(tmp_path) if name.endswith(".lock")] == []
