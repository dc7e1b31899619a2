"""What the processes do that ``test_crash_kills`` kills: one function for each kind of change.

A scene tells of everything that it may rely on from then on, as soon as it may.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from pi_rpc.agent.events import EntryAppended, MessageEnd
from pi_rpc.harness.branching import BranchRequest
from pi_rpc.harness.inputs import PromptInput
from pi_rpc.harness.runs import Run
from pi_rpc.harness.settings import CompactionSettings, RetrySettings
from pi_rpc.llm.provider import Context, StreamOptions
from pi_rpc.llm.scripted import Step, error, text, tool_call
from pi_rpc.session import JsonlSession, JsonlSessionRepo
from pi_rpc.session.stored import StoredEntry
from tests.agent.stage import tool
from tests.harness.hall import Hall, hall
from tests.session.builders import (
    assistant,
    custom_entry,
    message_entry,
    model_entry,
    name_entry,
    user_entry,
)


class Told(msgspec.Struct, frozen=True):
    """What a scene announced: entries that are in a file, and where the session stands."""

    file: str
    lines: tuple[str, ...]
    leaf: str | None


Tell = Callable[[Told], None]
Scene = Callable[[Path, Tell], Awaitable[None]]


def told_of(session: JsonlSession, stored: Sequence[StoredEntry]) -> Told:
    lines = tuple(each.raw.decode() for each in stored)
    return Told(str(session.path), lines, session.leaf_id)


def file_in(folder: Path) -> Path:
    """The session that a scene begins with."""
    return folder / "s.jsonl"


async def opened(folder: Path) -> JsonlSession:
    found = sorted(folder.glob("*.jsonl"))
    if found:
        return await JsonlSession.open(found[0])
    return await JsonlSession.create(folder, "/w")


async def append(folder: Path, tell: Tell) -> None:
    """Entries of all sizes, alone and several at once, from the first one of a file on."""
    session = await opened(folder)
    for number in range(4):
        one = await session.append(user_entry(session, f"{number} " + "é\n" * (number * 200)))
        tell(told_of(session, [one]))
        several = [
            message_entry(session, assistant("a" * (number * 12_000))),
            custom_entry(session, {"number": number}),
            name_entry(session, f"name {number}"),
        ]
        tell(told_of(session, await session.append_many(several)))
        if number % 2:
            await session.sync()
        moved = await session.set_leaf_id(one.id)
        assert moved is not None
        tell(told_of(session, [moved]))
    await session.aclose()


@asynccontextmanager
async def performed(
    folder: Path, tell: Tell, replies: list[list[Step]]
) -> AsyncIterator[tuple[Hall, JsonlSession]]:
    """A harness on the session in ``folder``; what its listeners hear is told."""
    session = await opened(folder)
    rest = iter(replies)

    def reply(_: Context, options: StreamOptions) -> list[Step]:
        # However many requests a summary takes.
        return [text("## Goal\nall")] if "#" in (options.session_id or "") else next(rest)

    def listen(events: Sequence[Any]) -> None:
        for event in events:
            entry_id: Any = None
            if isinstance(event, MessageEnd):
                entry_id = event.entry_id
            elif isinstance(event, EntryAppended):
                entry_id = msgspec.json.decode(event.entry)["id"]
            if entry_id is not None:
                stored = session.entry(entry_id)
                if stored is None:
                    os._exit(3)  # an exception would be kept from the others who listen
                tell(told_of(session, [stored]))

    async with hall([reply] * 20, session=session, tools=[tool("look")]) as here:
        here.harness.subscribe(listen)
        here.harness.configuration.compaction = CompactionSettings(keep_recent_tokens=10)
        here.harness.configuration.retries = RetrySettings(base_delay_ms=1)
        yield here, session


async def prompted(here: Hall, words: str) -> None:
    run = here.harness.prompt(PromptInput(words))
    assert isinstance(run, Run)
    assert (await run.wait()).stop_reason == "stop"


async def compact(folder: Path, tell: Tell) -> None:
    """Runs with tools and a reply that fails and is hidden, and two compactions."""
    replies = [
        [tool_call("look")],
        [error("overloaded", status=529)],
        [text("seen " * 40)],
        [text("on " * 40)],
        [text("end")],
    ]
    async with performed(folder, tell, replies) as (here, session):
        await prompted(here, "look " * 20)
        assert await here.harness.compact() is not None
        await prompted(here, "go on " * 20)
        assert await here.harness.compact("briefly") is not None
        tell(told_of(session, []))
        await prompted(here, "end")


async def branch(folder: Path, tell: Tell) -> None:
    """Moves with and without a summary and a label, and what is said in between."""
    replies = [[text("one")], [text("two")], [text("three")]]
    async with performed(folder, tell, replies) as (here, session):
        first = session.branch()[0].id
        second = session.branch()[1].id
        await prompted(here, "one")
        request = BranchRequest(second, summarize=True, label="here")
        outcome = await here.harness.branch(request)
        assert outcome.summary_entry is not None
        tell(told_of(session, []))
        await prompted(here, "two")
        await here.harness.branch(BranchRequest(first, summarize=True))
        tell(told_of(session, []))
        await here.harness.branch(BranchRequest(second))
        tell(told_of(session, []))
        await here.harness.label(first, "there")
        await here.harness.rename("named")
        await prompted(here, "three")


async def fork(folder: Path, tell: Tell) -> None:
    """Forks at an entry and before one, of which one goes on and one is thrown away."""
    repo = JsonlSessionRepo(folder / "agent")
    source = await opened(folder)
    path = source.branch()
    at = (await repo.fork(source, path[-2].id)).session
    assert isinstance(at, JsonlSession)
    tell(told_of(at, at.entries()))
    tell(told_of(at, [await at.append(user_entry(at, "elsewhere"))]))
    before = (await repo.fork(source, path[-1].id, position="before")).session
    assert isinstance(before, JsonlSession)
    tell(told_of(before, before.entries()))
    tell(told_of(before, await before.append_many([model_entry(before), user_entry(before)])))
    await before.aclose()
    tell(told_of(source, [await source.append(user_entry(source, "and here"))]))
    await repo.delete(before.path)
    await at.aclose()
    await source.aclose()


async def migrate(folder: Path, tell: Tell) -> None:
    """A file of an older version, and what is said in it then."""
    session = await opened(folder)
    assert not session.read_only, session.notes
    tell(told_of(session, []))
    for number in range(6):
        tell(told_of(session, [await session.append(user_entry(session, f"new {number}"))]))
    await session.aclose()


SCENES: dict[str, Scene] = {
    "append": append,
    "compact": compact,
    "branch": branch,
    "fork": fork,
    "migrate 1": migrate,
    "migrate 2": migrate,
}
