"""``--record`` and ``--replay``: services whose models are recorded, or are a recording.

Owns which parts of a host they stand in for. The file is ``pi_rpc.llm.recording``'s.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from pi_rpc import chance
from pi_rpc.headless.exit_codes import UsageError
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.masking import SecretMask, secret_variables
from pi_rpc.host.services import Services
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.recording import Recorder, RecordingError, Replay
from pi_rpc.llm.stream import AssistantMessageStream

__all__ = ["RecordingServices", "ReplayingServices"]


class RecordingServices(Services):
    """Services that keep what models say."""

    def __init__(self, path: Path, cwd: Path, environ: Mapping[str, str]) -> None:
        """``environ`` may hold credentials. Raises ``UsageError``. Blocks."""
        super().__init__()
        mask = SecretMask(lambda: tuple(self.credentials.known))
        for value in secret_variables(environ):
            mask.add(value)
        try:
            self._recorder = Recorder(super().stream, path, cwd, mask.json)
        except OSError as error:
            raise UsageError(
                f"--record {path} cannot be written: {error.strerror or error}"
            ) from None

    @property
    def problem(self) -> str:
        """Why the recording is not complete, for people."""
        return self._recorder.problem

    def stream(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Ask a model and keep its reply."""
        return self._recorder(model, context, options)


class ReplayingServices(Services):
    """Services whose only model is a recording."""

    def __init__(self, path: Path, cwd: Path) -> None:
        """Raises ``UsageError``. Blocks."""
        super().__init__()
        try:
            self._replay = Replay(path, cwd)
        except RecordingError as error:
            raise UsageError(f"--replay {error}") from None

    @property
    def left(self) -> int:
        """Replies that nobody has asked for."""
        return self._replay.left

    @contextmanager
    def fixed(self) -> Iterator[None]:
        """Clock and ids as in every replay."""
        with chance.fixed(self._replay.recorded_at):
            yield

    def prepare(self, hosted: HostedSession) -> None:
        """No key is needed, nothing is waited for, and tools run one after the other."""
        choices = hosted.harness.configuration
        choices.authenticated = lambda model: True
        choices.retries = replace(choices.retries, base_delay_ms=0)
        choices.tools = {
            name: replace(tool, execution_mode="sequential") for name, tool in choices.tools.items()
        }

    async def look_for_model(self, name: str | None) -> None:
        """No server is asked."""

    def choose_model(
        self, wanted: str | None, recorded: tuple[str, str] | None
    ) -> tuple[Model | None, ThinkingLevel | None]:
        """The model that was recorded, whatever is named."""
        return self._replay.model, None

    def stream(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """The next recorded reply."""
        return self._replay(model, context, options)
