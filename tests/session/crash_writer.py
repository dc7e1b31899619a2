"""A process that appends to a session and dies inside a write.

Arguments: the session's file or folder, how many bytes of which write to let through, how to die.
Prints the id of each entry whose append returned.
"""

import os
import signal
import sys
from pathlib import Path

import anyio

from pi_rpc.session import JsonlSession, _file
from tests.session.builders import user_entry


def die_in_write(number: int, share: float, how: str) -> None:
    """Let ``number`` writes through, then a share of the next, and die."""
    real = _file.write_all
    count = 0

    def write(fd: int, data: bytes) -> None:
        nonlocal count
        if count == number:
            os.write(fd, data[: int(len(data) * share)])
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(9)
        count += 1
        real(fd, data)

    _file.write_all = write


async def main(target: Path, number: int, share: float, how: str) -> None:
    die_in_write(number, share, how)
    if target.is_dir():
        session = await JsonlSession.create(target, "/w", session_id="crash")
    else:
        session = await JsonlSession.open(target)
    for entry_number in range(100):
        text = f"{entry_number} " + "é\n" * (entry_number * 50)
        stored = await session.append(user_entry(session, text))
        os.write(1, f"{stored.id}\n".encode())


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
