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
    headers.update(_session_headers(model, options))
    return respond(model, context, options, builder, url=url, headers=headers)


def _session_headers(model: Model, options: StreamOptions) -> dict[str, str]:
    """What leads a session's requests to the same machine at gateways that say how they route."""
    kind = (model.compat or {}).get("sessionAffinityFormat")
    session = options.session_id
    if kind is None or not session or options.cache_retention == "none":
        return {}
    if kind == "openrouter":
        return {"x-session-id": session}
    headers = {"x-client-request-id": session}
    return headers if kind == "openai-nosession" else {"session-id": session, **headers}
