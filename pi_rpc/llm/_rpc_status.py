"""What the details of a ``google.rpc.Status`` say about a failure.

Owns the reading of ``RetryInfo``, ``QuotaFailure`` and ``ErrorInfo``: Google words a limit that
passes within a minute and a plan that is used up in the same sentence, and answers 400 to a wrong
key; the details tell them apart. Does not own the errors made of it (``pi_rpc.llm.failures``).
"""

import re
from typing import Any

from msgspec import Struct

__all__ = ["RpcDetails", "rpc_details"]

_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_KEY_REASONS = frozenset({"API_KEY_INVALID", "ACCESS_TOKEN_EXPIRED", "CREDENTIALS_MISSING"})


class RpcDetails(Struct, frozen=True):
    """What the provider says beyond status and text. All unset where it says nothing."""

    retry_ms: int | None = None
    """How long to wait."""
    is_used_up: bool | None = None
    """A limit was reached: True when waiting a little does not help, False when it does."""
    is_bad_key: bool = False
    """The credential is not valid, whatever the status."""


def rpc_details(error: Any) -> RpcDetails:
    """The details of a decoded ``error`` object; of anything else, none."""
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    listed = error.get("details") if isinstance(error, dict) else None
    retry_ms: int | None = None
    is_used_up: bool | None = None
    is_bad_key = False
    for detail in listed if isinstance(listed, list) else []:
        if not isinstance(detail, dict):
            continue
        kind = str(detail.get("@type")).rpartition(".")[2]
        if kind == "RetryInfo":
            found = _DELAY.fullmatch(str(detail.get("retryDelay")))
            retry_ms = round(float(found[1]) * 1000) if found else None
            is_used_up = bool(is_used_up)
        elif kind == "QuotaFailure":
            # A daily limit comes with a short delay too, which it does not mean.
            is_used_up = bool(is_used_up) or "PerDay" in str(detail.get("violations"))
        elif kind == "ErrorInfo":
            is_bad_key = is_bad_key or detail.get("reason") in _KEY_REASONS
    return RpcDetails(retry_ms, is_used_up, is_bad_key)
