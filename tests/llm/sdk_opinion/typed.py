"""A request as the types of a vendor's library see it."""

from collections.abc import Iterator
from typing import Any


def as_typed(kind: Any, body: dict[str, Any]) -> Any:
    """``body`` without what ``kind``, a typed dictionary, does not know; raises if it does not fit.

    The libraries' types drop unknown fields, so that an invented one would be missing.
    """
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    return _whole(adapter.validate_python(body))


def _whole(value: Any) -> Any:
    """``value`` with its lazy lists read: they are validated while they are read, and only once."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, (list, Iterator)):
        return [_whole(each) for each in value]
    return value
