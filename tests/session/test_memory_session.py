"""Sessions that are never written behave as those that are."""

import pytest

from pi_rpc.session import (
    EntryNotFoundError,
    JsonlSession,
    MemorySession,
    SessionReadOnlyError,
    SessionStorage,
)
from tests.session.builders import ids, leaf_entry, name_entry, user_entry

pytestmark = pytest.mark.anyio


def both(memory: MemorySession, file: JsonlSession) -> tuple[SessionStorage, SessionStorage]:
    """The type checker agrees that both are ``SessionStorage``."""
    return memory, file


async def test_entries_form_a_tree_without_a_file() -> None:
    session = MemorySession("/w", session_id="mem", parent_session="/p.jsonl")
    a = await session.append(user_entry(session, "a"))
    b, c = await session.append_many([user_entry(session), name_entry(session, "n")])
    assert ids(session) == [a.id, b.id, c.id]
    assert (session.session_id, session.path, session.name) == ("mem", None, "n")
    assert (session.message_count, session.read_only, session.notes) == (2, False, [])
    await session.append(leaf_entry(session, a.id))
    assert session.leaf_id == a.id
    assert session.entry(b.id) is b
    assert session.entry("missing") is None
    await session.sync()
    assert await session.refresh() == "unchanged"
    with pytest.raises(EntryNotFoundError):
        await session.append(leaf_entry(session, "missing"))


async def test_a_closed_session_stays_readable_and_refuses_entries() -> None:
    session = MemorySession("/w")
    await session.append(user_entry(session))
    await session.aclose()
    assert len(session.branch()) == 1
    with pytest.raises(SessionReadOnlyError):
        await session.append(user_entry(session))


@pytest.mark.parametrize("session_id", ["", "-x", "a b", "a/b", "x" * 300])
async def test_a_bad_id_is_refused(session_id: str) -> None:
    with pytest.raises(ValueError, match="no session id"):
        MemorySession("/w", session_id=session_id)
