"""What an application that embeds a harness brings, put together.

Owns ``ExecutionEnv``, ``Models`` and the defaults of ``AgentHarness.create``. The host of front
doors puts its sessions together itself, of settings and command line (``pi_rpc.host.host``).
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from pi_rpc.agent.ports import FileSystem, Shell, ToolContext
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.credentials import CredentialError, Credentials, key_variables
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.model_registry import ModelChoice, ModelRegistry, UnknownModelError
from pi_rpc.harness.paths import agent_dir
from pi_rpc.harness.resources import Resources
from pi_rpc.harness.settings import Settings, load_settings
from pi_rpc.llm.errors import AuthError
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import THINKING_LEVELS, Model
from pi_rpc.llm.provider import (
    Context,
    EventBatches,
    StreamFn,
    StreamOptions,
    cache_retention_of,
    provider_for,
)
from pi_rpc.llm.stream import AssistantMessageStream, MessageBuilder
from pi_rpc.session.context import build_context
from pi_rpc.session.storage import SessionStorage

if TYPE_CHECKING:
    from pi_rpc.llm.local import LocalModelServer

__all__ = ["Assembled", "ExecutionEnv", "ModelSource", "Models", "assembled", "choose_model"]

_LOCAL_MODEL = "local/smollm2-135m"


class ExecutionEnv(Struct, frozen=True):
    """Where a session's tools work: files and a shell."""

    files: FileSystem
    shell: Shell

    @classmethod
    def local(cls) -> "ExecutionEnv":
        """This machine, as whoever runs the process may use it."""
        from pi_rpc.tools import LocalFiles, LocalShell

        return cls(LocalFiles(), LocalShell())


class ModelSource(Protocol):
    """Models, by name, and how one is asked."""

    def choose(self, ref: str | Mapping[str, str]) -> ModelChoice:
        """The model that ``ref`` means; raises ``UnknownModelError``."""
        ...

    def default(self) -> Model | None:
        """The model to ask when none was named; raises ``UnknownModelError``."""
        ...

    def authenticated(self, model: Model) -> bool:
        """Whether ``model`` can be asked; cheap."""
        ...

    def stream(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Start a reply. Never raises: failures are part of the stream."""
        ...


class Models:
    """The models of pi's catalogue and ``models.json``, asked with the keys of their providers."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        registry: ModelRegistry | None = None,
        credentials: Credentials | None = None,
        settings: Callable[[], Settings] | None = None,
        ca_file: str | None = None,
    ) -> None:
        """``folder`` is the agent directory; None takes pi's (``PI_CODING_AGENT_DIR``).

        ``settings`` name the default model; None reads them whenever it is asked for. ``ca_file``
        is trusted where the options of a request name no other.
        """
        self._folder = folder or agent_dir()
        self.credentials = credentials or Credentials(self._folder)
        self.registry = registry or ModelRegistry(self._folder, self.credentials)
        self.choose = self.registry.choose
        self.authenticated = self.registry.authenticated
        self.unusable = self.registry.unusable
        self._settings = settings or (lambda: load_settings(self._folder)[0])
        self._ca_file = ca_file
        self._local: LocalModelServer | None = None

    def default(self) -> Model | None:
        """The default of ``settings.json`` if it exists, else the first with a key; reads files."""
        try:
            return self.registry.default(self._settings())
        except UnknownModelError:
            return self.registry.default(Settings())

    def stream(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Ask a model, with its credential; the embedded one is started when it is first asked."""
        if model.ref == _LOCAL_MODEL:
            if self._local is None:
                from pi_rpc.llm.local import LocalModelServer

                self._local = LocalModelServer()
            return self._local.stream(model, context, options)

        async def produce(builder: MessageBuilder) -> EventBatches:
            signed = await self._signed(model, options)
            reply = provider_for(model.api)(model, context, signed, builder)
            async with aclosing(reply) as batches:
                async for batch in batches:
                    yield batch

        return AssistantMessageStream(model, produce, options.signal)

    async def _signed(self, model: Model, options: StreamOptions) -> StreamOptions:
        try:
            key = options.api_key or await self.credentials.api_key(model.provider)
            own = await self.credentials.headers(model)
            environment = await self.credentials.environment(model.provider)
        except CredentialError as error:
            raise AuthError(error.message) from None
        headers = {**own, **options.headers}
        # A header of any name may hold a credential.
        environment.update(options.environment)
        hidden = key_variables()
        keys = [value for name, value in environment.items() if name in hidden]
        return replace(
            options,
            api_key=key,
            headers=headers,
            secrets=(*options.secrets, *own.values(), *keys),
            environment=environment,
            ca_file=options.ca_file or self._ca_file,
        )

    async def aclose(self) -> None:
        """End the embedded model and close connections."""
        if self._local is not None:
            await self._local.aclose()
        if (http := sys.modules.get("pi_rpc.llm.http")) is not None:  # else none was opened
            await http.aclose_clients()


class Assembled(Struct, frozen=True):
    """What ``AgentHarness`` is made of."""

    configuration: SessionConfiguration
    stream_fn: StreamFn
    tool_context: ToolContext


def assembled(
    session: SessionStorage,
    *,
    env: ExecutionEnv | None,
    models: ModelSource | None,
    tools: Sequence[AgentTool],
    active_tools: Sequence[str] | None,
    resources: Resources | None,
    stream_options: StreamOptions | None,
    tool_context: ToolContext | None,
    model: Model | str | None,
    thinking_level: ThinkingLevel | None,
    stream_fn: StreamFn | None,
) -> Assembled:
    """The parts of a harness; see ``AgentHarness.create``. Raises ``HarnessError``."""
    if stream_options is None:
        stream_options = StreamOptions(cache_retention=cache_retention_of(os.environ))
    cwd = Path(session.cwd)
    if env is None and tool_context is None:
        env = ExecutionEnv.local()
    if tool_context is None:
        assert env is not None
        tool_context = ToolContext(cwd=cwd, files=env.files, shell=env.shell)
    elif env is not None:
        tool_context = replace(tool_context, files=env.files, shell=env.shell)
    if models is None and (stream_fn is None or isinstance(model, str)):
        models = Models()
    branch = session.branch()
    context = build_context(branch)
    recorded = next((each for each in THINKING_LEVELS if each == context.thinking_level), None)
    chosen, named_level = _chosen(models, model, context.model)
    configuration = SessionConfiguration(
        cwd=cwd,
        tools={tool.name: tool for tool in tools},
        named_tools=_known_tools(context.active_tools, tools),
        chosen_tools=context.active_tools,
        model=chosen,
        thinking_level=thinking_level or named_level or (recorded if branch else None) or "off",
        name=session.name,
        stream_options=stream_options,
        idle_timeout_s=stream_options.idle_timeout_s,
        resources=resources or Resources(),
    )
    if active_tools is not None:
        configuration.activate(list(active_tools))
    if models is not None:
        configuration.authenticated = models.authenticated if stream_fn is None else _anyone
        if isinstance(models, Models):
            configuration.unusable = models.unusable
        stream_fn = stream_fn or models.stream
    assert stream_fn is not None
    return Assembled(configuration, stream_fn, tool_context)


def _known_tools(recorded: list[str] | None, tools: Sequence[AgentTool]) -> list[str] | None:
    """The tools that the session used last, as far as there are such."""
    if recorded is None:
        return None
    known = {tool.name for tool in tools}
    return [name for name in recorded if name in known]


def _anyone(_model: Model) -> bool:
    return True


def _chosen(
    models: ModelSource | None, wanted: Model | str | None, recorded: tuple[str, str] | None
) -> tuple[Model | None, ThinkingLevel | None]:
    if isinstance(wanted, Model) or models is None:
        return (wanted if isinstance(wanted, Model) else None), None
    return choose_model(models, wanted, recorded)


def choose_model(
    models: ModelSource, wanted: str | None, recorded: tuple[str, str] | None
) -> tuple[Model | None, ThinkingLevel | None]:
    """The model to use, and the thinking level that its name asks for.

    ``wanted`` must exist, or ``HarnessError`` is raised; ``recorded`` (provider and id, from a
    session) is used while it exists; otherwise the default, or None where none is configured.
    """
    try:
        if wanted is not None:
            return models.choose(wanted)
        if recorded is not None:
            try:
                return models.choose({"provider": recorded[0], "id": recorded[1]})
            except UnknownModelError:
                pass  # It is gone, or was never ours: the default takes its place.
        return models.default(), None
    except UnknownModelError as error:
        raise HarnessError("modelNotFound", error.message) from None
