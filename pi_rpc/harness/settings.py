"""Settings: what ``settings.json`` of the agent directory says.

Owns the keys we use, of pi and our own (below ``piRpc``), their defaults and their reading. Keys we
do not know are left alone. Does not own where the file is (``pi_rpc.harness.paths``), and does not
read a project's settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from pi_rpc.harness._written import fitting, read_object
from pi_rpc.llm.messages import ThinkingLevel

if TYPE_CHECKING:
    from pi_rpc.harness._settings_file import SettingsFile

__all__ = [
    "CompactionOverride",
    "CompactionSettings",
    "ProviderRetrySettings",
    "QueueMode",
    "RetrySettings",
    "Settings",
    "load_settings",
]

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRetrySettings:
    """Retries of one HTTP request, below the agent's own."""

    max_retries: int = 0
    max_retry_delay_ms: int = 60_000
    """A provider that asks for a longer wait than this is not waited for."""
    timeout_ms: int | None = None
    """Silence after which a request is given up; None means ``http_idle_timeout_ms``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """Retries of a failed reply by the agent."""

    enabled: bool = True
    max_retries: int = 3
    base_delay_ms: int = 2000
    """The first wait; it doubles with every attempt."""
    max_agent_delay_ms: int = 60_000
    provider: ProviderRetrySettings = ProviderRetrySettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOverride:
    """Compaction settings of one model; None leaves the general one."""

    enabled: bool | None = None
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """When a conversation is shortened and how much of it stays."""

    enabled: bool = True
    reserve_tokens: int = 16_384
    """Tokens kept free for the reply."""
    keep_recent_tokens: int = 20_000
    """Tokens of the newest messages that stay as they are."""
    model_overrides: Mapping[str, CompactionOverride] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """By ``provider/id``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that ``settings.json`` can change, with its default."""

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel = "medium"
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    session_dir: str | None = None
    """As written; see ``pi_rpc.harness.paths.sessions_dir``."""
    shell_path: str | None = None
    """The shell of the bash tool; None finds one."""
    http_idle_timeout_ms: int = 300_000
    """A provider that sends nothing for this long is given up; 0 waits for ever."""
    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()
    command_timeout_s: float = 600.0
    """``piRpc.commandTimeoutSeconds``: time limit of a command of the bash tool; 0 for none."""


def load_settings(folder: Path) -> tuple[Settings, list[str]]:
    """The settings of the agent directory ``folder``, and a line about each thing wrong in them.

    Never fails: a bad value is named and ignored, and so is a file that is not JSON.
    """
    path = folder / "settings.json"
    raw, problems = read_object(path)
    if raw is None:
        return Settings(), problems
    from pi_rpc.harness._settings_file import SettingsFile

    file, unfit = fitting(SettingsFile, raw, path)
    return _settings(file), [*problems, *unfit]


def _settings(file: "SettingsFile") -> Settings:
    retry, compaction = file.retry, file.compaction
    return Settings(
        default_provider=file.default_provider,
        default_model=file.default_model,
        default_thinking_level=file.default_thinking_level,
        steering_mode=file.steering_mode,
        follow_up_mode=file.follow_up_mode,
        session_dir=file.session_dir,
        shell_path=file.shell_path,
        http_idle_timeout_ms=file.http_idle_timeout_ms,
        retry=RetrySettings(
            enabled=retry.enabled,
            max_retries=retry.max_retries,
            base_delay_ms=retry.base_delay_ms,
            max_agent_delay_ms=retry.max_agent_delay_ms,
            provider=ProviderRetrySettings(**retry.provider.model_dump()),
        ),
        compaction=CompactionSettings(
            enabled=compaction.enabled,
            reserve_tokens=compaction.reserve_tokens,
            keep_recent_tokens=compaction.keep_recent_tokens,
            model_overrides=MappingProxyType(
                {
                    ref: CompactionOverride(**override.model_dump())
                    for ref, override in compaction.model_overrides.items()
                }
            ),
        ),
        command_timeout_s=file.pi_rpc.command_timeout_seconds,
    )
