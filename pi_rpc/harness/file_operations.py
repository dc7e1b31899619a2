"""Which files a stretch of conversation read and changed, as its tool calls say.

Owns their collection and the form in which summaries and session entries carry them. Does not own
the tools: only their names and the argument ``path`` are known here.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from pi_rpc.agent.messages import AgentMessage
from pi_rpc.llm.messages import AssistantMessage, ToolCall, ToolResultMessage

__all__ = ["FileOperations", "without_file_lists"]

_READING = frozenset({"read"})
_CHANGING = frozenset({"write", "edit"})
_TAGS = ("read-files", "modified-files")


class FileOperations(Struct):
    """Paths as the model wrote them."""

    _read: set[str] = field(default_factory=set)
    _modified: set[str] = field(default_factory=set)

    @property
    def read(self) -> list[str]:
        """Files that were read and not changed, sorted."""
        return sorted(self._read - self._modified)

    @property
    def modified(self) -> list[str]:
        """Files that were written or edited, sorted."""
        return sorted(self._modified)

    def add_messages(self, messages: Iterable[AgentMessage]) -> None:
        """Count the tool calls of a conversation, and calls that its tools made in turn."""
        for message in messages:
            if isinstance(message, AssistantMessage):
                for block in message.content:
                    if isinstance(block, ToolCall):
                        self._add_call(block.name, block.arguments)
            elif isinstance(message, ToolResultMessage):
                self._add_nested(message.nested_calls)

    def add_details(self, details: Any) -> None:
        """Count what an earlier summary of ours, or of pi, already listed."""
        if isinstance(details, dict):
            self._read.update(_paths(details.get("readFiles")))
            self._modified.update(_paths(details.get("modifiedFiles")))

    def details(self) -> dict[str, list[str]]:
        """The ``details`` of a compaction or branch summary entry."""
        return {"readFiles": self.read, "modifiedFiles": self.modified}

    def lists(self) -> str:
        """What a summary ends with: one path per line; empty when there are none."""
        return _list(_TAGS[0], self.read) + _list(_TAGS[1], self.modified)

    def _add_call(self, name: str, arguments: Any) -> None:
        path = arguments.get("path") if isinstance(arguments, dict) else None
        if not isinstance(path, str) or not path:
            return
        if name in _READING:
            self._read.add(path)
        elif name in _CHANGING:
            self._modified.add(path)

    def _add_nested(self, calls: Any) -> None:
        waiting = [calls]
        while waiting:
            nested = waiting.pop()
            if not isinstance(nested, list):
                continue
            for call in nested:
                if isinstance(call, dict):
                    self._add_call(str(call.get("name") or call.get("toolName")), _arguments(call))
                    waiting.append(call.get("nestedCalls"))


def without_file_lists(summary: str) -> str:
    """``summary`` without the lists at its end, which are counted by ``add_details``."""
    end = _trimmed(summary, len(summary))
    while (start := _list_before(summary, end)) >= 0:
        end = _trimmed(summary, start)
    return summary[:end].strip()


def _list_before(text: str, end: int) -> int:
    """Where the list begins that ends at ``end``; negative when none does."""
    for tag in _TAGS:
        if text.endswith(f"</{tag}>", 0, end):
            return text.rfind(f"<{tag}>", 0, end)
    return -1


def _trimmed(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


def _arguments(call: dict[str, Any]) -> Any:
    return next((call[key] for key in ("arguments", "args", "input") if key in call), None)


def _paths(value: Any) -> list[str]:
    return [path for path in value if isinstance(path, str)] if isinstance(value, list) else []


def _list(tag: str, paths: Sequence[str]) -> str:
    lines = "\n".join(paths)
    return f"\n\n<{tag}>\n{lines}\n</{tag}>" if paths else ""
