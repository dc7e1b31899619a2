"""Faults on the way to a server: names, connections, certificates, proxies, and leaving early."""

from pi_rpc.llm.errors import NetworkError
from tests.llm.faults.cells import (
    KEY,
    SECURE,
    Cell,
    Expect,
    begun,
    fails,
    fault,
    streams,
    succeeds,
)
from tests.llm.faults.dialects import Dialect
from tests.llm.faults.server import Connection

PROXY = "http://{case}:proxy-secret@127.0.0.1:{port}"
TRUSTED = {"SSL_CERT_FILE": "{authority}"}


async def nothing(connection: Connection) -> None:
    """Say nothing until the client leaves."""


def never_asked(error: type[NetworkError], *says: str, retried: bool, **cell: object) -> Cell:
    expect = Expect(error=error, says=says, retried=retried, asked=0)
    return Cell(script=nothing, expect=expect, **cell)  # type: ignore[arg-type]


@fault("connection refused")
def connection_refused(dialect: Dialect) -> Cell:
    url = "http://user:{key}@127.0.0.1:{dead_port}/{case}"
    return never_asked(
        NetworkError, "no connection to", "127.0.0.1", "is it running", retried=True, url=url
    )


@fault("unknown host")
def unknown_host(dialect: Dialect) -> Cell:
    url = "http://models.invalid:{port}/{case}"
    return never_asked(NetworkError, "models.invalid", "cannot be found", retried=True, url=url)


@fault("certificate of nobody we trust")
def untrusted(dialect: Dialect) -> Cell:
    return never_asked(NetworkError, "not trusted", "SSL_CERT_FILE", retried=False, url=SECURE)


@fault("certificate of another host")
def wrong_host(dialect: Dialect) -> Cell:
    url = "https://other.test:{tls_port}/{case}"
    return never_asked(
        NetworkError, "not trusted", "other.test", retried=False, url=url, environ=TRUSTED
    )


@fault("certificate of an authority of our own")
def own_authority(dialect: Dialect) -> Cell:
    script = streams(dialect, dialect.whole(), then="stay")
    return succeeds(script, url=SECURE, environ=TRUSTED)


@fault("no TLS at the other end")
def no_tls(dialect: Dialect) -> Cell:
    url = "https://127.0.0.1:{port}/{case}"
    return never_asked(NetworkError, "no TLS with", "http://", retried=True, url=url)


@fault("reset before the answer")
def reset_before_the_answer(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.reset()

    return fails(script, NetworkError, "connection lost", retried=True)


@fault("closed before the answer")
def closed_before_the_answer(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.end()

    return fails(script, NetworkError, "without sending a response", retried=True)


@fault("no HTTP at the other end")
def no_http(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.send(b"SSH-2.0-OpenSSH_9.6\r\n")
        await connection.end()

    return fails(script, NetworkError, "broke off", retried=True)


@fault("proxy of the environment")
def proxy(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        assert connection.request.target.startswith("http://model.test/"), "in its absolute form"
        await streams(dialect, dialect.whole(), then="stay")(connection)

    return succeeds(script, url="http://model.test/{case}", environ={"HTTP_PROXY": PROXY})


@fault("proxy of the environment for TLS")
def tunnel(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        assert connection.request.method == "CONNECT"
        assert connection.request.target == "model.test:443"
        assert KEY not in str(connection.request.headers), "a proxy is not told the key"
        await connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await connection.become_tls()
        await streams(dialect, dialect.whole(), then="stay")(connection)

    url = "https://model.test/{case}"
    return succeeds(script, url=url, environ={"HTTPS_PROXY": PROXY, **TRUSTED})


@fault("host that needs no proxy")
def no_proxy(dialect: Dialect) -> Cell:
    environ = {"HTTP_PROXY": "http://127.0.0.1:{dead_port}", "NO_PROXY": "model.test"}
    script = streams(dialect, dialect.whole(), then="stay")
    return succeeds(script, url="http://model.test:{port}/{case}", environ=environ)


@fault("proxy that refuses")
def proxy_that_refuses(dialect: Dialect) -> Cell:
    async def script(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 403 Forbidden by policy\r\ncontent-length: 0\r\n\r\n")

    return fails(
        script,
        NetworkError,
        "the proxy",
        "403 Forbidden by policy",
        url="https://model.test/{case}",
        environ={"HTTPS_PROXY": PROXY},
    )


@fault("proxy that is down")
def proxy_that_is_down(dialect: Dialect) -> Cell:
    environ = {"HTTPS_PROXY": "http://me:proxy-secret@127.0.0.1:{dead_port}"}
    url = "https://model.test/{case}"
    return never_asked(NetworkError, "no connection to", retried=True, url=url, environ=environ)


@fault("abort while waiting for an answer")
def abort_while_waiting(dialect: Dialect) -> Cell:
    return Cell(script=nothing, expect=Expect(), abort="waiting")


@fault("abort while streaming")
def abort_while_streaming(dialect: Dialect) -> Cell:
    script = streams(dialect, begun(dialect), then="stay")
    return Cell(script=script, expect=Expect(keeps="a piece"), abort="streaming")


@fault("reader who leaves early")
def left_early(dialect: Dialect) -> Cell:
    script = streams(dialect, begun(dialect), then="stay")
    return Cell(script=script, expect=Expect(keeps="a piece"), abort="leaving")
