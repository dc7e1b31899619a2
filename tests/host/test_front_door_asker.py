"""Whom a session asks: nobody, until a front door is there and after it has gone."""

from typing import Any

import pytest

from pi_rpc.agent.ports import NobodyAsks
from pi_rpc.host.questions import FrontDoorAsker

pytestmark = pytest.mark.anyio


class Door(NobodyAsks):
    """Agrees with everything and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def confirm(
        self, title: str, message: str = "", *, timeout_s: float | None = None
    ) -> bool:
        self.asked.append((title, message, timeout_s))
        return True

    async def choose(self, title: str, options: Any, **more: Any) -> str | None:
        self.asked.append((title, options, more))
        return "chosen"

    async def enter(self, title: str, placeholder: str = "", **more: Any) -> str | None:
        self.asked.append((title, placeholder, more))
        return "entered"

    async def edit(self, title: str, text: str = "", **more: Any) -> str | None:
        self.asked.append((title, text, more))
        return "edited"

    def notify(self, message: str, level: str = "info") -> None:
        self.asked.append((message, level))

    def status(self, key: str, text: str | None) -> None:
        self.asked.append((key, text))


async def answers(asker: FrontDoorAsker) -> list[Any]:
    asker.notify("look", "warning")
    asker.status("job", None)
    return [
        await asker.confirm("sure?", "really?", timeout_s=1),
        await asker.choose("which?", ["a"], message="more", timeout_s=2),
        await asker.enter("name?", "yours", prefill="me", secret=True),
        await asker.edit("text?", "old", message="more"),
    ]


async def test_nobody_is_asked_where_no_front_door_is() -> None:
    assert await answers(FrontDoorAsker()) == [False, None, None, None]


async def test_what_is_asked_reaches_the_front_door_whole_until_the_session_is_closed() -> None:
    asker, door = FrontDoorAsker(), Door()
    asker.door = door
    assert await answers(asker) == [True, "chosen", "entered", "edited"]
    assert door.asked == [
        ("look", "warning"),
        ("job", None),
        ("sure?", "really?", 1),
        ("which?", ["a"], {"message": "more", "timeout_s": 2}),
        (
            "name?",
            "yours",
            {"message": "", "prefill": "me", "secret": True, "timeout_s": None},
        ),
        ("text?", "old", {"message": "more", "timeout_s": None}),
    ]
    asker.close()
    assert await answers(asker) == [False, None, None, None]
    assert len(door.asked) == 6
