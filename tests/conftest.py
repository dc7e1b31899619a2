"""Fixtures that every test may use."""

import os
import signal

import pytest

# What runs on this machine's ports is nothing a test may depend on; processes inherit it.
os.environ["PI_RPC_LOCAL_SERVERS"] = "off"

# A suite that was started in the background ignores interrupts and hang-ups, and so would every
# process it starts: tests that send one would wait for ever.
for _number, _default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the daemon does."""
    return "asyncio"
