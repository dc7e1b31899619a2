"""The shape of ``settings.json`` as people write it.

Apart from ``settings`` because it imports pydantic, which is only worth its time where a file
exists. Defaults repeat ``Settings``; a test compares them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pi_rpc.harness.settings import QueueMode
from pi_rpc.llm.messages import ThinkingLevel

Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
"""A whole number that JavaScript can hold too."""


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", strict=True, frozen=True)


class ProviderRetryFile(_Section):
    max_retries: Count = 0
    max_retry_delay_ms: Count = 60_000
    timeout_ms: Count | None = None


class RetryFile(_Section):
    enabled: bool = True
    max_retries: Count = 3
    base_delay_ms: Count = 2000
    max_agent_delay_ms: Count = 60_000
    provider: ProviderRetryFile = ProviderRetryFile()


class CompactionOverrideFile(_Section):
    enabled: bool | None = None
    reserve_tokens: Count | None = None
    keep_recent_tokens: Count | None = None


class CompactionFile(_Section):
    enabled: bool = True
    reserve_tokens: Count = 16_384
    keep_recent_tokens: Count = 20_000
    model_overrides: dict[str, CompactionOverrideFile] = {}


class OwnFile(_Section):
    command_timeout_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 600.0


class SettingsFile(_Section):
    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel = "medium"
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    session_dir: str | None = None
    shell_path: str | None = None
    http_idle_timeout_ms: Count = 300_000
    retry: RetryFile = RetryFile()
    compaction: CompactionFile = CompactionFile()
    pi_rpc: OwnFile = OwnFile()
