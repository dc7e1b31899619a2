"""Whom we trust: the certificates that a provider's is checked against.

Owns where they come from. ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` takes the place of the public ones;
the person's file and ``NODE_EXTRA_CA_CERTS``, as pi has it, are trusted in addition.
"""

import logging
import os
import ssl

from pi_rpc.llm.errors import ProviderError

__all__ = ["EXTRA_VARIABLE", "trusting_context"]

_log = logging.getLogger(__name__)

EXTRA_VARIABLE = "NODE_EXTRA_CA_CERTS"


def trusting_context(ca_file: str | None) -> ssl.SSLContext:
    """A context for connections; ``ca_file`` is a PEM file to trust as well. Blocking.

    Raises ``ProviderError`` where a file cannot be read, or holds no certificate; what
    ``NODE_EXTRA_CA_CERTS`` names is then left out with a warning in the log, as Node does.
    """
    import httpx

    try:
        context = httpx.create_ssl_context()
    except (OSError, ssl.SSLError) as error:
        raise ProviderError(
            "the certificates cannot be read; SSL_CERT_FILE and SSL_CERT_DIR must name PEM files: "
            f"{_reason(error)}"
        ) from error
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ProviderError(
                "the certificates of the setting piRpc.caFile cannot be read; it must name a PEM "
                f"file: {ca_file}: {_reason(error)}"
            ) from error
    if extra := os.environ.get(EXTRA_VARIABLE):
        try:
            context.load_verify_locations(cafile=extra)
        except (OSError, ssl.SSLError) as error:
            _log.warning("%s is ignored: %s: %s", EXTRA_VARIABLE, extra, _reason(error))
    return context


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
