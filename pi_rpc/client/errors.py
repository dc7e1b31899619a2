"""What goes wrong for a client beside the daemon's own errors (``RpcError``)."""

__all__ = ["DaemonEnded"]


class DaemonEnded(Exception):
    """The daemon has ended, and what is waited for will not come."""

    def __init__(self, when: str, exit_code: int | None, stderr: str) -> None:
        what = "was closed" if exit_code is None else f"ended with exit code {exit_code}"
        message = f"The daemon {what} {when}."
        if last := stderr.strip():
            message += f" The end of its standard error:\n{last}"
        super().__init__(message)
        self.exit_code = exit_code
        """Its exit code, 128 + n when signal n ended it; None when this side ended it."""
        self.stderr = stderr
        """The end of what it wrote to its standard error."""
