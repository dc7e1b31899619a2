"""The dialect ``azure-openai-responses``: the Responses API of an Azure OpenAI resource.

Owns the address, the deployment's name and the credential; what is sent and how the answer is read
is the same as for ``openai-responses``. These variables of the environment are looked at:

- ``AZURE_OPENAI_BASE_URL``, else ``AZURE_OPENAI_RESOURCE_NAME``, wins over the model's base URL.
- ``AZURE_OPENAI_API_VERSION`` is ``v1`` when unset; a dated version is asked for by its older path.
- ``AZURE_OPENAI_DEPLOYMENT_NAME_MAP`` names deployments that are not called like their model, as in
  ``gpt-5.2=my-deployment,gpt-5-mini=small``.

Written from Microsoft's and OpenAI's documentation; it was never run against Azure's own servers.
"""

import os
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit, urlunsplit

from pi_rpc.llm.errors import BadRequestError
from pi_rpc.llm.models import Model
from pi_rpc.llm.provider import Context, EventBatches, StreamOptions
from pi_rpc.llm.providers._responses_stream import respond
from pi_rpc.llm.stream import MessageBuilder

__all__ = ["deployment_of", "stream", "url_of"]

_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".ai.azure.com")
_WHOLE_RESOURCE = {"", "/openai", "/openai/v1", "/openai/responses", "/openai/v1/responses"}
"""Paths that name the resource and no more; the API's own path follows from the version."""
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?$")


def stream(
    model: Model, context: Context, options: StreamOptions, builder: MessageBuilder
) -> EventBatches:
    """Ask, and yield the answer's block events; see ``pi_rpc.llm.provider.Provider``."""
    environ = {**os.environ, **options.environment}
    return respond(
        model,
        context,
        options,
        builder,
        url=url_of(model, environ),
        headers=_headers(model, options),
        name=deployment_of(model, environ),
    )


def url_of(model: Model, environ: Mapping[str, str]) -> str:
    """Where the model is asked. Raises ``BadRequestError`` when nothing says where that is."""
    resource = environ.get("AZURE_OPENAI_RESOURCE_NAME", "").strip()
    base = environ.get("AZURE_OPENAI_BASE_URL", "").strip()
    if not base and resource:
        base = f"https://{quote(resource, safe='')}.openai.azure.com"
    base = (base or model.base_url).rstrip("/")
    if not base:
        raise BadRequestError(
            "Azure OpenAI has no address: set AZURE_OPENAI_BASE_URL or AZURE_OPENAI_RESOURCE_NAME, "
            "or baseUrl in models.json"
        )
    version = environ.get("AZURE_OPENAI_API_VERSION", "").strip()
    try:
        parts = urlsplit(base)
        path, host = parts.path.rstrip("/"), parts.hostname or ""
    except ValueError:
        raise BadRequestError("the base URL of Azure OpenAI is not a valid URL") from None
    query = parts.query
    if host.endswith(_AZURE_HOSTS) and path in _WHOLE_RESOURCE:
        path, query = "/openai" if _DATED.match(version) else "/openai/v1", ""
    if version and version != "v1":
        query = "&".join(filter(None, [query, f"api-version={quote(version, safe='')}"]))
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/responses", query, ""))


def deployment_of(model: Model, environ: Mapping[str, str]) -> str:
    """What the model is called at the resource."""
    for entry in environ.get("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "").split(","):
        model_id, _, deployment = entry.partition("=")
        if model_id.strip() == model.id and deployment.strip():
            return deployment.strip()
    return model.id


def _headers(model: Model, options: StreamOptions) -> dict[str, str]:
    extra = (*(model.headers or {}), *options.headers)
    if not options.api_key or any(name.lower() == "authorization" for name in extra):
        # A token of Microsoft Entra is in the extra headers; two credentials are refused.
        return {}
    return {"api-key": options.api_key}
