"""A model for a session that began when there was none.

Owns when such a session takes the default. Which model that is, is ``pi_rpc.host.services``'.
"""

from pi_rpc._os.threads import run_blocking
from pi_rpc.host.hosted import HostedSession
from pi_rpc.protocol.state import ModelState
from pi_rpc.server.connection import Connection
from pi_rpc.server.convert import model_state

__all__ = ["take_default_model"]


async def take_default_model(connection: Connection, hosted: HostedSession) -> None:
    """Has a session without a model ask the default from now on, if there is one by now.

    Its next run records the choice.
    """
    choices = hosted.harness.configuration
    if choices.model is not None:
        return
    model, _ = await run_blocking(connection.services.choose_model, None, None)
    if model is None or choices.model is not None:
        return
    choices.model = model
    hosted.harness.changed(
        model=ModelState(**model_state(model)),
        thinkingLevel=choices.level,
    )
