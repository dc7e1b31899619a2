"""The dialect ``openai-responses``: OpenAI's Responses API, used without stored conversations.

Owns the address and the credential. What is sent is ``_responses_payload``; the answer is read by
``_responses_stream``. A server is asked at ``<base URL>/responses``; without a key no credential is
sent, as local servers want it.

Written from OpenAI's documentation and the types of its Python library; it was never run against
OpenAI's own servers.
"""

from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, EventBatches, StreamOptions
from pi_rpc.llm.providers._responses_stream import respond
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["stream"]


def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> EventBatches:
    """Ask, and yield the answer's block events; see ``pi_rpc.llm.provider.Provider``."""
    url = f"{model.base_url.rstrip('/')}/responses"
    headers = {"authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    return respond(model, context, options, builder, url=url, headers=headers)
