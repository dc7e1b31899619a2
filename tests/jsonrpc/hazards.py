"""What clients really send, and what has to come back: one table for every kind of peer.

A case is a stream of bytes in either framing and the answers to it, nothing more and nothing less.
It relies on ``ping``, ``initialize`` and methods that nobody knows, so that it can be put to any
process. The reading side shares no code with the package.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Outcomes: TypeAlias = Counter[tuple[str, int | None]]

LINES = "lines"
HEADERS = "headers"
BOTH = (LINES, HEADERS)

NEOVIM_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"processId":null,'
    b'"clientInfo":{"name":"Neovim","version":"0.11.4"},"rootUri":null,"rootPath":null,'
    b'"workspaceFolders":null,"trace":"off","initializationOptions":[],'
    b'"capabilities":{"general":{"positionEncodings":["utf-8","utf-16","utf-32"]}}}}'
)


@dataclass(frozen=True)
class Bytes:
    """Goes into the stream as it is; a payload is framed."""

    data: bytes


@dataclass(frozen=True)
class Hazard:
    """``answers`` are pairs of id and error code, or None for a result, in any order."""

    name: str
    parts: tuple[bytes | Bytes, ...]
    answers: tuple[tuple[Any, int | None], ...]
    framings: tuple[str, ...] = BOTH
    lead: bytes = b""
    """Before everything else."""

    @property
    def alone(self) -> bool:
        """It needs a connection of its own: it is about the beginning or the end of one."""
        return bool(self.lead) or self.parts[-1] is END

    def body(self, framing: str) -> bytes:
        """What is sent, a ``ping`` last unless the case is about the end."""
        last = () if self.parts[-1] is END else (ping("last"),)
        return b"".join(
            [
                part.data if isinstance(part, Bytes) else frame(part, framing)
                for part in (*self.parts, *last)
            ]
        )

    def expected(self) -> "Outcomes":
        """The answers to ``body``, as ``outcomes`` gives them."""
        last = () if self.parts[-1] is END else (("last", None),)
        return Counter((json.dumps(id), code) for id, code in (*self.answers, *last))


END = Bytes(b"")
"""As the last part: no ``ping`` follows."""


def frame(payload: bytes, framing: str) -> bytes:
    """A payload as a well-behaved client frames it."""
    if framing == LINES:
        return payload + b"\n"
    return b"Content-Length: %d\r\n\r\n" % len(payload) + payload


def ping(id: Any, params: bytes | None = b"{}") -> bytes:
    """A ping with these params, in bytes."""
    rest = b"" if params is None else b',"params":' + params
    return b'{"jsonrpc":"2.0","id":%b,"method":"ping"%b}' % (json.dumps(id).encode(), rest)


def messages(output: bytes, framing: str) -> tuple[list[dict[str, Any]], bytes]:
    """Everything in an output, which has to be framed to the letter, and an unfinished rest."""
    found = []
    if framing == LINES:
        whole, end, rest = output.rpartition(b"\n")
        text = (whole + end).decode()
        # A reader that splits on every line end that Unicode knows sees the same lines.
        assert text.splitlines() == text.split("\n")[:-1]
        found = [json.loads(line) for line in text.splitlines()]
    else:
        rest = output
        while header := re.match(rb"Content-Length: ([0-9]+)\r\n\r\n", rest):
            end_of_body = header.end() + int(header[1])
            if len(rest) < end_of_body:
                break
            found.append(json.loads(rest[header.end() : end_of_body].decode()))
            rest = rest[end_of_body:]
    for message in found:
        assert message["jsonrpc"] == "2.0"
    return found, rest


def outcomes(found: list[dict[str, Any]]) -> Outcomes:
    """Id and error code of each answer; requests and notifications are left out."""
    answers: Outcomes = Counter()
    for message in found:
        if "method" in message:
            continue
        assert ("result" in message) != ("error" in message)
        error = message.get("error")
        if error is not None:
            assert set(error) <= {"code", "message", "data"}
            assert isinstance(error["data"]["kind"], str)
            assert "Traceback" not in error["message"]
        elif message["id"] != "init":
            assert message["result"] == {}
        answers[json.dumps(message["id"]), error and error["code"]] += 1
    return answers


INITIALIZED: Outcomes = Counter({('"init"', None): 1})


def same(found: Outcomes, expected: Outcomes, name: str) -> None:
    """Fails with the difference."""
    missing, unexpected = dict(expected - found), dict(found - expected)
    assert not missing, f"{name}: {missing=}, {unexpected=}"
    assert not unexpected, f"{name}: {unexpected=}"


def check(hazard: Hazard, framing: str, run: Callable[[bytes], bytes]) -> None:
    """Runs one case over a connection: ``run`` takes all input and gives all output."""
    stream = hazard.lead + frame(NEOVIM_INITIALIZE, framing) + hazard.body(framing)
    found, rest = messages(run(stream), framing)
    assert rest == b""
    same(outcomes(found), hazard.expected() + INITIALIZED, hazard.name)


def check_conversation(
    framing: str, send: Callable[[bytes], None], read: Callable[[], bytes]
) -> None:
    """Runs all cases over one connection, each when the one before has been answered."""
    buffer = b""

    def until(count: int) -> Outcomes:
        nonlocal buffer
        answers: Outcomes = Counter()
        while answers.total() < count:
            more = read()
            assert more, f"the output ended after {dict(answers)}"
            found, buffer = messages(buffer + more, framing)
            answers += outcomes(found)
        return answers

    send(frame(NEOVIM_INITIALIZE, framing))
    same(until(1), INITIALIZED, "initialize")
    for hazard in HAZARDS:
        if framing in hazard.framings and not hazard.alone:
            send(hazard.body(framing))
            same(until(hazard.expected().total()), hazard.expected(), hazard.name)
    assert buffer == b""


def _pings(name: str, *params: bytes | None) -> Hazard:
    """Pings whose params make no difference."""
    parts = tuple(ping(index, value) for index, value in enumerate(params))
    return Hazard(name, parts, tuple((index, None) for index in range(len(params))))


_DEEP = 100_000

HAZARDS = (
    _pings("no params in every spelling", None, b"null", b"[]", b"[null]", b"[ null ]", b"{}"),
    _pings("params of any kind reach ping", b"[1]", b"5", b'"text"', b"true"),
    _pings(
        "keys in params are only data",
        b'{"jsonrpc":"2.0","x":{"jsonrpc":"2.0","id":1,"method":"ping"}}',
        b'{"class":1,"a-b":2,"type_name":"T","def":{"lambda":null},"":0}',
        b'{"id":99,"method":"nothing","result":1,"error":2,"params":{"id":98}}',
    ),
    _pings(
        "text that is no Unicode",
        b'{"a":"\xff\xfe caf\xe9"}',
        b'{"\xed\xa0\xbd":"cut \xe2\x82"}',
        rb'{"a":"\ud83d"}',
        rb'{"a":"\ud83d\ud83d\ude00 \udc00 \\ud83d \uD83D\\"}',
        b'{"\\ud83d":"\xff"}',
    ),
    _pings(
        "text that is Unicode", '{"a":"\u0085\u2028\u2029 é😀"}'.encode(), rb'{"a":"\ud83d\ude00"}'
    ),
    _pings("nesting that is still reasonable", b'{"a":' + b"[" * 400 + b"]" * 400 + b"}"),
    _pings("two megabytes in one frame", b'{"a":"' + b"x" * (2 << 20) + b'"}'),
    Hazard(
        "ids of every legal kind",
        tuple(ping(id) for id in (0, -1, 2**31, 2**63, 10**30, "", "a", "0", "é", 'q"\\')),
        tuple((id, None) for id in (0, -1, 2**31, 2**63, 10**30, "", "a", "0", "é", 'q"\\')),
    ),
    Hazard(
        "whole numbers written as others are",
        tuple(ping(id) for id in (1.0, -3.0, 1e3, 1e22)),
        tuple((id, None) for id in (1.0, -3.0, 1e3, 1e22)),
    ),
    Hazard(
        "ids of every other kind",
        tuple(ping(id) for id in (True, False, 1.5, -0.25, {}, [], None, {"a": 1})),
        ((None, -32600),) * 8,
    ),
    Hazard(
        "half a pair in an id",
        (rb'{"id":"\ud83d","method":"ping"}',),
        (("\ufffd", None),),
    ),
    Hazard(
        "values that are no request",
        (b"null", b"5", b'"text"', b"true", b"{}", b'{"params":{}}', b'{"method":5}'),
        ((None, -32600),) * 7,
    ),
    Hazard("an id alone", (b'{"jsonrpc":"2.0","id":7}',), ((7, -32600),)),
    Hazard("a method that is no text", (b'{"id":8,"method":{"a":1}}',), ((8, -32600),)),
    Hazard("batches", (b"[]", b"[" + ping(1) + b"]", b"[1,2]"), ((None, -32600),) * 3),
    Hazard(
        "JSON that is none, its id lost",
        (
            b"{",
            b"{]",
            b'{"id":1',
            b'{"id":"a',
            b"}{",
            b'"',
            b"nul",
            b"[1,",
            b"[1] x",
            b'{"params":{"id":4}, x',
        ),
        ((None, -32700),) * 10,
    ),
    Hazard(
        "JSON that is none, its id seen",
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":}}',
            b'{"jsonrpc":"2.0","method":"ping","params":{"id":9},"id":"two","x":01}',
            b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":NaN}}',
            b'{"jsonrpc":"2.0","id":4,"method":"ping","params":{"a":"\x01"}}',
            b'{"jsonrpc":"2.0","id":5,"method":"ping"} x',
            b'{"jsonrpc":"2.0","id":6,"method":"ping","params":{"a":"\\q"}}',
            b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{',
            b"{'jsonrpc':'2.0',\"id\":8,'method':'ping'}",
        ),
        tuple((id, -32700) for id in (1, "two", 3, 4, 5, 6, 7, 8)),
    ),
    Hazard(
        "nesting without end",
        (
            ping(1, b"[" * _DEEP + b"]" * _DEEP),
            b'{"method":"ping","params":'
            + b'{"a":' * _DEEP
            + b"1"
            + b"}" * _DEEP
            + b',"id":"two"}',
            b"[" * _DEEP,
        ),
        ((1, -32600), ("two", -32600), (None, -32600)),
    ),
    Hazard(
        "a frame beyond the limit",
        (
            ping(1, b'{"a":"' + b"x" * (65 << 20) + b'"}'),
            ping("between"),
        ),
        ((1, -32600), ("between", None)),
    ),
    Hazard(
        "methods nobody knows",
        (
            b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
            '{"jsonrpc":"2.0","id":2,"method":"line\u2028end\u0085s\u2029"}'.encode(),
            b'{"jsonrpc":"2.0","id":3,"method":""}',
            b'{"jsonrpc":"2.0","id":4,"method":"__init__"}',
            rb'{"jsonrpc":"2.0","id":5,"method":"\ud83d"}',
        ),
        tuple((id, -32601) for id in (1, 2, 3, 4, 5)),
    ),
    Hazard(
        "notifications nobody knows",
        (
            b'{"jsonrpc":"2.0","method":"no/such","params":{}}',
            b'{"jsonrpc":"2.0","method":"$/setTrace","params":{"value":"off"}}',
            b'{"jsonrpc":"2.0","method":"$/no","params":[1,2]}',
        ),
        (),
    ),
    Hazard(
        "no version of the protocol, or another",
        (b'{"id":1,"method":"ping"}', b'{"jsonrpc":"1.0","id":2,"method":"ping"}'),
        ((1, None), (2, None)),
    ),
    Hazard(
        "answers to questions nobody asked",
        (
            b'{"jsonrpc":"2.0","id":41,"result":null}',
            b'{"jsonrpc":"2.0","id":"s1","result":{},"error":null}',
            b'{"jsonrpc":"2.0","id":"s1","result":null,"error":{"code":-32601,"message":"no"}}',
            b'{"jsonrpc":"2.0","id":42,"error":"text"}',
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}',
            b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}',
            b'{"jsonrpc":"2.0","id":43,"result":{"a":}}',
        ),
        (),
    ),
    Hazard(
        "cancellations of nothing",
        tuple(
            b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method, params)
            for method in (b"$/cancelRequest", b"$/cancel_request")
            for params in (
                b'{"id":77}',
                b'{"requestId":"x"}',
                b"null",
                b"[]",
                b'{"id":{}}',
                b"3",
                b"[3]",
            )
        ),
        (),
    ),
    Hazard(
        "two hundred at once",
        tuple(ping(id) for id in range(200)),
        tuple((id, None) for id in range(200)),
    ),
    Hazard("a byte order mark", (ping(1),), ((1, None),), lead=b"\xef\xbb\xbf"),
    Hazard(
        "a byte order mark in a later frame",
        (b"\xef\xbb\xbf" + ping(1),),
        ((1, None),),
    ),
    Hazard(
        "line ends of Windows, and empty lines",
        (Bytes(ping(1) + b"\r\n\r\n\n  \n\t" + ping(2) + b" \r\n"),),
        ((1, None), (2, None)),
        (LINES,),
    ),
    Hazard("white space first", (ping(1),), ((1, None),), (LINES,), lead=b" \r\n\n"),
    Hazard("no end of the last line", (Bytes(ping(1)), END), ((1, None),), (LINES,)),
    Hazard("a last line cut off", (Bytes(ping(1)[:-1]), END), ((1, -32700),), (LINES,)),
    Hazard(
        "a last body cut off",
        (Bytes(frame(ping(1), HEADERS)[:-1]), END),
        ((1, -32700),),
        (HEADERS,),
    ),
    Hazard(
        "headers in every spelling",
        (
            Bytes(b"content-length:%d\r\n\r\n" % len(ping(1)) + ping(1)),
            Bytes(b"CONTENT-LENGTH :  %d \r\n\r\n" % len(ping(2)) + ping(2)),
            Bytes(
                b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n"
                b"Content-Length: %d\r\nX-Other: Content-Length: 3\r\n\r\n" % len(ping(3)) + ping(3)
            ),
            Bytes(b"Content-Length: %d\n\n" % len(ping(4)) + ping(4)),
        ),
        tuple((id, None) for id in (1, 2, 3, 4)),
        (HEADERS,),
    ),
    Hazard(
        "header blocks without a length",
        (
            Bytes(b"X-Other: 1\r\n\r\n"),
            ping(1),
            Bytes(b"Content-Length: many\r\n\r\n"),
            ping(2),
            Bytes(b"Content-Length: -5\r\n\r\n\r\n\r\n"),
            ping(3),
            Bytes(b"Content-Type: x\r\n\r\n" + ping("unread")),
            ping(4),
            Bytes(b"\x00" * 200_000 + b"\r\n\r\n"),
            ping(5),
        ),
        tuple((id, None) for id in (1, 2, 3, 4, 5)),
        (HEADERS,),
    ),
    Hazard(
        "a body of nothing, and one over several lines",
        (b"", json.dumps(json.loads(ping(1)), indent=2).replace("\n", "\r\n").encode()),
        ((None, -32700), (1, None)),
        (HEADERS,),
    ),
)

CASES = [(hazard, framing) for hazard in HAZARDS for framing in hazard.framings]
ALONE = [(hazard, framing) for hazard, framing in CASES if hazard.alone]
CASE_IDS = [f"{hazard.name} ({framing})" for hazard, framing in CASES]
