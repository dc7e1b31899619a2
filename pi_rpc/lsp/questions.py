"""The person in front of the editor: asked for permission and by a session's own code, in messages.

Owns the step from the ports ``PermissionAsker`` and ``Asker`` to ``window/showMessageRequest`` and
back. LSP asks for one of several answers and for nothing else: what takes a text is not asked.
"""

from collections.abc import Sequence

import anyio

from pi_rpc.agent.permission import PermissionAnswer, PermissionRequest
from pi_rpc.agent.ports import Choice, NoticeLevel
from pi_rpc.host.permission_messages import message_options, message_text
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.lsp import shapes as s
from pi_rpc.lsp.telling import Telling

__all__ = ["ClientAsker", "ClientPermissions", "choose"]

_METHOD = "window/showMessageRequest"
_LEVELS = {"info": s.INFO, "warning": s.WARNING, "error": s.ERROR}


async def choose(
    asking: Asking,
    message: str,
    titles: Sequence[str],
    *,
    level: int = s.INFO,
    timeout_s: float | None = None,
) -> str | None:
    """The title that the person chose; None: none of them."""
    params = {"type": level, "message": message, "actions": [{"title": each} for each in titles]}
    answer = await asking.ask(_METHOD, params, s.MessageAction, timeout_s=timeout_s)
    return answer.title if answer is not None and answer.title in titles else None


class ClientPermissions:
    """The ``PermissionAsker`` of one session."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._waiting: dict[str, anyio.CancelScope] = {}

    def can_ask(self) -> bool:
        """Every editor answers these, as far as is known."""
        return self._asking.can_ask(_METHOD)

    async def request(
        self, request: PermissionRequest, *, timeout_s: float | None = None
    ) -> PermissionAnswer | None:
        """A message with a button for each option."""
        options = message_options(request)
        scope = self._waiting[request.tool_call_id] = anyio.CancelScope()
        chosen: str | None = None
        try:
            with scope:
                chosen = await choose(
                    self._asking,
                    message_text(request),
                    list(options),
                    level=s.WARNING,
                    timeout_s=timeout_s,
                )
        finally:
            if self._waiting.get(request.tool_call_id) is scope:
                del self._waiting[request.tool_call_id]
        return None if chosen is None else PermissionAnswer(option_id=options[chosen])

    def settle(self, tool_call_id: str) -> None:
        """The editor is told that the question is moot."""
        if (scope := self._waiting.get(tool_call_id)) is not None:
            scope.cancel()


class ClientAsker:
    """The ``Asker`` of one session."""

    def __init__(self, asking: Asking, telling: Telling) -> None:
        self._asking = asking
        self._telling = telling

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        """Yes or no."""
        asked = _text(title, message)
        answer = await choose(self._asking, asked, ("Yes", "No"), timeout_s=timeout_s)
        return answer == "Yes"

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
        values: dict[str, str] = {}
        for each in options:
            choice = each if isinstance(each, Choice) else Choice(each, each)
            values.setdefault(choice.label, choice.value)
        asked = _text(title, message)
        chosen = await choose(self._asking, asked, list(values), timeout_s=timeout_s)
        return None if chosen is None else values[chosen]

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
        """Cannot be asked."""
        del title, placeholder, message, prefill, secret, timeout_s
        return None

    async def edit(
        self, title: str, text: str = "", *, message: str = "", timeout_s: float | None = None
    ) -> str | None:
        """Cannot be asked."""
        del title, text, message, timeout_s
        return None

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """A message."""
        self._telling.message(_LEVELS[level], message)

    def status(self, key: str, text: str | None) -> None:
        """Editors have no place for it."""


def _text(title: str, message: str) -> str:
    return f"{title}\n{message}" if message else title
