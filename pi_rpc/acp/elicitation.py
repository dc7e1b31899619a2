"""The person behind the client, as a session's own code asks them: ``elicitation/create``.

Owns the step from the ``Asker`` port to a form with one field, and back.
"""

from collections.abc import Sequence
from typing import Any

from pi_rpc.acp import questions as q
from pi_rpc.acp.stream import SessionStream
from pi_rpc.agent.ports import Choice, NoticeLevel
from pi_rpc.host.hosted import HostedSession
from pi_rpc.jsonrpc.asking import Asking

__all__ = ["ClientAsker"]

_METHOD = "elicitation/create"
_FIELD = "answer"


class ClientAsker:
    """The ``Asker`` of one session of a client."""

    def __init__(self, hosted: HostedSession, asking: Asking, stream: SessionStream) -> None:
        self._hosted = hosted
        self._asking = asking
        self._stream = stream

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        """A box to tick."""
        form = {"type": "boolean", "title": title, "default": True}
        return await self._ask(title, message, form, timeout_s) is True

    async def choose(
        self,
        title: str,
        options: Sequence[str | Choice],
        *,
        message: str = "",
        timeout_s: float | None = None,
    ) -> str | None:
        """One of several. Raises ``ValueError`` when there is nothing to choose from."""
        if not options:
            raise ValueError("there is nothing to choose from")
        choices = [each if isinstance(each, Choice) else Choice(each, each) for each in options]
        listed = [{"const": each.value, "title": each.label} for each in choices]
        form = {"type": "string", "title": title, "oneOf": listed}
        chosen = await self._ask(title, message, form, timeout_s)
        return chosen if any(chosen == each.value for each in choices) else None

    async def enter(
        self,
        title: str,
        placeholder: str = "",
        *,
        message: str = "",
        prefill: str = "",
        secret: bool = False,
        timeout_s: float | None = None,
    ) -> str | None:
        """A line of text; nothing secret is asked for in a form that shows it."""
        if secret:
            return None
        form = {"type": "string", "title": title}
        if prefill:
            form["default"] = prefill
        if placeholder:
            form["description"] = placeholder
        return _text(await self._ask(title, message, form, timeout_s))

    async def edit(
        self, title: str, text: str = "", *, message: str = "", timeout_s: float | None = None
    ) -> str | None:
        """A text as the person leaves it."""
        form = {"type": "string", "title": title, "default": text}
        return _text(await self._ask(title, message, form, timeout_s))

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """A notice."""
        self._stream.tell(self._stream.updates.notice(level, message))

    def status(self, key: str, text: str | None) -> None:
        """Clients have no place for it."""

    async def _ask(
        self, title: str, message: str, form: dict[str, Any], timeout_s: float | None
    ) -> Any:
        self._stream.flush()
        params = q.ElicitationParams(
            session_id=self._hosted.id,
            message=f"{title}\n{message}" if message else title,
            requested_schema={
                "type": "object",
                "properties": {_FIELD: form},
                "required": [_FIELD],
            },
        )
        answer = await self._asking.ask(_METHOD, params, q.ElicitationResult, timeout_s=timeout_s)
        if answer is None or answer.action != "accept" or answer.content is None:
            return None
        return answer.content.get(_FIELD)


def _text(answer: Any) -> str | None:
    return answer if isinstance(answer, str) else None
