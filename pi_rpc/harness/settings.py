"""Settings: what ``settings.json`` of the agent directory and of a project say together.

Owns the keys we use, of pi and our own (below ``piRpc``), their defaults, reading and changing.
Keys we do not know are left alone. Does not own where the files are (``pi_rpc.harness.paths``), nor
whether a project's file may be read (``pi_rpc.harness.trust``)."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from pi_rpc._os.imports import one_at_a_time
from pi_rpc.harness._written import fitting, read_object
from pi_rpc.harness.permissions.rules import RuleSet, read_rules
from pi_rpc.llm.messages import ThinkingLevel

if TYPE_CHECKING:
    from pi_rpc.harness._settings_file import PermissionsFile, SettingsFile

__all__ = [
    "BranchSummarySettings",
    "CompactionOverride",
    "CompactionSettings",
    "PermissionSettings",
    "ProjectTrust",
    "ProviderRetrySettings",
    "QueueMode",
    "ResourcePaths",
    "RetrySettings",
    "Settings",
    "load_settings",
    "update_settings",
]

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]
ProjectTrust: TypeAlias = Literal["ask", "always", "never"]


class ProviderRetrySettings(Struct, frozen=True, kw_only=True):
    """Retries of one HTTP request, below the agent's own."""

    max_retries: int = 0
    max_retry_delay_ms: int = 60_000
    """A provider that asks for a longer wait than this is not waited for."""
    timeout_ms: int | None = None
    """Silence after which a request is given up; None means ``http_idle_timeout_ms``."""


class RetrySettings(Struct, frozen=True, kw_only=True):
    """Retries of a failed reply by the agent."""

    enabled: bool = True
    max_retries: int = 3
    base_delay_ms: int = 2000
    """The first wait; it doubles with every attempt."""
    max_agent_delay_ms: int = 60_000
    provider: ProviderRetrySettings = ProviderRetrySettings()


class CompactionOverride(Struct, frozen=True, kw_only=True):
    """Compaction settings of one model; None leaves the general one."""

    enabled: bool | None = None
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None


class CompactionSettings(Struct, frozen=True, kw_only=True):
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


class BranchSummarySettings(Struct, frozen=True, kw_only=True):
    """The note on a branch that is left."""

    reserve_tokens: int = 16_384
    """Tokens kept free for the summary and its instructions."""


class ResourcePaths(Struct, frozen=True, kw_only=True):
    """A list of paths as one settings file has it; see ``pi_rpc.harness._selection``."""

    entries: tuple[str, ...] = ()
    base: Path = Path()
    """What relative entries start from: the folder of that file."""


class PermissionSettings(Struct, frozen=True, kw_only=True):
    """``piRpc.permissions``: what need not be asked, and what is asked or refused always."""

    rules: RuleSet = field(default_factory=RuleSet)
    """Of a project's file only those that ask and deny; its relative paths are the session's."""
    timeout_s: float = 0.0
    """How long a question for permission waits; 0 as long as the client is there."""


class Settings(Struct, frozen=True, kw_only=True):
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
    shell_command_prefix: str | None = None
    """A line that is put before every command."""
    http_idle_timeout_ms: int = 300_000
    """A provider that sends nothing for this long is given up; 0 waits for ever."""
    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()
    branch_summary: BranchSummarySettings = BranchSummarySettings()
    skills: ResourcePaths = ResourcePaths()
    prompts: ResourcePaths = ResourcePaths()
    project_skills: ResourcePaths = ResourcePaths()
    """Those of the project's file, which count in addition and first."""
    project_prompts: ResourcePaths = ResourcePaths()
    enable_skill_commands: bool = True
    """Skills are among the commands a client may offer; ``/skill:name`` works either way."""
    default_project_trust: ProjectTrust = "ask"
    """What becomes of a project nobody has decided on; only the agent directory's file says."""
    command_timeout_s: float = 600.0
    """``piRpc.commandTimeoutSeconds``: time limit of a command of the bash tool; 0 for none."""
    command_environment: Literal["keys-removed", "allow-list"] | None = None
    """``piRpc.commandEnvironment.mode``: what commands are given of the environment; None: the
    allow-list where ``CI`` is true. Only the agent directory's file says."""
    command_variables: tuple[str, ...] = ()
    """``piRpc.commandEnvironment.allow``: names and patterns of what they are given in addition;
    only the agent directory's file says."""
    checkpoint_bytes: int = 1024 * 1024 * 1024
    """``piRpc.checkpointMegabytes``: what all checkpoints may take up; 0 makes none."""
    hook_timeout_s: float = 10.0
    """``piRpc.hookTimeoutSeconds``: time limit of a hook that was given none, and of loading an
    extension; 0 for none."""
    editor_timeout_s: float = 5.0
    """``piRpc.editorTimeoutSeconds``: how long an editor may take to read, change or save a
    document; 0 for any time."""
    idle_unload_s: float = 1800.0
    """``piRpc.idleUnloadMinutes``: a session that nobody used for so long leaves the memory until
    it is used again; 0 for never. Only the agent directory's file says."""
    local_servers: bool = True
    """``piRpc.localServers``: look for model servers on this machine."""
    ca_file: str | None = None
    """``piRpc.caFile``: a PEM file of authorities that providers' certificates may be from. An
    absolute path. Only the agent directory's file says."""
    permissions: PermissionSettings = PermissionSettings()
    """``piRpc.permissions``; of a project's file only what makes them stricter."""


def load_settings(folder: Path, project: Path | None = None) -> tuple[Settings, list[str]]:
    """The settings of the agent directory ``folder``, and a line about each thing wrong in them.

    With ``project``, the ``.pi`` folder of a project that is trusted, its settings are laid over
    them: objects are merged key by key, other values are replaced, and both lists of skills and of
    prompts count. Never fails: a bad value is named and ignored (in a project's file, the agent
    directory's value then holds), and so is a file that is not JSON. Blocking.
    """
    path = folder / "settings.json"
    raw, problems = read_object(path)
    over: dict[str, Any] | None = None
    if project is not None and project.absolute() != folder.absolute():
        over, more = read_object(project / "settings.json")
        problems = problems + more
    if raw is None and over is None:
        return Settings(), problems
    with one_at_a_time:
        from pi_rpc.harness._settings_file import SettingsFile

    file, unfit = fitting(SettingsFile, raw or {}, path)
    problems += unfit
    permissions, more = _permissions(file.pi_rpc.permissions, path)
    problems += more
    if project is None or over is None:
        return replace(_settings(file, folder), permissions=permissions), problems
    if over.pop("defaultProjectTrust", None) is not None:
        problems.append(
            f"{project / 'settings.json'}: defaultProjectTrust: not a project's to say; ignored"
        )
    own, unfit = fitting(SettingsFile, over, project / "settings.json")
    tighter, more = _tightening(own.pi_rpc.permissions, project / "settings.json")
    merged = SettingsFile.model_validate(_merged(_written(file), _written(own)))
    settings = replace(
        _settings(merged, folder),
        skills=_paths(file.skills, folder),
        prompts=_paths(file.prompts, folder),
        project_skills=_paths(own.skills, project),
        project_prompts=_paths(own.prompts, project),
        permissions=replace(permissions, rules=permissions.rules + tighter),
        ca_file=_placed(file.pi_rpc.ca_file, folder),
        command_environment=file.pi_rpc.command_environment.mode,
        command_variables=tuple(file.pi_rpc.command_environment.allow),
    )
    return settings, [*problems, *unfit, *more]


def update_settings(path: Path, changes: Mapping[str, Any]) -> None:
    """Change the settings file ``path``: keys as written there, objects merged, None removes a key.

    What ``changes`` does not name stays as it is, keys we do not know included. Takes the lock that
    pi takes and replaces the file in one step. Raises ``ValueError`` for a value that does not fit
    (nothing is written), ``pi_rpc.harness._rewriting.RewriteError`` where the file holds no JSON
    object or is locked, and ``OSError``. Blocking.
    """
    from pi_rpc.harness._rewriting import rewrite_object

    with one_at_a_time:
        from pi_rpc.harness._settings_file import SettingsFile

    _, unfit = fitting(SettingsFile, _merged({}, changes), path)
    if unfit:
        raise ValueError("; ".join(problem.removesuffix("; ignored") for problem in unfit))
    rewrite_object(path, lambda before: _merged(before, changes))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``over`` laid on top: objects key by key, None removes."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = _merged(before if isinstance(before, Mapping) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _written(file: "SettingsFile") -> dict[str, Any]:
    """The values of ``file`` that somebody wrote, by their names in the file."""
    return file.model_dump(by_alias=True, exclude_unset=True)


def _paths(entries: list[str], base: Path) -> ResourcePaths:
    return ResourcePaths(entries=tuple(entries), base=base) if entries else ResourcePaths()


def _placed(path: str | None, folder: Path) -> str | None:
    """``path`` as somebody wrote it in a file of ``folder``."""
    if path is None:
        return None
    with suppress(RuntimeError):  # ~name of a user that does not exist
        return str(folder.absolute() / Path(path).expanduser())
    return str(folder.absolute() / path)


def _permissions(file: "PermissionsFile", path: Path) -> tuple[PermissionSettings, list[str]]:
    """What the agent directory's file ``path`` says about permissions, and what is wrong in it."""
    rules, problems = read_rules({"allow": file.allow, "ask": file.ask, "deny": file.deny})
    return PermissionSettings(rules=rules, timeout_s=file.timeout_seconds), [
        f"{path}: piRpc.permissions.{problem}" for problem in problems
    ]


def _tightening(file: "PermissionsFile", path: Path) -> tuple[RuleSet, list[str]]:
    """What a project's file ``path`` may add: it is whoever wrote the project that speaks there."""
    rules, problems = read_rules({"ask": file.ask, "deny": file.deny})
    problems += [
        f"{name}: not a project's to say; ignored"
        for name, written in (("allow", file.allow), ("timeoutSeconds", file.timeout_seconds))
        if written
    ]
    return rules, [f"{path}: piRpc.permissions.{problem}" for problem in problems]


def _settings(file: "SettingsFile", folder: Path) -> Settings:
    retry, compaction = file.retry, file.compaction
    return Settings(
        default_provider=file.default_provider,
        default_model=file.default_model,
        default_thinking_level=file.default_thinking_level,
        steering_mode=file.steering_mode,
        follow_up_mode=file.follow_up_mode,
        session_dir=file.session_dir,
        shell_path=file.shell_path,
        shell_command_prefix=file.shell_command_prefix,
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
        branch_summary=BranchSummarySettings(reserve_tokens=file.branch_summary.reserve_tokens),
        skills=_paths(file.skills, folder),
        prompts=_paths(file.prompts, folder),
        enable_skill_commands=file.enable_skill_commands,
        default_project_trust=file.default_project_trust,
        command_timeout_s=file.pi_rpc.command_timeout_seconds,
        command_environment=file.pi_rpc.command_environment.mode,
        command_variables=tuple(file.pi_rpc.command_environment.allow),
        checkpoint_bytes=file.pi_rpc.checkpoint_megabytes * 1024 * 1024,
        hook_timeout_s=file.pi_rpc.hook_timeout_seconds,
        editor_timeout_s=file.pi_rpc.editor_timeout_seconds,
        idle_unload_s=file.pi_rpc.idle_unload_minutes * 60,
        local_servers=file.pi_rpc.local_servers,
        ca_file=_placed(file.pi_rpc.ca_file, folder),
    )
