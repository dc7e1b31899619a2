"""The client's methods are the protocol's: each one there is, with all that it takes and gives."""

import inspect
import typing
from typing import Any

import pytest

import pi_rpc.client
from pi_rpc.client import PiRpc, Session
from pi_rpc.protocol.methods import METHODS

pytestmark = pytest.mark.anyio

BY_THEMSELVES = {"initialize", "shutdown"}
"""Asked by ``spawn`` and ``close``."""
SAMPLES: dict[str, Any] = {
    "message": "hi",
    "include": ["live"],
    "paths": ["x"],
    "since_seq": 1,
    "limit": 5,
    "clear_queue": False,
    "trusted": True,
    "wait": "accepted",
}


class Recorder(PiRpc):
    """A client without a daemon: it notes what would be asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, Any]] = []
        self.incoming = self  # type: ignore[assignment]

    async def request(self, method: str, params: Any = None, result: Any = Any) -> Any:
        self.asked.append((method, params, result))
        return self

    session_id = "s"

    def end_session(self, session_id: str) -> None:
        """Nothing streams."""


def verbs() -> list[Any]:
    """Every method of a client or session that asks something."""
    recorder = Recorder()
    session = Session(recorder, "s")
    return [
        (recorder, getattr(owner, name))
        for owner, kind in ((recorder, PiRpc), (session, Session))
        for name, member in vars(kind).items()
        if inspect.iscoroutinefunction(member)
        and not name.startswith("_")
        and name not in {"request", "close", "default_session"}
    ] + [(recorder, session.close)]


def options_of(verb: Any) -> dict[str, Any]:
    """Keywords that a verb takes as the rest of a struct."""
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            (options,) = typing.get_args(parameter.annotation)
            return typing.get_type_hints(options)
    return {}


async def ask(recorder: Recorder, verb: Any) -> tuple[str, Any, Any, set[str]]:
    """What a verb asks when it is given all it takes: method, params, result, names given."""
    named = [
        each.name
        for each in inspect.signature(verb).parameters.values()
        if each.kind is not each.VAR_KEYWORD
    ]
    given = {name: SAMPLES.get(name, f"<{name}>") for name in [*named, *options_of(verb)]}
    await verb(**given)
    return (*recorder.asked.pop(), set(given))


async def test_every_request_has_a_method_that_takes_all_it_takes_and_gives_its_result() -> None:
    found = {}
    for recorder, verb in verbs():
        method, params, result, given = await ask(recorder, verb)
        row = METHODS[method]
        assert found.setdefault(method, verb.__name__) == verb.__name__, "asked by two"
        wanted = set(row.params.__struct_fields__) if row.params and params is not None else set()
        if isinstance(verb.__self__, Session):
            assert params.session_id == "s"
            wanted -= {"session_id"}
        assert given == wanted, method
        assert {name: getattr(params, name) for name in given} == {
            name: SAMPLES.get(name, f"<{name}>") for name in given
        }, method
        assert result is row.result, method
    requests = {name for name, row in METHODS.items() if row.is_request and row.sender == "client"}
    missing = requests - BY_THEMSELVES - set(found)
    assert missing == set(), "give them a method in pi_rpc/client/session.py or client.py"


async def test_options_are_typed_as_the_fields_they_are() -> None:
    for recorder, verb in verbs():
        _, params, _, _ = await ask(recorder, verb)
        for name, hint in options_of(verb).items():
            field = typing.get_type_hints(type(params), include_extras=False)[name]
            assert _plain(hint) == _plain(field), f"{verb.__name__}: {name}"


def _plain(hint: Any) -> set[Any]:
    """The alternatives of a type, the mark of what is absent left out."""
    return (
        {
            each
            for each in typing.get_args(hint) or (hint,)
            if getattr(each, "__name__", "") != "UnsetType"
        }
        if typing.get_origin(hint) in {typing.Union, type(int | str)}
        else {hint}
    )


def test_what_is_exported_is_this() -> None:
    assert pi_rpc.client.__all__ == [
        "DaemonEnded",
        "Events",
        "Handler",
        "Missed",
        "PiRpc",
        "RpcError",
        "Session",
        "SessionEvent",
        "UnknownEvent",
    ]
    for name in pi_rpc.client.__all__:
        assert hasattr(pi_rpc.client, name)
