"""What can go wrong between us and a provider.

::

    ProviderError                status, retry_after_ms, retryable
    ├── AuthError                the credential is missing, wrong or expired (401)
    ├── AccessError              the credential may not do this (403)
    ├── ModelNotFoundError       no such model or endpoint (404)
    ├── BadRequestError          the provider refused the request (other 4xx)
    │   └── ContextOverflowError the conversation does not fit the model's window
    ├── QuotaError               credit or plan is used up; waiting does not help
    ├── RateLimitError           too many requests (429)             retryable
    ├── OverloadedError          the provider is at capacity         retryable
    ├── ServerError              the provider failed (5xx)           retryable
    ├── NetworkError             could not connect, or was cut off   retryable
    ├── StreamTimeoutError       nothing came for too long           retryable
    └── MalformedStreamError     the bytes are not the dialect's     retryable

Owns the tree. Which answer becomes which error is decided where the answer is read
(``pi_rpc.llm.failures``). Messages are for people: what went wrong, where, what to do; never a
credential, never a traceback.
"""

from typing import ClassVar

__all__ = [
    "AccessError",
    "AuthError",
    "BadRequestError",
    "ContextOverflowError",
    "MalformedStreamError",
    "ModelNotFoundError",
    "NetworkError",
    "OverloadedError",
    "ProviderError",
    "QuotaError",
    "RateLimitError",
    "ServerError",
    "StreamTimeoutError",
]


class ProviderError(Exception):
    """A provider could not be asked, or did not answer as agreed."""

    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_ms: int | None = None,
        retryable: bool | None = None,
    ) -> None:
        """``retryable`` overrides what the class says, where the provider itself says so."""
        super().__init__(message)
        self.message = message
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.retryable = self.default_retryable if retryable is None else retryable


class AuthError(ProviderError):
    """The credential is missing, wrong or expired."""


class AccessError(ProviderError):
    """The credential may not do this."""


class ModelNotFoundError(ProviderError):
    """The provider does not know the model or the address."""


class BadRequestError(ProviderError):
    """The provider refused the request."""


class ContextOverflowError(BadRequestError):
    """The conversation does not fit the model's context window."""


class QuotaError(ProviderError):
    """Credit or plan is used up; waiting does not help."""


class RateLimitError(ProviderError):
    """Too many requests."""

    default_retryable = True


class OverloadedError(ProviderError):
    """The provider is at capacity."""

    default_retryable = True


class ServerError(ProviderError):
    """The provider failed."""

    default_retryable = True


class NetworkError(ProviderError):
    """The provider could not be reached, or the connection was cut."""

    default_retryable = True


class StreamTimeoutError(ProviderError):
    """Nothing came for longer than the idle limit."""

    default_retryable = True


class MalformedStreamError(ProviderError):
    """What came is not what the dialect allows, or it ended too early."""

    default_retryable = True
