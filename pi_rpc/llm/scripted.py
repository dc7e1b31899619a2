"""The scripted model: replies written in advance, streamed as a provider would.

Owns the api ``scripted``: for our tests, for users' tests, and for trying a client without a key.
It ships in the package and needs no network.

From Python::

    stream_fn = scripted_stream_fn([
        [tool_call("read", {"path": "README.md"})],
        [thinking("easy"), text("It says hello.")],
        lambda context, options: [text(f"{len(context.messages)} messages so far")],
    ])

Each model call takes the next reply. When none is left the call fails with an error that says so,
unless ``loop`` is set: then the list starts over. ``stream_fn.requests`` records what was asked.

From a file, which the environment variable ``PI_RPC_SCRIPT`` names, for ``scripted/scripted``::

    {"replies": [{"steps": [{"thinking": "easy"}, {"text": "Hello."}]},
                 {"steps": [{"toolCall": {"name": "read", "arguments": {"path": "a"}}}]}],
     "repeat": true}

A step has exactly one of these keys:

=============== =================================================================================
``text``        text, in pieces of three to five tokens, or in ``"pieces": N`` equal pieces
``thinking``    reasoning, likewise
``repeatText``  one text block of ``"count": N`` deltas, each this text
``toolCall``    ``{"name", "arguments", "id"?}``; ``"argumentsText"`` instead sends raw text
``error``       the reply fails: ``{"message", "status"?, "retryable"?, "retryAfterMs"?}``;
                status and text decide what kind of failure it is, as for a real provider
``delayMs``     wait that long; an abort cuts it short
``usage``       ``{"input"?, "output"?, "cacheRead"?, "cacheWrite"?}`` instead of the estimate
``stopReason``  ``stop``, ``length`` or ``toolUse`` instead of the one that follows
=============== =================================================================================

The file is read once per process; every session id sees the script from its start. A request beside
a session's conversation (a summary), whose id is the session's with ``#`` and more behind it, takes
that session's next reply.

Usage is estimated: a token is four characters; within a session the part of the prompt that the
last call had, too, counts as read from the cache and the rest as written to it. Ids are
deterministic: ``call_1_2`` is the second call of the first reply.
"""

import inspect
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import anyio.lowlevel
import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from pi_rpc._os.files import read_regular
from pi_rpc._os.threads import run_blocking
from pi_rpc.llm._script_steps import (
    CHARS_PER_TOKEN,
    Reply,
    Step,
    Until,
    UsageStep,
    block_events,
    delay,
    error,
    repeat_text,
    stop_reason,
    text,
    thinking,
    tool_call,
    until,
    usage,
)
from pi_rpc.llm.errors import BadRequestError
from pi_rpc.llm.events import AssistantMessageEvent
from pi_rpc.llm.messages import Usage, UsageCost, Wire
from pi_rpc.llm.models import Model, ModelCost
from pi_rpc.llm.provider import Context, EventBatches, StreamOptions
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder
from pi_rpc.llm.transform import clean_json
from pi_rpc.wire_errors import with_alternatives

__all__ = [
    "Reply",
    "ScriptedModel",
    "ScriptedReply",
    "ScriptedRequest",
    "Step",
    "delay",
    "error",
    "repeat_text",
    "scripted_model",
    "scripted_stream_fn",
    "stop_reason",
    "stream",
    "text",
    "thinking",
    "tool_call",
    "until",
    "usage",
]

_SCRIPT_VARIABLE = "PI_RPC_SCRIPT"
_CACHED_SESSIONS = 64
"""Of so many sessions, those that asked last, it is known what they had asked before."""
_MAX_SCRIPT_BYTES = 64 * 1024 * 1024
ScriptedReply: TypeAlias = Reply | Callable[[Context, StreamOptions], Reply | Awaitable[Reply]]
"""A reply, or a function that makes one from what was asked."""


def scripted_model() -> Model:
    """The model that speaks the api ``scripted``."""
    return Model(
        id="scripted",
        name="Scripted",
        api="scripted",
        provider="scripted",
        base_url="",
        reasoning=True,
        input=["text", "image"],
        cost=ModelCost(input=0, output=0, cache_read=0, cache_write=0),
        context_window=200_000,
        max_tokens=32_000,
    )


class ScriptedRequest(Struct, frozen=True):
    """What one call asked; messages and tools are copied."""

    model: Model
    context: Context
    options: StreamOptions


class _Progress(Struct):
    """How far a script has come for whoever reads it."""

    taken: int = 0
    prompts: dict[str, str] = field(default_factory=dict)


class ScriptedModel:
    """A queue of replies; calling it is a ``StreamFn``."""

    def __init__(self, replies: Sequence[ScriptedReply] = (), *, loop: bool = False) -> None:
        self._replies = list(replies)
        self._loop = loop
        self._progress = _Progress()
        self.requests: list[ScriptedRequest] = []
        """What was asked so far, oldest first."""

    def push(self, *replies: ScriptedReply) -> None:
        """Add replies at the end."""
        self._replies.extend(replies)

    @property
    def pending(self) -> int:
        """Replies that were not taken yet; of a looping script, of this round."""
        taken = self._progress.taken
        return len(self._replies) - (taken % len(self._replies) if self._loop else taken)

    def __call__(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Stream the next reply. It is taken when the stream is first read."""
        copy = Context(
            messages=list(context.messages),
            system_prompt=context.system_prompt,
            tools=list(context.tools),
        )

        def produce(builder: MessageBuilder) -> EventBatches:
            self.requests.append(ScriptedRequest(model, copy, options))
            script = _Script(self._replies, self._loop, self._progress)
            return _play(script, copy, options, builder)

        return AssistantMessageStream(model, produce, options.signal)


def scripted_stream_fn(
    replies: Sequence[ScriptedReply] = (), *, loop: bool = False
) -> ScriptedModel:
    """A ``StreamFn`` that answers with ``replies``, one per call, whatever the model."""
    return ScriptedModel(replies, loop=loop)


class _FileReply(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    steps: list[Step]


class _File(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    replies: list[_FileReply]
    repeat: bool = False


class _LoadedFile(Struct):
    replies: list[ScriptedReply]
    repeat: bool
    sessions: dict[str, _Progress] = field(default_factory=dict)
    """By id; the one that asked last comes last."""


_files: dict[str, _LoadedFile] = {}


async def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> AsyncIterator[list[AssistantMessageEvent]]:
    """The provider of the api ``scripted``: plays the file that ``PI_RPC_SCRIPT`` names."""
    path = os.environ.get(_SCRIPT_VARIABLE, "")
    if not path:
        raise BadRequestError(
            f"the model {model.ref} plays a script: name its file in {_SCRIPT_VARIABLE}"
        )
    if path not in _files:
        loaded = await _load(path)
        _files.setdefault(path, loaded)  # another session may have begun to play it meanwhile
    script = _files[path]
    session = (options.session_id or "").partition("#")[0]
    progress = script.sessions.pop(session, None) or _Progress()
    script.sessions[session] = progress
    for older in islice(reversed(script.sessions.values()), _CACHED_SESSIONS, None):
        if not older.prompts:
            break
        older.prompts.clear()
    playing = _play(_Script(script.replies, script.repeat, progress), context, options, builder)
    async with aclosing(playing):
        async for batch in playing:
            yield batch


async def _load(path: str) -> _LoadedFile:
    try:
        raw, left_out = await run_blocking(read_regular, Path(path), _MAX_SCRIPT_BYTES)
        if left_out:
            limit = _MAX_SCRIPT_BYTES // 2**20
            raise BadRequestError(f"the script {path} is larger than {limit} MiB")
        file = _decoded(raw)
    except OSError as failure:
        raise BadRequestError(
            f"the script {path} cannot be read: {failure.strerror or failure}"
        ) from failure
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise BadRequestError(f"the script {path} is not valid: {failure}") from failure
    return _LoadedFile(replies=[reply.steps for reply in file.replies], repeat=file.repeat)


def _decoded(raw: bytes) -> _File:
    try:
        return msgspec.json.decode(raw, type=_File)
    except msgspec.ValidationError as failure:
        said = with_alternatives(str(failure), msgspec.json.decode(raw), _File)
        raise msgspec.ValidationError(said) from None


class _Script(Struct, frozen=True):
    replies: Sequence[ScriptedReply]
    loop: bool
    progress: _Progress


async def _play(
    script: _Script,
    context: Context,
    options: StreamOptions,
    builder: MessageBuilder,
) -> AsyncGenerator[list[AssistantMessageEvent], None]:
    replies, loop, progress = script.replies, script.loop, script.progress
    number = progress.taken
    if not replies or (number >= len(replies) and not loop):
        raise BadRequestError(
            f"the script has no reply left: it has {len(replies)} and this is call {number + 1}"
        )
    progress.taken += 1
    scripted = replies[number % len(replies)]
    if callable(scripted):
        made = scripted(context, options)
        reply = await made if inspect.isawaitable(made) else made
    else:
        reply = scripted
    builder.response_id = f"scripted-{number + 1}"
    builder.usage = _prompt_usage(progress, context, options)
    prompt_usage, output_chars, calls = builder.usage, 0, 0
    reason: Literal["stop", "length", "toolUse"] | UnsetType = UNSET
    given: Usage | None = None
    for step in reply:
        if isinstance(step, Until):
            await step.wait()
        elif step.delay_ms is not UNSET:
            await anyio.sleep(step.delay_ms / 1000)
        elif step.error is not UNSET:
            from pi_rpc.llm.failures import failure_with

            raise failure_with(
                step.error.message,
                status=step.error.status,
                retryable=step.error.retryable,
                retry_after_ms=step.error.retry_after_ms,
            )
        elif step.usage is not UNSET:
            given = builder.usage = _given_usage(step.usage)
        elif step.stop_reason is not UNSET:
            reason = step.stop_reason
        else:
            calls += step.tool_call is not UNSET
            for batch, chars in block_events(step, builder, f"call_{number + 1}_{calls}"):
                output_chars += chars
                builder.usage = given or _with_output(prompt_usage, output_chars)
                yield batch
                await anyio.lowlevel.checkpoint()
    builder.stop_reason = reason or ("toolUse" if calls else "stop")


def _tokens(characters: int) -> int:
    return -(-characters // CHARS_PER_TOKEN)


def _given_usage(step: UsageStep) -> Usage:
    return Usage(
        input=step.input,
        output=step.output,
        cache_read=step.cache_read,
        cache_write=step.cache_write,
        total_tokens=step.input + step.output + step.cache_read + step.cache_write,
        cost=UsageCost.ZERO,
    )


def _with_output(prompt: Usage, characters: int) -> Usage:
    output = _tokens(characters)
    return msgspec.structs.replace(prompt, output=output, total_tokens=prompt.total_tokens + output)


def _prompt_usage(progress: _Progress, context: Context, options: StreamOptions) -> Usage:
    sent = [context.tools, context.messages]
    try:
        text = msgspec.json.encode(sent)
    except UnicodeEncodeError:
        text = msgspec.json.encode(clean_json(msgspec.to_builtins(sent)))
    prompt = context.system_prompt + text.decode()
    total = _tokens(len(prompt))
    session = options.session_id
    if session is None or options.cache_retention == "none":
        return _given_usage(UsageStep(input=total))
    known = progress.prompts.get(session)
    progress.prompts[session] = prompt
    read = 0 if known is None else _common_prefix(known, prompt) // CHARS_PER_TOKEN
    return _given_usage(UsageStep(cache_read=read, cache_write=total - read))


def _common_prefix(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
