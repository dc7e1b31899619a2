"""Waiting for one descriptor, in a thread that may wait."""

import select

__all__ = ["wait_until_ready"]


def wait_until_ready(fd: int, *, for_writing: bool) -> None:
    """Returns when a non-blocking descriptor has something, or room, or a failure to tell."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(fd, select.POLLOUT if for_writing else select.POLLIN)
        poll.poll()
    elif for_writing:
        select.select([], [fd], [])
    else:
        select.select([fd], [], [])
