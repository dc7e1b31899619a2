"""Entries and messages for tests of sessions."""

from pathlib import Path
from typing import Any

from pi_rpc.llm.messages import (
    AssistantMessage,
    StopReason,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pi_rpc.session import SessionStorage
from pi_rpc.session.entries import (
    CustomEntry,
    LeafEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    iso_now,
)

FIXTURE = Path(__file__).parent / "fixtures" / "pi_1_6.jsonl"


def user(text: str, timestamp: int = 1_000) -> UserMessage:
    return UserMessage(content=text, timestamp=timestamp)


def assistant(
    text: str, *calls: str, stop_reason: StopReason = "stop", timestamp: int = 2_000
) -> AssistantMessage:
    content: list[Any] = [TextBlock(text=text)]
    content += [ToolCall(id=call, name="read", arguments={}) for call in calls]
    return AssistantMessage(
        content=content,
        api="test",
        provider="acme",
        model="one",
        usage=Usage.ZERO,
        stop_reason=stop_reason,
        timestamp=timestamp,
    )


def tool_result(call: str, text: str = "done") -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call,
        tool_name="read",
        content=[TextBlock(text=text)],
        is_error=False,
        timestamp=3_000,
    )


def place(session: SessionStorage) -> dict[str, Any]:
    """What every new entry needs."""
    return {"id": session.new_id(), "parent_id": None, "timestamp": iso_now()}


def message_entry(session: SessionStorage, message: Any) -> MessageEntry:
    return MessageEntry(**place(session), message=message)


def user_entry(session: SessionStorage, text: str = "hello") -> MessageEntry:
    return message_entry(session, user(text))


def model_entry(session: SessionStorage) -> ModelChangeEntry:
    return ModelChangeEntry(**place(session), provider="acme", model_id="one")


def custom_entry(session: SessionStorage, data: Any) -> CustomEntry:
    return CustomEntry(**place(session), custom_type="test", data=data)


def name_entry(session: SessionStorage, name: str) -> SessionInfoEntry:
    return SessionInfoEntry(**place(session), name=name)


def leaf_entry(session: SessionStorage, target_id: str | None) -> LeafEntry:
    return LeafEntry(**place(session), target_id=target_id)


def ids(session: SessionStorage) -> list[str]:
    return [stored.id for stored in session.branch()]


def texts(session: SessionStorage) -> list[Any]:
    """The contents of the messages on the branch."""
    return [
        stored.entry.message.content
        for stored in session.branch()
        if isinstance(stored.entry, MessageEntry)
    ]
