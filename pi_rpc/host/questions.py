"""Who asks the person of a session: whoever the front door puts in front of them.

Owns that a session can ask from its first moment to its last, and that nobody is asked where no
front door is. Does not own how a person is asked (the front door's ``Asker``).
"""

from collections.abc import Sequence

from pi_rpc.agent.ports import Asker, Choice, NobodyAsks, NoticeLevel

__all__ = ["FrontDoorAsker"]


class FrontDoorAsker:
    """The ``Asker`` of a session; ``door`` is set while there is somebody to ask."""

    def __init__(self) -> None:
        self.door: Asker = NobodyAsks()
        """Whom the front door has put in place."""

    def close(self) -> None:
        """The session is closed: nobody is asked any more."""
        self.door = NobodyAsks()

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        """As ``Asker``."""
        return await self.door.confirm(title, message, timeout_s=timeout_s)

    async def choose(
        self,
        title: str,
        options: Sequence[str | Choice],
        *,
        message: str = "",
        timeout_s: float | None = None,
    ) -> str | None:
        """As ``Asker``."""
        return await self.door.choose(title, options, message=message, timeout_s=timeout_s)

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
        """As ``Asker``."""
        return await self.door.enter(
            title,
            placeholder,
            message=message,
            prefill=prefill,
            secret=secret,
            timeout_s=timeout_s,
        )

    async def edit(
        self, title: str, text: str = "", *, message: str = "", timeout_s: float | None = None
    ) -> str | None:
        """As ``Asker``."""
        return await self.door.edit(title, text, message=message, timeout_s=timeout_s)

    def notify(self, message: str, level: NoticeLevel = "info") -> None:
        """As ``Asker``."""
        self.door.notify(message, level)

    def status(self, key: str, text: str | None) -> None:
        """As ``Asker``."""
        self.door.status(key, text)
