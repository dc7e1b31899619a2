"""What each method of the native protocol does; one module per group of methods."""

from pi_rpc.server.connection import Feature
from pi_rpc.server.features import (
    auth,
    catalogue,
    checkpoints,
    commands,
    conversation,
    files,
    history,
    observing,
    permissions,
    prompting,
    session_files,
    sessions,
    tree,
    trust,
)

__all__ = ["FEATURES"]

FEATURES: dict[str, Feature] = {
    **prompting.HANDLERS,
    **conversation.HANDLERS,
    **sessions.HANDLERS,
    **session_files.HANDLERS,
    **tree.HANDLERS,
    **history.HANDLERS,
    **checkpoints.HANDLERS,
    **commands.HANDLERS,
    **files.HANDLERS,
    **permissions.HANDLERS,
    **trust.HANDLERS,
    **auth.HANDLERS,
    **catalogue.HANDLERS,
    **observing.HANDLERS,
}
