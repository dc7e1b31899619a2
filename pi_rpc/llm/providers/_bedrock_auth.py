"""Where Bedrock is asked, and how a request is signed.

Owns the region, the address that follows from it, and Signature Version 4. The chain of
credentials (variables, profiles, single sign-on, roles, containers, the instance) and the signature
itself are botocore's, which the extra ``bedrock`` brings; it is imported here, with the first
request. Everything but ``needs_signature`` blocks: call it in a thread.
"""

import logging
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pi_rpc.llm.errors import AuthError, NetworkError, ProviderError
from pi_rpc.llm.http import EventRequest
from pi_rpc.llm.models import Model

if TYPE_CHECKING:
    from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials
    from botocore.session import Session

__all__ = ["Place", "needs_signature", "place_of", "signed"]

_log = logging.getLogger(__name__)

_SERVICE = "bedrock"
_FALLBACK_REGION = "us-east-1"
_ARN_REGION = re.compile(r"arn:aws[a-z0-9-]*:(?:bedrock|sagemaker):([a-z0-9-]+):")
_STANDARD = re.compile(
    r"https://(bedrock-runtime(?:-fips)?)\.([a-z0-9-]+)\.(?:amazonaws\.[a-z.]+)/*", re.IGNORECASE
)
_ENDPOINT_REGION = re.compile(
    r"//(?:[^/@]*@)?(?:[^/:]*\.)?bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\."
)
_SUFFIXES = {"cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu"}
"""Domains of the partitions outside ``amazonaws.com``, by what their regions begin with."""
_FILE_VARIABLES = {
    "AWS_CONFIG_FILE": "config_file",
    "AWS_SHARED_CREDENTIALS_FILE": "credentials_file",
}
_NONE: Mapping[str, str] = {}
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL")

_refreshing: dict[tuple[tuple[str, str], ...], "RefreshableCredentials"] = {}
"""Credentials that expire and renew themselves, by the variables they were found with. Others are
looked up for each request, so that what a person changes counts at once."""


class Place(Struct, frozen=True):
    """Where a model is asked."""

    region: str
    base_url: str


def place_of(model: Model, environ: Mapping[str, str]) -> Place:
    """The region and address of ``model``; raises ``ProviderError`` without the extra.

    The region: of the model's ARN, of ``AWS_REGION`` or ``AWS_DEFAULT_REGION``, of the profile that
    ``AWS_PROFILE`` names, of the base URL, else us-east-1. A base URL of AWS's own follows it, or
    gives way to ``AWS_ENDPOINT_URL_BEDROCK_RUNTIME`` or ``AWS_ENDPOINT_URL``; any other stays.
    """
    _import_library(model.provider)
    arn = _ARN_REGION.match(model.id)
    endpoint = _ENDPOINT_REGION.search(model.base_url)
    region = (
        (arn[1] if arn else None)
        or environ.get("AWS_REGION")
        or environ.get("AWS_DEFAULT_REGION")
        or (_profile_region(environ) if environ.get("AWS_PROFILE") else None)
        or (endpoint[1] if endpoint else None)
        or _FALLBACK_REGION
    )
    standard = _STANDARD.fullmatch(model.base_url)
    if standard is None:
        return Place(region, model.base_url.rstrip("/"))
    for name in _ENDPOINT_VARIABLES:
        if environ.get(name):
            return Place(region, environ[name].rstrip("/"))
    suffix = next((_SUFFIXES[each] for each in _SUFFIXES if region.startswith(each)), None)
    return Place(region, f"https://{standard[1]}.{region}.{suffix or 'amazonaws.com'}")


def needs_signature(request: EventRequest, environ: Mapping[str, str]) -> bool:
    """No header authorizes the request yet, and ``AWS_BEDROCK_SKIP_AUTH=1`` does not forbid it."""
    return "authorization" not in request.headers and environ.get("AWS_BEDROCK_SKIP_AUTH") != "1"


def signed(request: EventRequest, region: str, own: Mapping[str, str] = _NONE) -> EventRequest:
    """``request`` with a signature, made with the credentials AWS's own tools would use.

    Of ``own``, the variables of the provider alone, a profile, keys and the files of both count.

    Raises ``AuthError`` when there are none or they cannot be used, ``NetworkError`` when whoever
    gives them out cannot be reached.
    """
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    credentials = _credentials(request.provider, own)
    to_sign = AWSRequest(
        method="POST",
        url=request.url,
        data=request.body,
        headers={"Content-Type": request.headers.get("content-type", "application/json")},
    )
    SigV4Auth(credentials, _SERVICE, region).add_auth(to_sign)
    headers = {name.lower(): str(value) for name, value in to_sign.headers.items()}
    # AWS quotes what was signed when it refuses a signature, the token included.
    secrets = (credentials.access_key or "", credentials.token or "", headers["authorization"])
    return replace(
        request,
        headers={**request.headers, **headers},
        secrets=(*request.secrets, *secrets),
    )


def _import_library(provider: str) -> None:
    try:
        import botocore.eventstream  # noqa: F401 - the import is what is wanted
    except ImportError:
        raise ProviderError(
            f"{provider} needs the library botocore; install it with: pip install 'pi-rpc[bedrock]'"
        ) from None


def _profile_region(environ: Mapping[str, str]) -> str | None:
    from botocore.exceptions import BotoCoreError

    try:
        region = _session(environ).get_config_variable("region")
    except BotoCoreError as error:
        # Without a key the credentials will say so; with one the profile does not matter.
        _log.debug("the region of AWS_PROFILE is unknown: %s", error)
        return None
    return str(region) if region else None


def _session(variables: Mapping[str, str]) -> "Session":
    """A session of botocore's, which by itself reads the variables of the process alone."""
    from botocore.session import Session

    session = Session(profile=variables.get("AWS_PROFILE") or None)
    for variable, name in _FILE_VARIABLES.items():
        if variables.get(variable):
            session.set_config_variable(name, variables[variable])
    return session


def _credentials(provider: str, own: Mapping[str, str]) -> "ReadOnlyCredentials":
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    # Files and commands of a profile that are not as they should be fail as they come.
    unusable = (BotoCoreError, ClientError, OSError, ValueError, LookupError)
    try:
        found = _found_credentials(own)
        frozen = found.get_frozen_credentials() if found is not None else None
    except (ConnectionError, HTTPClientError) as error:
        raise NetworkError(f"{provider}: AWS gave no credentials: {error}") from error
    except unusable as error:
        raise AuthError(f"{provider}: the AWS credentials cannot be used: {error}") from error
    if frozen is None or not frozen.access_key:
        raise AuthError(
            f"{provider}: no AWS credentials were found; set AWS_BEARER_TOKEN_BEDROCK, or "
            "AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return frozen


def _found_credentials(own: Mapping[str, str]) -> "Credentials | None":
    from botocore.credentials import Credentials, RefreshableCredentials

    if own.get("AWS_ACCESS_KEY_ID") and own.get("AWS_SECRET_ACCESS_KEY"):
        token = own.get("AWS_SESSION_TOKEN") or None
        return Credentials(own["AWS_ACCESS_KEY_ID"], own["AWS_SECRET_ACCESS_KEY"], token)
    every = {**os.environ, **own}
    variables = tuple(sorted(each for each in every.items() if each[0].startswith("AWS_")))
    kept = _refreshing.get(variables)
    if kept is not None:
        return kept
    found = _session(own).get_credentials()
    if isinstance(found, RefreshableCredentials):
        _refreshing.clear()
        _refreshing[variables] = found
    return found
