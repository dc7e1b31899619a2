"""The page on models and providers, made from the catalogue and the code that asks them.

Owns ``docs/models.md``; ``python -m pi_rpc.harness.models_page`` prints it. Facts about models are
the catalogue's (``pi_rpc.llm.catalogue``), names of variables ``pi_rpc.harness.credentials``'s, and
flags their structs'; what a dialect can do, and where it was tried, is written here."""

import ast
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from pi_rpc.harness.credentials import ENVIRONMENT_KEYS
from pi_rpc.llm.models import Model

__all__ = ["DIALECTS", "EXAMPLE", "Dialect", "models_page"]


class Dialect(Struct, frozen=True):
    """What is said of a wire dialect."""

    thinking: str
    images: str
    """Where the model may be shown images."""
    caching: str
    """What is sent for the prompt cache."""
    tried: str = ""
    """A real server that it was run against; none: only scripted and recorded answers."""


_LLAMA = "llama.cpp"

DIALECTS = {
    "anthropic-messages": Dialect(
        "effort, or a budget of tokens; signatures and redacted blocks are replayed",
        "messages, results",
        "markers on the system prompt, the last tool and the last message; an hour where long",
        _LLAMA,
    ),
    "openai-responses": Dialect(
        "effort; encrypted items are replayed", "messages, results",
        "`prompt_cache_key`; a day, or 30 minutes, where long", _LLAMA,
    ),
    "openai-completions": Dialect(
        "by `thinkingFormat`, below", "messages; of results in a message behind them",
        "`prompt_cache_key` or Anthropic's markers, by flags below", _LLAMA,
    ),
    "google-generative-ai": Dialect(
        "levels, or a budget of tokens; signatures are replayed", "messages, results",
        "nothing is sent: it is implicit",
    ),
    "mistral-conversations": Dialect(
        "on or off, or effort", "messages, results", "`prompt_cache_key`"
    ),
    "azure-openai-responses": Dialect(
        "as openai-responses", "messages, results", "as openai-responses"
    ),
    "bedrock-converse-stream": Dialect(
        "effort, or a budget of tokens; signatures and redacted blocks are replayed",
        "messages, results", "cache points, for the models that have them",
    ),
}  # fmt: skip

EXAMPLE: dict[str, Any] = {
    "providers": {
        "work": {
            "name": "The gateway at work",
            "baseUrl": "https://models.example.com/v1",
            "api": "openai-completions",
            "apiKey": "$WORK_API_KEY",
            "headers": {"x-team": "engines", "x-token": "!pass show work/token"},
            "compat": {"supportsDeveloperRole": False, "maxTokensField": "max_tokens"},
            "models": [
                {
                    "id": "qwen3-coder",
                    "name": "Qwen3 Coder",
                    "reasoning": True,
                    "thinkingLevelMap": {"minimal": None, "xhigh": "max"},
                    "input": ["text", "image"],
                    "contextWindow": 262144,
                    "maxTokens": 65536,
                    "cost": {"input": 0.4, "output": 1.6, "cacheRead": 0.04, "cacheWrite": 0},
                    "compat": {"thinkingFormat": "qwen"},
                },
                {"id": "claude", "api": "anthropic-messages",
                 "baseUrl": "https://models.example.com/anthropic"},
            ],
        },
        "mine": {
            "baseUrl": "http://127.0.0.1:8080/v1",
            "api": "openai-completions",
            "models": [{"id": "whatever-runs-there", "contextWindow": 65536}],
        },
        "anthropic": {
            "baseUrl": "https://proxy.example.com",
            "authHeader": True,
            "modelOverrides": {"claude-sonnet-4-5": {"maxTokens": 16000, "cost": {"input": 2.5}}},
        },
    }
}  # fmt: skip
"""A ``models.json`` that uses what there is; a test reads it."""

_MORE_STEPS = {
    "amazon-bedrock": "or sign with AWS's own credentials (`AWS_PROFILE`, keys, a role);"
    " `pip install 'pi-rpc[bedrock]'`, `AWS_REGION`",
    "azure": "`AZURE_OPENAI_RESOURCE_NAME` or `AZURE_OPENAI_BASE_URL`;"
    " `AZURE_OPENAI_DEPLOYMENT_NAME_MAP`",
    "anthropic": "`ANTHROPIC_AUTH_TOKEN` is sent as a bearer; a login of pi's is used while it is"
    " valid",
}

_ALSO_NEEDED = {
    "amazon-bedrock": ("AWS_REGION",),
    "azure": ("AZURE_OPENAI_RESOURCE_NAME",),
}
"""Variables beside the key."""

_LEFT_OUT = {
    "github-copilot": "its keys are exchanged by a login of Copilot's own, which is not done here",
    "openai-codex": "for subscribers, behind a login and in a dialect of its own"
    " (`openai-codex-responses`)",
    "google-vertex": "a dialect of its own, with Google's application default credentials; most of"
    " its models are had as `google`",
    "cloudflare-workers-ai, cloudflare-ai-gateway": "their addresses hold ids of an account, which"
    " nothing here fills in; `models.json` adds them with a whole `baseUrl`",
    "radius": "it speaks `pi-messages` only, the dialect of pi's own servers",
    "typesafe": "its model classifies texts and holds no conversations",
}

_INTRODUCTION = """\
# Models and providers

<!-- Generated by `python -m pi_rpc.harness.models_page`; a test compares. -->

`pi-rpc models` lists every model and marks those that can be asked, `--usable` lists these alone;
`pi-rpc models sonnet` says which one a name means. `pi-rpc models --check PROVIDER` asks one tiny
question and says what works. `pi-rpc doctor` says what is configured and what is missing. Clients
have `model/list`, `auth/status`, `auth/set` and `auth/remove` (protocol.md).

## Keys

The first that says something about a provider decides:

1. `auth.json` in the agent directory, which pi shares: `pi-rpc auth set PROVIDER` stores a key
   there, read from standard input or a prompt that shows nothing; `--env NAME` or `--from-command
   LINE` store where to find it; `pi-rpc auth remove PROVIDER` forgets it. The file is readable by
   its owner alone.
2. The environment, by the variables of the table below.
3. `apiKey` in `models.json`, for that provider.

An entry of `auth.json` may have an `env` of its own, as in `{"type": "api_key", "env":
{"AZURE_OPENAI_API_KEY": "...", "AZURE_OPENAI_BASE_URL": "https://..."}}`: variables that hold for
this provider alone and go before those of the environment. For Azure these are the variables
`AZURE_OPENAI_...`; for Bedrock `AWS_REGION`, `AWS_PROFILE`, the files of both, keys and endpoints.
`$NAME` in its `key`, and in `headers` of `models.json` for it, finds them, too. Their values are
read as keys are.

In both files `$NAME` and `${NAME}` stand for a variable, `!command` for what a command of the
shell prints; `$$` and `$!` are a plain `$` and `!`. A command runs once in a process, when its key
is first needed, for at most 10 seconds and 64 KiB; then it is ended with all it started. A failure
is remembered until the key is set anew.

Logins that pi has stored (OAuth) are used while they are valid, and never renewed here: an expired
one is refused with `authRequired`, and `pi auth login PROVIDER` renews it. No other account takes
its place by itself. `pi-rpc auth status` shows where every key comes from. Commands that a model
runs see none of the variables that hold keys.

## Dialects

"""

_DIALECT_NOTES = """
Text, tools with streamed arguments, stop reasons, usage with what was read from the cache, and
cost by the prices of the model are had in all of them. What is cached is kept for the provider's
short time; `PI_CACHE_RETENTION=long` in the environment asks for the long one where there is one
(its writes may cost more), `none` for no caching. An application or a hook can say otherwise.

**†** No dialect was run against its vendor's own server. Those marked † were run against no real
server at all: they are written from the vendor's documentation and compared with the vendor's own
client library on recorded streams. The others were run against llama.cpp's server, which speaks
them.

## Providers

The two lines of a provider are its key and a question to its default model. In place of the first,
`pi-rpc auth set` with the provider's id stores the key; in place of `--model`, `defaultProvider`
and `defaultModel` in `settings.json` choose for all sessions. Thinking and images say how many of
the models can; cached, of how many a price for reading from the cache is known.

| provider | id | key | dialects | models | thinking | images | cached | in two lines |
|---|---|---|---|---|---|---|---|---|
"""

_LOCAL = """
## Proxies and certificates

`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` count, in capitals or not; `localhost`,
`127.0.0.1` and `[::1]` are always asked directly. Where a proxy or a server has a certificate of
a private authority, the setting `piRpc.caFile` names a PEM file that is trusted as well, and so
does `NODE_EXTRA_CA_CERTS`, which pi knows, too. `SSL_CERT_FILE` names a file, or `SSL_CERT_DIR` a
folder, that is trusted in place of the public ones. What they say when the first request is sent
counts until the process ends. `pi-rpc doctor` shows which are set.

## Servers on this machine

Ollama (port 11434), llama.cpp (8080) and LM Studio (1234) are found where they listen, also by
`OLLAMA_HOST`, `LLAMA_ARG_HOST` and `LLAMA_ARG_PORT`, and need no key: their models are `ollama/…`,
`llama.cpp/…` and `lmstudio/…`. The setting `piRpc.localServers` or `PI_RPC_LOCAL_SERVERS=off`
stops the looking. A server elsewhere, or on another port, is added in `models.json`; one on the
loopback needs no `apiKey` there.

`pi-rpc local install` adds a small model of our own, `local/smollm2-135m`, which answers without
key and network. It is there to try things; it is not a good programmer.

## `models.json`

In the agent directory, in pi's format. It adds providers and models, and changes those of the
table: a `baseUrl`, `headers`, `compat` or `apiKey` of a known provider holds for all its models,
`modelOverrides` for one of them, by id. A model that is known already is replaced by one of that
id. `api` and `baseUrl` of a model win over the provider's. `authHeader` sends the key as
`Authorization: Bearer` as well. Comments (`//`) and commas before a
closing bracket are allowed. What is not said is `reasoning` false, `input` text, a window of
128,000 tokens, 16,384 of them for a reply, and no cost. The file is read again when it has
changed; what is wrong in it is named in a diagnostic, and the rest counts.

```json
"""

_FLAGS = """
### Flags of `compat`

How a server differs from its dialect. What is assumed follows from the provider's id and its
address; what is written for a provider or a model wins. A flag of another dialect, or that is not
known, is ignored; one whose value is of the wrong kind is named in a diagnostic, too. So is what of
`samplingParams` can be no parameter: they are put into the request as they are.

"""

_FLAGS_OF_RESPONSES = """
`openai-responses` and `azure-openai-responses` know `supportsDeveloperRole`,
`supportsStrictMode`, `supportsMaxOutputTokens`, `supportsLongCacheRetention`,
`supportsExplicitPromptCacheMode`, `serviceTierFactors` and `sessionAffinityFormat`;
`bedrock-converse-stream` knows `supportsLongCacheRetention`.
"""


def models_page() -> str:
    """The whole page, as Markdown."""
    from pi_rpc.llm.providers._anthropic_compat import AnthropicCompat
    from pi_rpc.llm.providers._completions_compat import Compat

    example = json.dumps(EXAMPLE, indent=2, ensure_ascii=False)
    return "".join(
        (
            _INTRODUCTION,
            *_table(("dialect (`api`)", "thinking", "images in", "prompt cache"), _dialects()),
            _DIALECT_NOTES,
            *_rows(_providers()),
            "\n",
            *(f"- **{name}**: {text}.\n" for name, text in _MORE_STEPS.items()),
            "\n### Left out\n\n",
            *(f"- **{name}**: {text}.\n" for name, text in _LEFT_OUT.items()),
            _LOCAL,
            f"{example}\n```\n",
            _FLAGS,
            "For `openai-completions`:\n\n",
            *_table(("flag", "unless said otherwise", "meaning"), _flags(Compat)),
            "\nFor `anthropic-messages`:\n\n",
            *_table(("flag", "unless said otherwise", "meaning"), _flags(AnthropicCompat)),
            _FLAGS_OF_RESPONSES,
        )
    )


def _table(header: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield from _rows(iter((header, ("---",) * len(header))))
    yield from _rows(rows)


def _rows(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n"


def _dialects() -> Iterator[Sequence[str]]:
    for name, dialect in DIALECTS.items():
        yield f"`{name}`{_mark(name)}", dialect.thinking, dialect.images, dialect.caching


def _mark(api: str) -> str:
    return "" if DIALECTS[api].tried else " †"


def _providers() -> Iterator[Sequence[str]]:
    from pi_rpc.llm.catalogue import models_of, provider_names

    for provider, name in provider_names().items():
        models = models_of(provider)
        apis = dict.fromkeys(model.api for model in models)
        yield (
            name,
            f"`{provider}`",
            ", ".join(f"`{each}`" for each in ENVIRONMENT_KEYS[provider]),
            ", ".join(f"{api}{_mark(api)}" for api in apis),
            str(len(models)),
            _share(models, [model.reasoning for model in models]),
            _share(models, ["image" in model.input for model in models]),
            _share(models, [model.cost.cache_read > 0 for model in models]),
            "<br>".join(f"`{line}`" for line in _two_lines(provider, models[0])),
        )


def _two_lines(provider: str, model: Model) -> tuple[str, str]:
    """What is typed into a shell: the key, and a question."""
    names = ENVIRONMENT_KEYS[provider]
    key = next((name for name in names if name.endswith("_API_KEY")), names[0])
    needed = " ".join(f"{name}=…" for name in (key, *_ALSO_NEEDED.get(provider, ())))
    return f"export {needed}", f'pi-rpc run --model {model.ref} "hello"'


def _share(models: Sequence[Model], having: Sequence[bool]) -> str:
    count = sum(having)
    return "all" if count == len(models) else str(count) if count else "none"


def _flags(flags: type[Any]) -> Iterator[Sequence[str]]:
    described = _attribute_docs(flags)
    for each in fields(flags):
        first, *rest = each.name.split("_")
        name = first + "".join(part.title() for part in rest)
        default = each.default if isinstance(each.default, bool | str) else None
        yield (
            f"`{name}`",
            f"`{json.dumps(default)}`" if default is not None else "",
            (described[each.name]),
        )


def _attribute_docs(owner: type[Any]) -> dict[str, str]:
    """The docstring of each attribute of a class, as one paragraph of Markdown."""
    (node,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(node, ast.ClassDef)
    docs = {}
    for statement, after in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            text = " ".join(str(after.value.value).split())
            docs[statement.target.id] = text.replace("``", "`")
    return docs


if __name__ == "__main__":
    sys.stdout.write(models_page())
