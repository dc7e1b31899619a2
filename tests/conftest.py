"""Fixtures that every test may use."""

import signal

import pytest

# A suite that was started in the background ignores interrupts, and so would every process it
# starts: tests that send one would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the daemon does."""
    return "asyncio"
