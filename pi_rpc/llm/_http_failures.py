"""What went wrong below HTTP, or instead of a stream, in words for people.

Owns the mapping from the HTTP library's errors, and from documents that came where events should
have, to the tree of ``pi_rpc.llm.errors``. Pure: nothing is sent or read here. Does not own what
statuses and bodies of failures mean (``pi_rpc.llm.failures``).
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pi_rpc.llm._lenient_json import read_json
from pi_rpc.llm.errors import (
    BadRequestError,
    MalformedStreamError,
    NetworkError,
    ProviderError,
    StreamTimeoutError,
)
from pi_rpc.llm.failures import failure_in_stream, scrubbed

__all__ = ["CONNECT_TIMEOUT_S", "host_of", "network_failure", "not_a_stream", "origin_of"]

CONNECT_TIMEOUT_S = 30.0
"""Longest wait for a connection."""
_any_decoder = msgspec.json.Decoder()


def host_of(url: str) -> str:
    """The host an address names, in lower case; empty when it names none or no such port exists."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for what is no port
        return parts.hostname or ""
    except ValueError:
        return ""


def origin_of(url: str) -> str:
    """Scheme, host and port of an address, without a credential."""
    parts = urlsplit(url)
    host = parts.hostname or "?"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


def not_a_stream(kind: str, body: str, *, provider: str, url: str) -> ProviderError:
    """The error of a document, called ``kind``, that came with a good status.

    It is what the document reports, if it reports a failure in the way of some provider.
    """
    try:
        decoded: Any = read_json(_any_decoder, body.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        decoded = None
    if isinstance(decoded, list) and decoded:
        decoded = decoded[0]
    if isinstance(decoded, dict):
        reported = decoded if decoded.get("object") == "error" else decoded.get("error")
        if reported:
            return failure_in_stream(reported, provider)
    return MalformedStreamError(
        f"{provider} answered with {kind} instead of an event stream; "
        f"is the base URL right? ({origin_of(url)})",
        status=200,
        retryable=False,
    )


def only_signs_of_life(provider: str, url: str, limit_s: float) -> StreamTimeoutError:
    """Something came all the time, and none of it was part of an answer."""
    where = f"{provider} ({origin_of(url)})"
    return StreamTimeoutError(f"timeout: {where} sent only signs of life for {limit_s:g} s")


def network_failure(
    error: Exception, *, provider: str, url: str, idle_timeout_s: float, secrets: tuple[str, ...]
) -> ProviderError:
    """What an error of the HTTP library means; names the origin of ``url``, never more of it."""
    import httpx

    where = f"{provider} ({origin_of(url)})"
    reason = " ".join(scrubbed(str(error), secrets).split()) or type(error).__name__
    if isinstance(error, httpx.ReadTimeout):
        return StreamTimeoutError(f"timeout: nothing came from {where} for {idle_timeout_s:g} s")
    if isinstance(error, httpx.ConnectTimeout):
        return NetworkError(f"timeout: no connection to {where} in {CONNECT_TIMEOUT_S:g} s")
    if isinstance(error, httpx.TimeoutException):
        return NetworkError(f"timeout: {where} did not take the request")
    if isinstance(error, httpx.ConnectError):
        return _no_connection(error, where, reason)
    if isinstance(error, httpx.ProxyError):
        return _refused_by_proxy(where, reason)
    if isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol)):
        # The reason may quote a header.
        return BadRequestError(f"the request to {where} is not valid HTTP")
    if isinstance(error, httpx.DecodingError):
        return MalformedStreamError(f"the compressed answer of {where} is broken")
    if isinstance(error, httpx.RemoteProtocolError):
        return NetworkError(f"connection closed: {where} broke off: {reason}")
    return NetworkError(f"connection lost: {where}: {reason}")


def _no_connection(error: Exception, where: str, reason: str) -> ProviderError:
    import socket
    import ssl

    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return NetworkError(
            f"the certificate of {where} is not trusted (the setting piRpc.caFile can name "
            f"another authority, or SSL_CERT_FILE): {reason}",
            retryable=False,
        )
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return NetworkError(
            f"connection error: the host of {where} cannot be found ({reason}); check the base "
            "URL, the proxy and the network"
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return NetworkError(
            f"connection error: no TLS with {where} ({reason}); does its base URL begin with "
            "http://?"
        )
    return NetworkError(
        f"connection error: no connection to {where} ({reason}); is it running, and is the base "
        "URL right?"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _refused_by_proxy(where: str, reason: str) -> ProviderError:
    found = re.match(r"\d{3}\b", reason)
    status = int(found[0]) if found else None
    advice = "see HTTPS_PROXY and NO_PROXY"
    if status is not None and status < 500 and status not in {408, 429}:
        return NetworkError(
            f"the proxy on the way to {where} answered {reason}; {advice}", retryable=False
        )
    return NetworkError(f"connection error: the proxy on the way to {where}: {reason}; {advice}")
