"""The person behind the client, as a session's own code asks them.

Owns the step from the ``Asker`` port to ``ui/*`` and back. Sending and waiting is
``pi_rpc.server.questions``'s.
"""

from collections.abc import Sequence

from msgspec import UNSET

from pi_rpc.agent.ports import Choice, NoticeLevel
from pi_rpc.host.hosted import HostedSession
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.protocol import client_requests as c
from pi_rpc.server.events import EventStream
from pi_rpc.server.questions import Questions, milliseconds

__all__ = ["ClientAsker"]


class ClientAsker:
    """The ``Asker`` of one session of a client."""

    def __init__(
        self, hosted: HostedSession, questions: Questions, peer: Peer, events: EventStream
    ) -> None:
        self._hosted = hosted
        self._questions = questions
        self._peer = peer
        self._events = events

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        """``ui/confirm``."""
        params = c.UiConfirmParams(
            request_id=self._questions.new_id(),
            session_id=self._hosted.id,
            timeout_ms=milliseconds(timeout_s),
            title=title,
            message=message or UNSET,
        )
        answer = await self._questions.ask(c.UI_CONFIRM, params, self._hosted)
        return answer is not None and answer.confirmed is True and not answer.cancelled

    async def choose(
        self,
        title: str,
        options: Sequence[str | Choice],
        *,
        message: str = "",
        timeout_s: float | None = None,
    ) -> str | None:
        """``ui/select``. Raises ``ValueError`` when there is nothing to choose from."""
        if not options:
            raise ValueError("there is nothing to choose from")
        choices = [_option(each) for each in options]
        params = c.UiSelectParams(
            request_id=self._questions.new_id(),
            session_id=self._hosted.id,
            timeout_ms=milliseconds(timeout_s),
            title=title,
            options=choices,
            message=message or UNSET,
        )
        chosen = _text(await self._questions.ask(c.UI_SELECT, params, self._hosted))
        if chosen is None or any(chosen == each.value for each in choices):
            return chosen
        why = f"{chosen[:100]!r} is not among the options"
        self._questions.misunderstood(c.UI_SELECT.method, why, self._hosted)
        return None

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
        """``ui/input``."""
        params = c.UiInputParams(
            request_id=self._questions.new_id(),
            session_id=self._hosted.id,
            timeout_ms=milliseconds(timeout_s),
            title=title,
            message=message or UNSET,
            placeholder=placeholder or UNSET,
            prefill=prefill or UNSET,
            secret=secret or UNSET,
        )
        return _text(await self._questions.ask(c.UI_INPUT, params, self._hosted))

    async def edit(
        self, title: str, text: str = "", *, message: str = "", timeout_s: float | None = None
    ) -> str | None:
        """``ui/editor``."""
        params = c.UiEditorParams(
            request_id=self._questions.new_id(),
            session_id=self._hosted.id,
            timeout_ms=milliseconds(timeout_s),
            title=title,
            message=message or UNSET,
            prefill=text or UNSET,
        )
        return _text(await self._questions.ask(c.UI_EDITOR, params, self._hosted))

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """``ui/notify``."""
        self._events.flush(self._hosted)
        params = c.UiNotifyParams(session_id=self._hosted.id, level=level, message=message)
        self._peer.notify("ui/notify", params)

    def status(self, key: str, text: str | None) -> None:
        """``ui/status``."""
        params = c.UiStatusParams(session_id=self._hosted.id, key=key, text=text or UNSET)
        self._peer.notify("ui/status", params)


def _option(option: str | Choice) -> c.UiOption:
    if isinstance(option, Choice):
        return c.UiOption(
            value=option.value, label=option.label, description=option.description or UNSET
        )
    return c.UiOption(value=option, label=option)


def _text(answer: c.UiTextResult | None) -> str | None:
    if answer is None or answer.cancelled or answer.value is UNSET:
        return None
    return answer.value
