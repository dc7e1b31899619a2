"""What comes out of code that is not ours: tools, hooks, extensions.

Owns telling its failures from our own cancellations, and what they say. Does not own how it is
called and waited for (``pi_rpc.agent._interrupt``, ``pi_rpc.harness.hooks``).
"""

import anyio

__all__ = ["is_our_cancellation", "text_of_error"]


def is_our_cancellation(error: BaseException) -> bool:
    """A scope around the caller was cancelled: to be passed on.

    Whatever else other people's code raises, ``sys.exit`` and a cancellation of its own making
    included, is a failure of that code and ends nothing but its call."""
    cancelled = isinstance(error, anyio.get_cancelled_exc_class())
    return cancelled and anyio.current_effective_deadline() == float("-inf")


def text_of_error(error: BaseException) -> str:
    """An exception's text for a model; of a group, the texts of what is in it."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(text_of_error(each) for each in error.exceptions)
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - its own __str__ fails
        return type(error).__name__
