"""Fixtures that every test may use."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A change is not to fail for what chance has found elsewhere, nor for a machine that is busy.
# `--hypothesis-profile default` looks for what nobody has seen yet.
settings.register_profile(
    "the same everywhere",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("the same everywhere")

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes at full size runs where it is asked for by its mark, and nowhere else."""
    if "soak" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
