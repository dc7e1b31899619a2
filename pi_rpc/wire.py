"""The base of all structs that cross a wire or are stored, and the words that the handshake needs.

Below every layer, so that the handshake can be answered before any of them is imported. Owns how
fields are spelled and left out; does not own any message.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["ThinkingLevel", "Wire"]

ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]


class Wire(Struct, rename="camel", kw_only=True, frozen=True):
    """Base of everything that crosses a wire or is stored.

    camelCase outside, snake_case inside; keyword-only; frozen. Optional fields default to ``UNSET``
    and are omitted; required fields have no default, so they are always written.
    """
