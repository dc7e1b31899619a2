"""The environment of commands: what of ours they are given.

Owns which variables are dropped (keys of model providers, in every permission mode) and, where only
named ones are given, as by default on machines that build and test, which those are. Does not own
what a session adds (``ToolContext.environment``) nor which further variables hold keys: whoever
makes a shell names those.
"""

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["ALLOWED", "EnvironmentMode", "EnvironmentRules", "command_environment", "is_ci"]

EnvironmentMode: TypeAlias = Literal["keys-removed", "allow-list"]

_PROVIDER_KEYS = frozenset(
    {
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_OAUTH_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "COPILOT_GITHUB_TOKEN",
        "HF_TOKEN",
        *(
            f"{provider}_API_KEY"
            for provider in (
                "AI_GATEWAY",
                "ANTHROPIC",
                "ANT_LING",
                "AZURE_OPENAI",
                "BASETEN",
                "CEREBRAS",
                "CLOUDFLARE",
                "DEEPSEEK",
                "FIREWORKS",
                "GEMINI",
                "GOOGLE_CLOUD",
                "GROQ",
                "KIMI",
                "META",
                "MINIMAX",
                "MINIMAX_CN",
                "MISTRAL",
                "MOONSHOT",
                "NVIDIA",
                "OPENAI",
                "OPENCODE",
                "OPENROUTER",
                "RADIUS",
                "TOGETHER",
                "TYPESAFE",
                "XAI",
                "ZAI",
                "ZAI_CODING_CN",
            )
        ),
    }
)
"""Variables whose value is the key of a model provider, and nothing else's."""
_SESSION_VARIABLES = frozenset(
    {"PI_MODEL", "PI_PROVIDER", "PI_REASONING_LEVEL", "PI_SESSION_FILE", "PI_SESSION_ID"}
)
"""Set by whoever runs the command; those of a session around us would be stale."""
_DROPPED_FAMILIES = re.compile(r"PI_RPC_|QWEN_TOKEN_PLAN_|XIAOMI\w*_API_KEY$")

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "the system": (
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "HOSTNAME", "TMPDIR", "TEMP", "TMP",
        "TZ", "LANG", "LANGUAGE", "LC_*", "XDG_*_HOME", "XDG_*_DIRS", "XDG_RUNTIME_DIR",
    ),
    "Windows": (
        "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "USERPROFILE",
        "USERNAME", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
        "PROGRAMFILES*", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
    ),
    "output": ("TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR*"),
    "certificates": (
        "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
    ),
    "toolchains": (
        "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYTHONPATH", "PYTHONUNBUFFERED",
        "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CC", "CXX", "JAVA_HOME",
        "JAVA_HOME_*", "GOPATH", "GOROOT", "GOROOT_*", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR",
        "NODE_ENV", "NODE_PATH", "ANDROID_HOME", "SOURCE_DATE_EPOCH",
    ),
    "runners": (
        "CI", "CONTINUOUS_INTEGRATION", "BUILD_NUMBER", "BUILD_ID", "JOB_NAME", "WORKSPACE",
        "GITHUB_ACTIONS", "GITHUB_WORKSPACE", "GITHUB_REPOSITORY", "GITHUB_REF", "GITHUB_REF_NAME",
        "GITHUB_REF_TYPE", "GITHUB_HEAD_REF", "GITHUB_BASE_REF", "GITHUB_SHA", "GITHUB_ACTOR",
        "GITHUB_EVENT_NAME", "GITHUB_WORKFLOW", "GITHUB_JOB", "GITHUB_RUN_ID", "GITHUB_RUN_NUMBER",
        "GITHUB_RUN_ATTEMPT", "GITHUB_SERVER_URL", "GITHUB_API_URL", "RUNNER_OS", "RUNNER_ARCH",
        "RUNNER_NAME", "RUNNER_TEMP", "RUNNER_TOOL_CACHE",
        "GITLAB_CI", "CI_COMMIT_SHA", "CI_COMMIT_SHORT_SHA", "CI_COMMIT_BRANCH", "CI_COMMIT_TAG",
        "CI_COMMIT_REF_NAME", "CI_DEFAULT_BRANCH", "CI_JOB_ID", "CI_JOB_NAME", "CI_JOB_STAGE",
        "CI_PIPELINE_ID", "CI_PROJECT_DIR", "CI_PROJECT_NAME", "CI_PROJECT_PATH", "CI_SERVER_URL",
        "CIRCLECI", "CIRCLE_BRANCH", "CIRCLE_SHA1", "BUILDKITE", "BUILDKITE_BRANCH",
        "BUILDKITE_COMMIT", "TRAVIS", "TRAVIS_BRANCH", "TRAVIS_COMMIT", "JENKINS_URL", "TF_BUILD",
    ),
}  # fmt: skip
"""The variables that are given where only named ones are, by what they are for; ``*`` stands for
anything. None of them holds a secret; those that a runner puts a token, a password or a URL with
one into are left out, and so are those that name files through which later steps are told what to
do (``GITHUB_ENV``, ``GITHUB_PATH``)."""

_NO_EDITOR = "echo There is no editor here: pass the text as an argument. >&2; false"
_WITHOUT_TERMINAL = {
    "TERM": "dumb",
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), _NO_EDITOR),
}
"""An editor would wait for keys until the time limit: many do not even notice the end of input."""


class EnvironmentRules(Struct, frozen=True):
    """Which variables commands are given."""

    mode: EnvironmentMode | None = None
    """None: the allow-list where ``CI`` is true, else everything but keys."""
    allow: tuple[str, ...] = ()
    """Names that are given in addition, with ``*`` for anything. A key of a provider is given only
    where its whole name is written out."""


def command_environment(
    base: Mapping[str, str],
    also: Collection[str] = (),
    rules: EnvironmentRules = EnvironmentRules(),  # noqa: B008 - it cannot be changed
) -> dict[str, str]:
    """The part of ``base`` that commands are given.

    Dropped are the keys of model providers (``ANTHROPIC_API_KEY``, ``HF_TOKEN`` and the like, by
    name) and those named by ``also``, unless ``rules`` allow them by name; our own variables
    (``PI_RPC_*``) and the variables of a session around us (``PI_SESSION_ID`` and the like). Of
    everything else all stays, other credentials included, or with an allow-list what is on it.
    Programs are told that there is no terminal (``TERM``), and those that want to run an editor get
    one that fails.
    """
    mode = rules.mode or ("allow-list" if is_ci(base) else "keys-removed")

    def is_given(name: str) -> bool:
        if name in _SESSION_VARIABLES or name.startswith("PI_RPC_"):
            return False
        if name in rules.allow:
            return True
        if name in _PROVIDER_KEYS or name in also or _DROPPED_FAMILIES.match(name):
            return False
        return mode == "keys-removed" or _is_listed(name, rules.allow)

    return {**{name: base[name] for name in base if is_given(name)}, **_WITHOUT_TERMINAL}


def is_ci(base: Mapping[str, str]) -> bool:
    """Whether ``CI`` is set and true, as on machines that build and test."""
    return base.get("CI", "").strip().lower() not in {"", "0", "false", "no", "off"}


def _is_listed(name: str, allow: tuple[str, ...]) -> bool:
    patterns = (*allow, *(each for group in ALLOWED.values() for each in group))
    return any(fnmatchcase(name, each) for each in patterns)
