"""What a person says: prompts, steering and what follows up, at once or when its turn comes.

Owns the part of ``AgentHarness`` that starts runs, and that fills and empties the queue. What waits
is ``pi_rpc.harness.queue``'s, and when a run takes place ``pi_rpc.harness.activities``'.
"""

from typing import overload

from msgspec.structs import replace

from pi_rpc._os.threads import run_blocking
from pi_rpc.agent.events import Queue
from pi_rpc.agent.messages import AgentMessage
from pi_rpc.harness.activities import Activities
from pi_rpc.harness.configuration import SessionConfiguration
from pi_rpc.harness.core import SessionCore
from pi_rpc.harness.driving import resumable
from pi_rpc.harness.errors import HarnessError
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.queue import Aside, MessageQueue, QueuedMessage, QueueKind, queue_of
from pi_rpc.harness.resources import ResourceError
from pi_rpc.harness.runs import Run
from pi_rpc.session.storage import SessionStorage

__all__ = ["Prompting"]


class Prompting:
    """How runs of a session begin, and what waits for them."""

    session: SessionStorage
    configuration: SessionConfiguration
    queue: MessageQueue
    _core: SessionCore
    _activities: Activities

    @property
    def run(self) -> Run | None:
        """The run that goes on."""
        return self._activities.run

    @overload
    def prompt(self, prompt: str | PromptInput, behavior: None = None) -> Run: ...

    @overload
    def prompt(
        self, prompt: str | PromptInput, behavior: QueueKind | None
    ) -> Run | QueuedMessage: ...

    def prompt(
        self, prompt: str | PromptInput, behavior: QueueKind | None = None
    ) -> Run | QueuedMessage:
        """Start a run; while something goes on, queue with ``behavior`` or refuse as busy."""
        said = _input(prompt)
        if self._activities.current is not None and behavior is not None:
            return self._enqueue(behavior, said)
        self._activities.require_idle(
            "send streamingBehavior 'steer' or 'followUp', or wait until it is idle"
        )
        return self._activities.launch(said)

    def send(self, kind: QueueKind, prompt: str | PromptInput) -> Run | QueuedMessage:
        """Steer or follow up: queue while something goes on, otherwise start a run."""
        return self.prompt(prompt, kind)

    def steer(self, prompt: str | PromptInput) -> Run | QueuedMessage:
        """Say something before the model's next request; idle, it starts a run."""
        return self.prompt(prompt, "steer")

    def follow_up(self, prompt: str | PromptInput) -> Run | QueuedMessage:
        """Say something when the run would end; idle, it starts a run."""
        return self.prompt(prompt, "followUp")

    def next_turn(self, message: str | PromptInput | AgentMessage) -> None:
        """Put a message before the next prompt that starts a run, whenever that is.

        It starts nothing, is no part of the queue that clients see, and outlasts an abort.
        """
        if isinstance(message, str | PromptInput):
            prompt = _input(message)
            self.queue.asides.push(Aside(prompt.message(), prompt))
        else:
            self.queue.asides.push(Aside(message))

    def continue_(self) -> Run:
        """Go on without a new prompt: after an interruption or failure, or with what is queued."""
        self._activities.require_idle()
        if not len(self.queue) and not resumable(self.session.branch()):
            raise HarnessError(
                "nothingToContinue", "the session ends in a finished answer; send a prompt instead"
            )
        return self._activities.launch(None)

    async def skill(self, name: str, arguments: str = "") -> Run:
        """Prompt with a skill of the session's resources."""
        return await self._called(f"skill:{name}", arguments)

    async def prompt_from_template(self, name: str, arguments: str = "") -> Run:
        """Prompt with a prompt template of the session's resources; ``arguments`` as one would
        type them."""
        return await self._called(name, arguments)

    async def expanded(self, prompt: PromptInput) -> PromptInput:
        """``prompt``, with ``/template`` or ``/skill:name`` replaced by what its file says."""
        if not isinstance(prompt.content, str) or not prompt.content.startswith("/"):
            return prompt
        try:
            expansion = await run_blocking(self.configuration.resources.expand, prompt.content)
        except ResourceError as error:
            raise HarnessError("invalidParams", str(error), path="message") from None
        return prompt if expansion is None else replace(prompt, content=expansion.text)

    # --- what waits ------------------------------------------------------------------------------

    def clear_queue(self) -> Queue:
        """Remove everything that waits and return it."""
        return queue_of(self._activities.cleared())

    def remove_queued(self, item_id: str) -> Queue:
        """Remove one message that waits and return it; empty when it does not wait any more."""
        queued = self.queue.remove(item_id)
        if queued is not None:
            self._core.announce_queue()
        return queue_of([queued] if queued is not None else [])

    def withdraw(self, queued: QueuedMessage) -> None:
        """Take back one message: out of the queue, or by stopping the run that has taken it."""
        if self.queue.remove(queued.item.id) is not None:
            self._core.announce_queue()
        elif self.run is not None and not queued.removed:
            queued.withdrawn = True
            self.run.abort()

    # --- inside ----------------------------------------------------------------------------------

    def _enqueue(self, kind: QueueKind, prompt: PromptInput) -> QueuedMessage:
        queued = self.queue.add(kind, prompt)
        self._activities.drop_if_stopped()
        self._core.announce_queue()
        return queued

    async def _called(self, command: str, arguments: str) -> Run:
        self._activities.require_idle()
        typed = PromptInput(f"/{command} {arguments}".rstrip())
        prompt = await self.expanded(typed)
        if prompt is typed:
            raise HarnessError("invalidParams", f"there is no /{command}", path="message")
        return self.prompt(prompt)


def _input(prompt: str | PromptInput) -> PromptInput:
    said = PromptInput(prompt) if isinstance(prompt, str) else prompt
    if not (said.text.strip() or said.all_images or said.attachments):
        raise HarnessError("invalidParams", "message: expected something to say", path="message")
    return said
