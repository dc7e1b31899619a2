"""What the sessions of a process share: settings, models, credentials, tools, the embedded model.

Owns their construction from the agent directory and the environment, each on first use. Does not
own sessions (``pi_rpc.host.host``).
"""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path

import anyio

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.ports import ToolContext
from pi_rpc.agent.tool import AgentTool
from pi_rpc.harness.assembly import Models, choose_model
from pi_rpc.harness.checkpoint_store import CheckpointStore
from pi_rpc.harness.credentials import Credentials
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.extensions import ExtensionSource, installed_extensions
from pi_rpc.harness.model_registry import ModelRegistry, UnknownModelError
from pi_rpc.harness.paths import agent_dir
from pi_rpc.harness.permissions.remembered import RememberedAnswers
from pi_rpc.harness.settings import Settings, load_settings
from pi_rpc.llm.local_servers import LIMIT_S, LOCAL_PROVIDERS, LocalServers
from pi_rpc.llm.messages import ThinkingLevel
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.stream import AssistantMessageStream

__all__ = ["LOCAL_SERVERS_VARIABLE", "Services"]

LOCAL_SERVERS_VARIABLE = "PI_RPC_LOCAL_SERVERS"
_OFF = {"off", "0", "no", "false"}


class Services:
    """Shared by all sessions of a host."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` is the agent directory; None takes pi's (``PI_CODING_AGENT_DIR``)."""
        self.folder = folder or agent_dir(os.environ)
        self._looking = threading.Lock()
        self._extensions: tuple[ExtensionSource, ...] | None = None

    @cached_property
    def _loaded(self) -> tuple[Settings, list[str]]:
        return load_settings(self.folder)

    @property
    def settings(self) -> Settings:
        """What ``settings.json`` says."""
        return self._loaded[0]

    @property
    def problems(self) -> list[str]:
        """A line about each thing that is wrong in the files people write."""
        return [
            *self._loaded[1],
            *self.credentials.problems(),
            *self.models.problems(),
            *self._wrong_default(),
        ]

    def _wrong_default(self) -> list[str]:
        try:
            self.models.default(self.settings)
        except UnknownModelError as error:
            return [f"{self.folder / 'settings.json'}: {error}"]
        return []

    @cached_property
    def credentials(self) -> Credentials:
        """The keys of providers."""
        return Credentials(self.folder)

    @cached_property
    def models(self) -> ModelRegistry:
        """The models there are."""
        return ModelRegistry(
            self.folder, credentials=self.credentials, served=self.local_servers.models
        )

    @cached_property
    def local_servers(self) -> LocalServers:
        """The model servers of this machine."""
        return LocalServers()

    async def look_for_local_servers(self, *, limit_s: float | None = None) -> None:
        """Ask the servers of this machine what they serve, unless that is not wanted.

        Without ``limit_s`` it may take seconds; nobody should have to wait for it.
        """
        if os.environ.get(LOCAL_SERVERS_VARIABLE) in _OFF:
            return
        settings = await run_blocking(lambda: self.settings)
        if not settings.local_servers:
            return
        if limit_s is None:
            await self.local_servers.look()
        else:
            await self.local_servers.look(limit_s=limit_s)

    async def look_for_model(self, name: str | None) -> None:
        """Look for ``name`` (``provider/id``, or a provider) where it is a local server's.

        Waits for an answer once, and not at all where the model is known. Where nothing is named,
        the settings' default counts.
        """
        settings = self.settings
        wanted = name or "/".join(filter(None, (settings.default_provider, settings.default_model)))
        known = any(model.ref == wanted for model in self.local_servers.models())
        if wanted.partition("/")[0] in LOCAL_PROVIDERS and not known:
            await self.look_for_local_servers(limit_s=LIMIT_S)

    @cached_property
    def checkpoints(self) -> CheckpointStore:
        """Where files are kept that runs change, of all sessions but ephemeral ones."""
        folder = self.folder / "pi-rpc" / "checkpoints"
        return CheckpointStore(folder, max_bytes=self.settings.checkpoint_bytes)

    @cached_property
    def remembered(self) -> RememberedAnswers:
        """What people answered once and for all when they were asked for permission."""
        return RememberedAnswers(self.folder)

    async def warm_up(self, model: str | None = None) -> None:
        """Import, read and make what a first prompt, of ``model`` or the default, will need.

        Takes a while, in threads. What is wrong is told when a session begins.
        """
        # Their modules import each other, and more than one library below imports them: here, where
        # no other thread imports yet.
        import importlib.metadata
        import importlib.resources  # noqa: F401

        preload = partial(self._preload, model)
        address = await anyio.to_thread.run_sync(preload, abandon_on_cancel=True)
        from pi_rpc.llm import http

        await http.prepare(address.partition("://")[0], self.settings.ca_file)

    def _preload(self, name: str | None) -> str:
        """The address of the usual model's server."""
        from pi_rpc.agent import arguments
        from pi_rpc.llm.provider import provider_for

        self.tools()
        self.extensions()
        arguments.preload()
        model = None
        with suppress(HarnessError):
            model, _ = self.choose_model(name, None)
        if model is None:
            return "https://"  # Where most models are, once one has been chosen.
        provider_for(model.api)
        return model.base_url

    def tools(self) -> dict[str, AgentTool]:
        """Every built-in tool, by name."""
        from pi_rpc.tools import builtin_tools

        return builtin_tools()

    def extensions(self) -> tuple[ExtensionSource, ...]:
        """The extensions of installed packages; looked for once. Blocks."""
        with self._looking:
            if self._extensions is None:
                self._extensions = installed_extensions()
            return self._extensions

    def choose_model(
        self, wanted: str | None, recorded: tuple[str, str] | None
    ) -> tuple[Model | None, ThinkingLevel | None]:
        """The model to use, and the thinking level that its name asks for.

        ``wanted`` must exist; ``recorded`` (provider and id, from a session file) is used while it
        exists; otherwise the default, or None where none is configured.
        """
        return choose_model(self._asking, wanted or None, recorded)

    def tool_context(self, cwd: Path, environment: Mapping[str, str]) -> ToolContext:
        """What the tools of one session work in and with."""
        from pi_rpc.tools import LocalFiles, LocalShell
        from pi_rpc.tools.command_environment import EnvironmentRules

        limit = self.settings.command_timeout_s
        return ToolContext(
            cwd=cwd,
            files=LocalFiles(),
            shell=LocalShell(
                shell_path=self.settings.shell_path,
                command_prefix=self.settings.shell_command_prefix or "",
                secret_variables=self.credentials.variables,
                environment=EnvironmentRules(
                    self.settings.command_environment, self.settings.command_variables
                ),
            ),
            environment=environment,
            command_timeout_s=limit or None,
        )

    @cached_property
    def _asking(self) -> Models:
        return Models(
            self.folder,
            registry=self.models,
            credentials=self.credentials,
            settings=lambda: self.settings,
            ca_file=self.settings.ca_file,
        )

    def stream(
        self, model: Model, context: Context, options: StreamOptions, /
    ) -> AssistantMessageStream:
        """Ask a model, with its credential; the embedded one is started when it is first asked."""
        return self._asking.stream(model, context, options)

    async def aclose(self) -> None:
        """End the embedded model and close connections."""
        await self._asking.aclose()
