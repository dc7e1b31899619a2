"""The embedded model's server: one start for all, a clear end, failures in words."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_rpc.llm._local_install import Installation
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.http import aclose_clients
from pi_rpc.llm.local import LOCAL_MODEL, LocalModelError, LocalModelServer
from pi_rpc.llm.messages import UserMessage, now_ms, text_of
from pi_rpc.llm.provider import Context, StreamOptions
from tests.deadlines import DEADLINE_S

pytestmark = pytest.mark.anyio

_FAKE = Path(__file__).with_name("_fake_llama_server.py")
ASK = Context(messages=[UserMessage(content="hi", timestamp=now_ms())])


class Fake:
    """The stand-in server: what it is told, and what became of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed = True
        self.first: tuple[str, ...] | None = None
        """A server that is tried before the stand-in."""

    def plan(self, **how: Any) -> None:
        how = {"log": str(self.folder / "starts"), **how}
        (self.folder / "model.gguf").write_text(json.dumps(how))

    def find(self) -> Installation | None:
        if not self.installed:
            return None
        servers = ((sys.executable, str(_FAKE)),)
        if self.first is not None:
            servers = (self.first, *servers)
        return Installation(servers, self.folder / "model.gguf")

    def starts(self) -> list[dict[str, Any]]:
        path = self.folder / "starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    fake = Fake(tmp_path)
    fake.plan()
    return fake


@pytest.fixture
async def server(fake: Fake) -> AsyncIterator[LocalModelServer]:
    server = LocalModelServer(find=fake.find)
    try:
        yield server
    finally:
        await server.aclose()
        await aclose_clients()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_nothing_is_started_before_it_is_needed(fake: Fake, server: LocalModelServer) -> None:
    server.stream(LOCAL_MODEL, ASK, StreamOptions())
    await anyio.lowlevel.checkpoint()
    assert fake.starts() == []


async def test_callers_at_the_same_time_share_one_start(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.plan(loading=3)
    urls: list[str] = []

    async def ask() -> None:
        urls.append(await server.base_url())

    async with anyio.create_task_group() as together:
        for _ in range(5):
            together.start_soon(ask)
    assert len(set(urls)) == 1
    assert len(fake.starts()) == 1
    assert await server.base_url() == urls[0]
    assert len(fake.starts()) == 1


async def test_a_caller_that_is_cancelled_leaves_the_start_to_the_others(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.plan(loading=5)
    with anyio.CancelScope() as first:
        async with anyio.create_task_group() as both:

            async def cancel_once_started() -> None:
                with anyio.fail_after(DEADLINE_S):
                    while not fake.starts():
                        await anyio.sleep(0.01)
                first.cancel()

            both.start_soon(cancel_once_started)
            await server.base_url()
    assert first.cancelled_caught
    assert await server.base_url()
    assert len(fake.starts()) == 1


async def test_the_server_s_environment_holds_no_key_of_ours(
    fake: Fake, server: LocalModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    await server.base_url()
    (start,) = fake.starts()
    assert "sk-secret" not in json.dumps(start["env"])
    assert server.api_key not in start["argv"], "others can read a command line"
    assert start["argv"][start["argv"].index("--host") + 1] == "127.0.0.1"


async def test_closing_ends_the_server_and_it_stays_ended(
    fake: Fake, server: LocalModelServer
) -> None:
    await server.base_url()
    await server.aclose()
    assert not _is_alive(fake.starts()[0]["pid"])
    with pytest.raises(LocalModelError, match="shut down"):
        await server.base_url()
    await server.aclose()


async def test_closing_during_the_start_ends_it_and_tells_who_waits(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.plan(never=True)
    failures: list[str] = []

    async def ask() -> None:
        try:
            await server.base_url()
        except LocalModelError as error:
            failures.append(error.message)

    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as together:
            together.start_soon(ask)
            together.start_soon(ask)
            while not fake.starts():
                await anyio.sleep(0.01)
            await server.aclose()
    assert ["shut down" in each for each in failures] == [True, True]
    assert [_is_alive(start["pid"]) for start in fake.starts()] == [False]


async def test_a_server_that_died_is_started_anew(fake: Fake, server: LocalModelServer) -> None:
    await server.base_url()
    (first,) = fake.starts()
    os.kill(first["pid"], 9)
    with anyio.fail_after(DEADLINE_S):
        while len(fake.starts()) == 1:
            reply = await server.stream(LOCAL_MODEL, ASK, StreamOptions()).result()
    assert reply.stop_reason == "stop"
    assert len(fake.starts()) == 2


async def test_a_server_that_ends_at_once_is_tried_twice_and_its_words_are_shown(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.plan(dies=7)
    with pytest.raises(LocalModelError) as caught:
        await server.base_url()
    assert "exit code 7" in caught.value.message
    assert "cannot load: reasons" in caught.value.message
    assert len(fake.starts()) == 2
    fake.plan()
    assert await server.base_url(), "the next caller tries again"


@pytest.mark.parametrize(
    "first", [("/no/such/llama-server",), ("/bin/sh", "-c", "kill -ILL $$"), ("/bin/false",)]
)
async def test_where_the_first_server_cannot_run_the_next_one_is_used(
    fake: Fake, server: LocalModelServer, first: tuple[str, ...]
) -> None:
    fake.first = first
    reply = await server.stream(LOCAL_MODEL, ASK, StreamOptions()).result()
    assert reply.stop_reason == "stop", reply.error_message
    assert len(fake.starts()) == 1


async def test_where_no_server_can_run_the_last_one_is_named(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.first = ("/bin/false",)
    fake.plan(dies=7)
    with pytest.raises(LocalModelError, match=f"{_FAKE} ended at once"):
        await server.base_url()
    assert len(fake.starts()) == 2


async def test_a_server_that_is_never_ready_is_given_up_and_ended(fake: Fake) -> None:
    fake.plan(never=True)
    server = LocalModelServer(find=fake.find, start_limit_s=0.5)
    with pytest.raises(LocalModelError, match=r"not ready after 0\.5 s"):
        await server.base_url()
    assert [_is_alive(start["pid"]) for start in fake.starts()] in ([], [False])
    await server.aclose()


async def test_what_is_not_installed_says_how_to_install_it(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.installed = False
    with pytest.raises(LocalModelError, match="pi-rpc local install"):
        await server.base_url()


async def test_a_program_that_cannot_be_run_is_named(fake: Fake) -> None:
    server = LocalModelServer(
        find=lambda: Installation((("/no/such/llama-server",),), fake.folder / "model.gguf")
    )
    with pytest.raises(LocalModelError, match="/no/such/llama-server cannot be run"):
        await server.base_url()
    await server.aclose()


async def test_a_reply_streams_from_the_server(server: LocalModelServer) -> None:
    stream = server.stream(LOCAL_MODEL, ASK, StreamOptions())
    kinds = [event.__class__.__name__ async for event in stream]
    reply = await stream.result()
    assert (kinds[0], kinds[-1]) == ("Start", "Done")
    assert text_of(reply.content) == "hello from /v1/chat/completions"
    assert (reply.provider, reply.model, reply.stop_reason) == ("local", "smollm2-135m", "stop")


async def test_a_failure_to_start_is_part_of_the_stream(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.installed = False
    stream = server.stream(LOCAL_MODEL, ASK, StreamOptions())
    reply = await stream.result()
    assert reply.stop_reason == "error"
    assert "pi-rpc local install" in str(reply.error_message)
    assert isinstance(stream.error, LocalModelError)
    assert not stream.error.retryable


async def test_an_abort_during_the_start_ends_the_reply_and_not_the_server(
    fake: Fake, server: LocalModelServer
) -> None:
    fake.plan(loading=20)
    controller = AbortController()
    stream = server.stream(LOCAL_MODEL, ASK, StreamOptions(signal=controller.signal))
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as both:

            async def abort_once_started() -> None:
                while not fake.starts():
                    await anyio.sleep(0.01)
                controller.abort()

            both.start_soon(abort_once_started)
            reply = await stream.result()
        assert reply.stop_reason == "aborted"
        again = await server.stream(LOCAL_MODEL, ASK, StreamOptions()).result()
    assert again.stop_reason == "stop"
    assert len(fake.starts()) == 1
