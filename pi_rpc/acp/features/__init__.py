"""What each method of the Agent Client Protocol does; one module per group of methods."""

from pi_rpc.acp.connection import Feature
from pi_rpc.acp.features import authenticating, extras, prompting, sessions

__all__ = ["FEATURES"]

FEATURES: dict[str, Feature] = {
    **authenticating.HANDLERS,
    **sessions.HANDLERS,
    **prompting.HANDLERS,
    **extras.HANDLERS,
}
