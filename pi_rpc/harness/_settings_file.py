"""The shape of ``settings.json`` as people write it.

Apart from ``settings`` because it imports pydantic, which is only worth its time where a file
exists. Defaults repeat ``Settings``; a test compares them. The descriptions become
``docs/configuration.md`` (``pi_rpc.harness.settings_page``)."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pi_rpc.harness.settings import ProjectTrust, QueueMode
from pi_rpc.llm.messages import ThinkingLevel

Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
"""A whole number that JavaScript can hold too."""


def _unfit(written: str) -> bool:
    """It cannot be given to the system."""
    return "\0" in written or any("\ud800" <= each <= "\udfff" for each in written)


def _path(written: str) -> str:
    if _unfit(written):
        raise ValueError("no path has such characters")
    return written


def _command(written: str) -> str:
    if _unfit(written):
        raise ValueError("no command has such characters")
    return written


def _strict_rules(written: Any) -> list[str]:
    """Rules that ask or deny: what is no text stays, as a rule that cannot be read."""
    if written is None:
        return []
    each = written if isinstance(written, list) else [written]
    return [rule if isinstance(rule, str) else f"({json.dumps(rule)})" for rule in each]


def _strict_section(written: Any) -> Any:
    """What is no object stays, as a rule to deny that cannot be read."""
    if written is None:
        return {}
    return written if isinstance(written, dict | BaseModel) else {"deny": [[written]]}


StrictRules = Annotated[list[str], BeforeValidator(_strict_rules)]
WrittenPath = Annotated[str, AfterValidator(_path)]
WrittenCommand = Annotated[str, AfterValidator(_command)]


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", strict=True, frozen=True)


def _key(default: Any, text: str) -> Any:
    return Field(default, description=text)


class ProviderRetryFile(_Section):
    max_retries: Count = _key(0, "Retries of one HTTP request, below those of the agent.")
    max_retry_delay_ms: Count = _key(
        60_000, "A provider that asks for a longer wait than this is not waited for."
    )
    timeout_ms: Count | None = _key(
        None, "Silence after which a request is given up; without it, `httpIdleTimeoutMs`."
    )


class RetryFile(_Section):
    enabled: bool = _key(True, "Ask again when a reply failed for a reason that may pass.")
    max_retries: Count = _key(3, "How often.")
    base_delay_ms: Count = _key(2000, "The first wait; it doubles with every attempt.")
    max_agent_delay_ms: Count = _key(60_000, "The longest wait.")
    provider: ProviderRetryFile = _key(ProviderRetryFile(), "")


class CompactionOverrideFile(_Section):
    enabled: bool | None = None
    reserve_tokens: Count | None = None
    keep_recent_tokens: Count | None = None


class CompactionFile(_Section):
    enabled: bool = _key(True, "Shorten a conversation that no longer fits its model.")
    reserve_tokens: Count = _key(16_384, "Tokens kept free for the reply.")
    keep_recent_tokens: Count = _key(20_000, "Tokens of the newest messages that stay as they are.")
    model_overrides: dict[str, CompactionOverrideFile] = _key(
        {}, "The three above for single models, by `provider/id`."
    )


class BranchSummaryFile(_Section):
    reserve_tokens: Count = _key(16_384, "Tokens kept free when a branch is summarized.")


class PermissionsFile(_Section):
    # A key that is spelled wrong must not go unnoticed here.
    model_config = ConfigDict(extra="forbid")

    allow: list[str] = _key(
        [],
        "Rules for what need not be asked, such as `bash(git status*)` or `edit(src/**)`; see"
        " docs/permissions.md. One that cannot be read is ignored, and so are those of a project's"
        " file.",
    )
    ask: StrictRules = _key(
        [],
        "Rules for what is asked every time, before those that allow. While one cannot be read, all"
        " uses of its tool are asked about, or of every tool where that cannot be read either.",
    )
    deny: StrictRules = _key(
        [],
        "Rules for what is refused in every permission mode. While one cannot be read, all uses of"
        " its tool are refused, or of every tool where that cannot be read either.",
    )
    timeout_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = _key(
        0.0,
        "How long a question for permission waits before the call is refused; 0 waits as long as"
        " the client is there. Ignored in a project's file.",
    )


class CommandEnvironmentFile(_Section):
    mode: Literal["keys-removed", "allow-list"] | None = _key(
        None,
        "What commands are given of the environment: everything but the keys of model providers, or"
        " only the variables listed in docs/tools.md. Without it, the list where `CI` is true and"
        " everything but keys elsewhere. Ignored in a project's file.",
    )
    allow: list[str] = _key(
        [],
        "Variables that commands are given in addition; `*` stands for anything. A key of a model"
        " provider takes its whole name. Ignored in a project's file.",
    )


class OwnFile(_Section):
    command_timeout_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = _key(
        600.0, "Time limit of a command of the bash tool; 0 for none."
    )
    command_environment: CommandEnvironmentFile = _key(CommandEnvironmentFile(), "")
    hook_timeout_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = _key(
        10.0,
        "Time limit of each call of a hook that was given none of its own, and of loading an"
        " extension; 0 for none.",
    )
    editor_timeout_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = _key(
        5.0, "How long an editor may take to read, change or save a document; 0 for any time."
    )
    idle_unload_minutes: Annotated[float, Field(ge=0, allow_inf_nan=False)] = _key(
        30.0,
        "A session that nobody used for so long leaves the daemon's memory, and pi may write its"
        " file; it comes back, as it was, when it is used again. 0 keeps every session loaded."
        " Ignored in a project's file.",
    )
    checkpoint_megabytes: Count = _key(
        1024,
        "What the saved contents of files that runs changed may take up in all, in MiB; beyond it"
        " the oldest are thrown away. 0 saves nothing.",
    )
    local_servers: bool = _key(
        True,
        "Look for model servers on this machine: Ollama, llama.cpp, LM Studio."
        " `PI_RPC_LOCAL_SERVERS=off` in the environment turns it off, too.",
    )
    ca_file: WrittenPath | None = _key(
        None,
        "A PEM file of authorities that are trusted beside the usual ones when providers are asked;"
        " a relative path starts at the agent directory. Ignored in a project's file.",
    )
    permissions: Annotated[PermissionsFile, BeforeValidator(_strict_section)] = _key(
        PermissionsFile(), ""
    )


class SettingsFile(_Section):
    default_provider: str | None = _key(None, "The provider of the model of new sessions.")
    default_model: str | None = _key(None, "Its name there.")
    default_thinking_level: ThinkingLevel = _key("medium", "How much a model thinks.")
    steering_mode: QueueMode = _key(
        "one-at-a-time", "How many of the messages that wait to steer a run are given at once."
    )
    follow_up_mode: QueueMode = _key("one-at-a-time", "The same for follow-ups.")
    session_dir: WrittenPath | None = _key(
        None, "One folder for all sessions, instead of one per project in the agent directory."
    )
    shell_path: WrittenPath | None = _key(
        None, "The shell of the bash tool; without it, one is found."
    )
    shell_command_prefix: WrittenCommand | None = _key(
        None,
        "Goes before every command, as lines of their own; for instance `shopt -s expand_aliases`.",
    )
    http_idle_timeout_ms: Count = _key(
        300_000,
        "A provider that sends nothing for this long is given up, and so is one that sends only"
        " signs of life (comments, pings) for four times as long; 0 waits for ever.",
    )
    skills: list[str] = _key([], "More skills: files and folders. See docs/resources.md.")
    prompts: list[str] = _key([], "More prompt templates: files and folders.")
    enable_skill_commands: bool = _key(
        True, "List skills among the commands. `/skill:name` works either way."
    )
    default_project_trust: ProjectTrust = _key(
        "ask",
        "What becomes of a project that nobody has decided on. `ask` does not trust it until"
        " somebody does. Ignored in a project's file.",
    )
    retry: RetryFile = _key(RetryFile(), "")
    compaction: CompactionFile = _key(CompactionFile(), "")
    branch_summary: BranchSummaryFile = _key(BranchSummaryFile(), "")
    pi_rpc: OwnFile = _key(OwnFile(), "")
