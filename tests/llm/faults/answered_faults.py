"""Faults that a server puts into the head of its answer: statuses, bodies, headers, redirects."""

from dataclasses import replace
from typing import Any

import msgspec

from pi_rpc.llm.errors import (
    AccessError,
    AuthError,
    BadRequestError,
    ContextOverflowError,
    MalformedStreamError,
    ModelNotFoundError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from tests.llm.faults.cells import KEY, Cell, Expect, answers, fails, fault
from tests.llm.faults.dialects import Dialect
from tests.llm.faults.server import Connection
from tests.llm.faults.words import ANSWERS, Answer, Impossible


def in_words(key: str, error: type[ProviderError], *says: str, retried: bool = False) -> None:
    """A row: the answer that each vendor has for this."""

    @fault(key)
    def row(dialect: Dialect) -> Cell | Impossible:
        answer = ANSWERS[dialect.api][key]
        if isinstance(answer, Impossible):
            return answer
        kind = OTHER_KINDS.get((key, dialect.api), error)
        return fails(answers(answer), kind, f"answered {answer.status}", *says, retried=retried)


OTHER_KINDS: dict[tuple[str, str], type[ProviderError]] = {
    # The vendor has one status for both.
    ("overloaded", "mistral-conversations"): RateLimitError,
}
in_words("bad key", AuthError, "check the API key")
in_words("forbidden", AccessError, "may not do that")
in_words("no model", ModelNotFoundError, "check the model's id")
in_words("bad request", BadRequestError)
in_words("too large", ContextOverflowError)
in_words("rate limit", RateLimitError, retried=True)
in_words("quota", QuotaError, "does not help")
in_words("server error", ServerError, retried=True)
in_words("overloaded", OverloadedError, retried=True)
in_words("timeout", ServerError, retried=True)
in_words("overflow", ContextOverflowError)


def asking_to_wait(name: str, least: int, most: int, *lines: str, retried: bool = True) -> None:
    """A row: a rate limit that says in a header how long it lasts."""

    @fault(name)
    def row(dialect: Dialect) -> Cell | Impossible:
        answer = ANSWERS[dialect.api]["rate limit"]
        assert isinstance(answer, Answer)
        expect = Expect(
            error=RateLimitError, says=("429",), retried=retried, waits_ms=(least, most)
        )
        return Cell(script=answers(answer, *lines), expect=expect)


asking_to_wait("rate limit with seconds", 7000, 7000, "retry-after: 7")
asking_to_wait("rate limit with milliseconds", 3456, 3456, "retry-after-ms: 3456", "retry-after: 4")
asking_to_wait("rate limit with a date", 15_000, 31_000, "retry-after: {date in 31 s}")
asking_to_wait("rate limit for an hour", 3_600_000, 3_600_000, "retry-after: 3600", retried=False)


@fault("vendor's time")
def vendors_time(dialect: Dialect) -> Cell | Impossible:
    """The header of the limit that was reached counts, and not that of another."""
    answer = ANSWERS[dialect.api]["vendor's time"]
    if isinstance(answer, Impossible):
        return answer
    expect = Expect(
        error=RateLimitError,
        says=("429",),
        retried=True,
        is_by_header=True,
        waits_ms=(8000, 13_000),
    )
    return Cell(script=answers(answer), expect=expect)


@fault("gateway's page")
def gateways_page(dialect: Dialect) -> Cell:
    page = "<html><head><title>502 Bad Gateway</title></head><body>" + "<p>nginx</p>" * 900
    return fails(
        answers(Answer(502, page)), ServerError, "answered 502: 502 Bad Gateway", retried=True
    )


@fault("empty failure")
def empty_failure(dialect: Dialect) -> Cell:
    return fails(answers(Answer(503)), OverloadedError, "answered 503: (no body)", retried=True)


@fault("overloaded by number")
def overloaded_by_number(dialect: Dialect) -> Cell:
    return fails(answers(Answer(529)), OverloadedError, "529", retried=True)


@fault("failure that says to retry")
def says_to_retry(dialect: Dialect) -> Cell:
    script = answers(Answer(400, {"error": {"message": "odd"}}), "x-should-retry: true")
    return fails(script, BadRequestError, "odd", retried=True, is_by_header=True)


@fault("failure that says not to retry")
def says_not_to_retry(dialect: Dialect) -> Cell:
    script = answers(Answer(500, {"error": {"message": "odd"}}), "x-should-retry: false")
    return fails(script, ServerError, "odd", is_by_header=True)


@fault("key in the body of a failure")
def key_in_the_body(dialect: Dialect) -> Cell:
    body = {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}
    return fails(answers(Answer(401, body)), AuthError, "provided: ***")


@fault("endless body of a failure")
def endless_body(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.head(400, "text/plain")
        while True:
            await connection.send(b"no, no, no! " * 1000)

    return fails(script, BadRequestError, "answered 400: no, no, no!")


@fault("body of a failure that stalls")
def stalling_body(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.head(500, "application/json", "content-length: 1000")
        await connection.send(b'{"error":')

    return fails(script, ServerError, "answered 500", retried=True, idle_s=0.5)


@fault("whole reply instead of a stream")
def whole_reply(dialect: Dialect) -> Cell:
    script = answers(Answer(200, dialect.whole_json()))
    return fails(script, MalformedStreamError, "instead of an event stream", "base URL")


@fault("page instead of a stream")
def page(dialect: Dialect) -> Cell:
    script = answers(Answer(200, "<html><h1>Welcome</h1></html>"))
    return fails(script, MalformedStreamError, "text/html", "base URL")


NAMELESS = Impossible("a failure is named by the status and a header, never by the body")


@fault("failure with a good status")
def failure_with_a_good_status(dialect: Dialect) -> Cell | Impossible:
    if not dialect.bodies_name_failures:
        return NAMELESS
    answer = ANSWERS[dialect.api]["rate limit"]
    assert isinstance(answer, Answer)
    script = answers(replace(answer, status=200))
    return fails(script, RateLimitError, retried=True)


@fault("failure with a good status and the type of a stream")
def failure_as_a_stream(dialect: Dialect) -> Cell | Impossible:
    if not dialect.bodies_name_failures:
        return NAMELESS
    answer = ANSWERS[dialect.api]["rate limit"]
    assert isinstance(answer, Answer)
    body: Any = msgspec.json.format(msgspec.json.encode(answer.body))

    async def script(connection: Connection) -> None:
        await connection.head(200, dialect.kind)
        await connection.send(body[:5], body[5:])
        await connection.end()

    return fails(script, RateLimitError, retried=True)


@fault("redirect to another host")
def redirect(dialect: Dialect) -> Cell:
    """The key is for nobody else to see."""

    async def script(connection: Connection) -> None:
        port = connection.request.headers["host"].partition(":")[2]
        thief = f"location: http://localhost:{port}{connection.request.target}"
        await connection.head(307, "text/plain", thief, "content-length: 0")

    return fails(script, BadRequestError, "answered 307", "has moved", "set the new base URL")
