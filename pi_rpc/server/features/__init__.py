"""What each method of the native protocol does; one module per group of methods."""

from pi_rpc.server.connection import Feature
from pi_rpc.server.features import catalogue, conversation, prompting, sessions, tree

__all__ = ["FEATURES"]

FEATURES: dict[str, Feature] = {
    **prompting.HANDLERS,
    **conversation.HANDLERS,
    **sessions.HANDLERS,
    **tree.HANDLERS,
    **catalogue.HANDLERS,
}
