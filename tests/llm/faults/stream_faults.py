"""Faults within a stream that had begun well."""

import gzip

import anyio

from pi_rpc.llm.errors import (
    ContextOverflowError,
    MalformedStreamError,
    NetworkError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
    StreamTimeoutError,
)
from tests.llm.faults.cells import Cell, Kept, begun, fails, fault, streams, succeeds
from tests.llm.faults.dialects import ARGUMENTS, CUT_ARGUMENTS, PIECES, TEXT, Dialect
from tests.llm.faults.server import Connection, Script
from tests.llm.faults.words import EVENTS, Impossible

IDLE_S = 0.5
"""What comes at once comes within this, whatever else the machine does."""
STALLED = "nothing came from"
ONLY_LIVES = "only signs of life"


def reported(
    key: str, error: type[ProviderError], *says: str, retried: bool = False, keeps: Kept = "a piece"
) -> None:
    """A row: the event by which each vendor reports this."""

    @fault(f"{key} within the stream")
    def row(dialect: Dialect) -> Cell | Impossible:
        said = EVENTS[dialect.api][key]
        if isinstance(said, Impossible):
            return said
        events = said if isinstance(said, list) else [said]
        kind = RateLimitError if (key, dialect.api) in ONE_STATUS else error
        script = streams(dialect, begun(dialect) + dialect.frames(events), then="stay")
        return fails(script, kind, *says, retried=retried, keeps=keeps)


ONE_STATUS = {("overloaded", "mistral-conversations")}
reported("overloaded", OverloadedError, retried=True)
reported("server error", ServerError, retried=True)
reported("rate limit", RateLimitError, retried=True)
reported("overflow", ContextOverflowError)
reported("refusal", ProviderError)


@fault("cut in a text")
def cut_in_a_text(dialect: Dialect) -> Cell:
    script = streams(dialect, begun(dialect), then="end")
    return fails(script, MalformedStreamError, dialect.ended_early, retried=True, keeps="a piece")


@fault("reset in a text")
def reset_in_a_text(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.head(200, dialect.kind)
        await connection.send(begun(dialect))
        await anyio.wait_all_tasks_blocked()  # what was sent is read before the reset
        await connection.reset()

    return fails(script, NetworkError, "connection lost", retried=True, keeps="a piece")


@fault("cut in a chunk of the body")
def cut_in_a_chunk(dialect: Dialect) -> Cell:
    body = begun(dialect)
    piece = b"%x\r\n%s\r\n1000\r\n%s" % (len(body), body, b"data")
    script = streams(dialect, piece, lines=("transfer-encoding: chunked",))
    return fails(script, NetworkError, "broke off", retried=True, keeps="a piece")


@fault("body shorter than was promised")
def shorter_body(dialect: Dialect) -> Cell:
    script = streams(dialect, begun(dialect), lines=("content-length: 100000",))
    return fails(script, NetworkError, "broke off", retried=True, keeps="a piece")


@fault("garbage between the chunks of the body")
def garbage_chunk(dialect: Dialect) -> Cell:
    body = begun(dialect)
    piece = b"%x\r\n%s\r\nzz garbage\r\n" % (len(body), body)
    script = streams(dialect, piece, then="stay", lines=("transfer-encoding: chunked",))
    return fails(script, NetworkError, "broke off", retried=True, keeps="a piece")


@fault("cut in a tool call")
def cut_in_a_call(dialect: Dialect) -> Cell:
    if dialect.calls_are_whole:
        sent = begun(dialect) + dialect.frames(dialect.call(ARGUMENTS))[:-20]
        keeps: Kept = "a piece"
    else:
        sent = begun(dialect) + dialect.frames(dialect.call(CUT_ARGUMENTS))
        keeps = "a cut call"
    # What is left of the last event is not JSON, or the end is missing.
    return fails(streams(dialect, sent), MalformedStreamError, retried=True, keeps=keeps)


@fault("cut in a character")
def cut_in_a_character(dialect: Dialect) -> Cell:
    sent = dialect.frames(dialect.said(PIECES[0], PIECES[1]))
    cut = sent.index("ö".encode()) + 1
    script = streams(dialect, sent[:cut])
    return fails(script, MalformedStreamError, retried=True, keeps="a piece")


@fault("cut in the frame of an event")
def cut_in_a_frame(dialect: Dialect) -> Cell:
    sent = begun(dialect)
    script = streams(dialect, sent + dialect.frame(dialect.piece(PIECES[1]))[:4])
    return fails(script, MalformedStreamError, retried=True, keeps="a piece")


@fault("every read cuts a character or a line")
def cut_reads(dialect: Dialect) -> Cell:
    sent = dialect.whole()
    cuts = [5, sent.index("ö".encode()) + 1, len(sent) - 3]

    async def script(connection: Connection) -> None:
        await connection.head(200, dialect.kind)
        for start, stop in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            await connection.send(sent[start:stop])
            await anyio.wait_all_tasks_blocked()

    return succeeds(script)


@fault("nothing at all")
def nothing_at_all(dialect: Dialect) -> Cell:
    return fails(streams(dialect), MalformedStreamError, dialect.ended_early, retried=True)


@fault("no terminal event")
def no_terminal_event(dialect: Dialect) -> Cell:
    script = streams(dialect, dialect.frames(dialect.said(*PIECES)))
    return fails(script, MalformedStreamError, dialect.ended_early, retried=True, keeps="text")


@fault("event that is not JSON")
def not_json(dialect: Dialect) -> Cell:
    script = streams(dialect, begun(dialect) + dialect.garbage(), then="stay")
    return fails(script, MalformedStreamError, "cannot be read", retried=True, keeps="a piece")


@fault("field of a wrong type")
def wrong_type(dialect: Dialect) -> Cell:
    sent = begun(dialect) + dialect.frame(dialect.wrong_type())
    script = streams(dialect, sent, then="stay")
    return fails(script, MalformedStreamError, "cannot be read", retried=True, keeps="a piece")


@fault("event of an unknown type")
def unknown_event(dialect: Dialect) -> Cell:
    said, rest = dialect.said(PIECES[0]), [*map(dialect.piece, PIECES[1:]), *dialect.end()]
    unknown = dialect.unknown()
    script = streams(dialect, dialect.frames([unknown, *said, unknown, *rest]), then="stay")
    return succeeds(script)


@fault("silence before the answer")
def silence(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        pass

    return fails(script, StreamTimeoutError, STALLED, "for 0.5 s", retried=True, idle_s=IDLE_S)


@fault("silence in the head of the answer")
def silence_in_the_head(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-ty")

    return fails(script, StreamTimeoutError, STALLED, retried=True, idle_s=IDLE_S)


@fault("silence within the stream")
def silence_within(dialect: Dialect) -> Cell:
    return fails(
        streams(dialect, begun(dialect), then="stay"),
        StreamTimeoutError,
        STALLED,
        "for 0.5 s",
        retried=True,
        keeps="a piece",
        idle_s=IDLE_S,
    )


def only_lives(*firsts: bytes, sign: bytes) -> Script:
    """Send signs of life after that, far more often than the idle limit, for ever."""

    async def script(connection: Connection) -> None:
        for first in firsts:
            await connection.send(first)
        while True:
            await connection.send(sign)
            await anyio.sleep(IDLE_S / 25)

    return script


@fault("only signs of life in the head of the answer")
def only_lives_in_the_head(dialect: Dialect) -> Cell:
    script = only_lives(b"HTTP/1.1 200 OK\r\nx-wait: ", sign=b".")
    return fails(script, StreamTimeoutError, ONLY_LIVES, retried=True, idle_s=IDLE_S)


@fault("only signs of life within the stream")
def only_lives_within(dialect: Dialect) -> Cell:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {dialect.kind}\r\n\r\n".encode()
    sign, endless = dialect.sign_of_life(), b""
    if not sign:
        sign, endless = b"x", dialect.frame(dialect.piece(TEXT * 1000))[:20]
    return fails(
        only_lives(head, begun(dialect), endless, sign=sign),
        StreamTimeoutError,
        ONLY_LIVES,
        "for 1 s",
        retried=True,
        keeps="a piece",
        idle_s=IDLE_S,
    )


@fault("slow but alive")
def slow(dialect: Dialect) -> Cell:
    """Longer than the idle limit in all, and never silent for as long."""
    sent = dialect.whole()

    async def script(connection: Connection) -> None:
        await connection.head(200, dialect.kind)
        step = len(sent) // 9 + 1
        for start in range(0, len(sent), step):
            await anyio.sleep(0.15)
            await connection.send(sent[start : start + step])

    return succeeds(script, idle_s=1.2)


@fault("compressed stream")
def compressed(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        assert connection.request.headers["accept-encoding"] == "identity"
        packed = gzip.compress(dialect.whole())
        await connection.head(200, dialect.kind, "content-encoding: gzip")
        await connection.send(packed[:11], packed[11:])

    return succeeds(script)


@fault("broken compression")
def broken_compression(dialect: Dialect) -> Cell:
    script = streams(dialect, b"no gzip at all", lines=("content-encoding: gzip",))
    return fails(script, MalformedStreamError, "compressed", retried=True)


@fault("compression we cannot read")
def unreadable_compression(dialect: Dialect) -> Cell:
    lines = ("content-encoding: dcb",)
    script = streams(dialect, dialect.whole(), then="stay", lines=lines)
    return fails(script, MalformedStreamError, "dcb", "compressed")


@fault("arguments that are no object")
def arguments_that_are_no_object(dialect: Dialect) -> Cell:
    events = [*dialect.said(*PIECES), *dialect.call('["README.md"]')]
    script = streams(dialect, dialect.frames([*events, *dialect.end(after_call=True)]), then="stay")
    if dialect.calls_are_whole:
        return fails(script, MalformedStreamError, "cannot be read", retried=True, keeps="text")
    return succeeds(script, keeps="a bad call")


@fault("arguments that are no JSON")
def arguments_that_are_no_json(dialect: Dialect) -> Cell:
    events = [*dialect.said(*PIECES), *dialect.call('{"path": README}')]
    script = streams(dialect, dialect.frames([*events, *dialect.end(after_call=True)]), then="stay")
    if dialect.calls_are_whole:
        return fails(script, MalformedStreamError, "cannot be read", retried=True, keeps="text")
    return succeeds(script, keeps="a bad call")


@fault("very long event")
def very_long_event(dialect: Dialect) -> Cell:
    """Its text is repeated until it has eight million characters."""
    events = [*dialect.start(), dialect.piece(TEXT * (8_000_000 // len(TEXT))), *dialect.end()]
    return succeeds(streams(dialect, dialect.frames(events), then="stay"), keeps="long text")


@fault("whole reply whose connection stays open")
def stays_open(dialect: Dialect) -> Cell:
    return succeeds(streams(dialect, dialect.whole(), then="stay"))


@fault("cut after the reason of the end")
def cut_after_the_end(dialect: Dialect) -> Cell:
    """The reply is whole; only its numbers may be missing."""
    end = dialect.end()
    sent = dialect.frames([*dialect.said(*PIECES), *end[: len(end) - dialect.after_stop]])
    piece = b"%x\r\n%s\r\n1000\r\ndata: {" % (len(sent), sent)
    return succeeds(streams(dialect, piece, lines=("transfer-encoding: chunked",)))


@fault("whole call")
def whole_call(dialect: Dialect) -> Cell:
    events = [*dialect.said(*PIECES), *dialect.call(ARGUMENTS), *dialect.end(after_call=True)]
    return succeeds(streams(dialect, dialect.frames(events)), keeps="a whole call")
