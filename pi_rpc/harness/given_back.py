"""What a person wrote at an entry, given back to be changed and sent again.

Owns telling a person's own words from what was rendered beside them. Does not own moving there
(``branching``) nor new sessions that begin there (``pi_rpc.session.repo``).
"""

from typing import Any

from msgspec import Struct

from pi_rpc.harness.inputs import ATTACHMENTS_TYPE, own_text
from pi_rpc.llm.messages import ImageBlock, UserMessage
from pi_rpc.session.entries import CustomEntry, CustomMessageEntry, MessageEntry
from pi_rpc.session.storage import SessionStorage
from pi_rpc.session.stored import StoredEntry

__all__ = ["GivenBack", "given_back"]


class GivenBack(Struct, frozen=True):
    """One message of a person, in the parts it was sent in."""

    text: str
    images: tuple[ImageBlock, ...] = ()
    attachments: tuple[Any, ...] = ()
    """As they were sent: JSON objects."""


def given_back(session: SessionStorage, target: StoredEntry) -> GivenBack | None:
    """What was written at ``target``; None when it is nothing that a person writes."""
    entry = target.entry
    content: Any
    if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
        content = entry.message.content
    elif isinstance(entry, CustomMessageEntry):
        content = entry.content
    else:
        return None
    blocks = [] if isinstance(content, str) else content
    attachments: tuple[Any, ...] = ()
    for stored in session.entries():
        kept = stored.entry if stored.parent_id == target.id and stored.type == "custom" else None
        if isinstance(kept, CustomEntry) and kept.custom_type == ATTACHMENTS_TYPE:
            attachments = tuple(kept.data) if isinstance(kept.data, list) else ()
    return GivenBack(
        text=own_text(content, attachments),
        images=tuple(block for block in blocks if isinstance(block, ImageBlock)),
        attachments=attachments,
    )
