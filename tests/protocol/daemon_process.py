"""A real daemon that speaks lines of JSON, and the thread that reads what it says.

Owns its environment, its start and its end. What is said, and what is done with the answers, is its
subclasses'.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.warm import start_daemon

ROOT = Path(__file__).resolve().parents[2]


class DaemonProcess(ABC):
    """``with``: it has ended, and was read to the end, when the block is left."""

    def __init__(
        self,
        home: Path,
        project: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        deadline_s: float,
        stderr: IO[Any] | None = None,
        warm: bool = True,
    ) -> None:
        """Start it; ``environment`` is added to the few variables that every daemon needs.
        ``_read`` runs from here on."""
        self._deadline_s = deadline_s
        self.process = start_daemon(
            ["--stdio", *arguments],
            stderr=stderr,
            warm=warm,
            cwd=project,
            env={
                "HOME": str(home),
                "PATH": os.environ["PATH"],
                "PI_RPC_LOCAL_SERVERS": "off",
                "PYTHONPATH": str(ROOT),
                **environment,
            },
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._input, self._output = self.process.stdin, self.process.stdout
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @abstractmethod
    def _read(self) -> None:
        """Read ``_output`` to its end; in a thread of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Where it has ended by itself the test says whether it may.
        with suppress(BrokenPipeError):
            self._input.close()
        try:
            self.process.wait(self._deadline_s)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            self._output.close()
