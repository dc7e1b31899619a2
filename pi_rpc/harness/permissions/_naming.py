"""Files that the words of a command name, as far as that can be told without running it."""

from pi_rpc.harness.permissions.commands import Parsed
from pi_rpc.harness.permissions.paths import Zones

__all__ = ["named_holder", "named_secret"]


def named_secret(parsed: Parsed, zones: Zones) -> str:
    """The word of ``parsed`` that names a secret file; empty: none does."""
    return next((word for word in parsed.named if zones.zone(zones.real(word)) == "secret"), "")


def named_holder(parsed: Parsed, zones: Zones) -> str:
    """The word of ``parsed`` that names a folder with secrets in it; empty: none does."""
    return next((word for word in parsed.named if zones.holds_secrets(zones.real(word))), "")
