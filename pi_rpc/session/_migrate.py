"""Lines of older files, as the current version would write them.

Owns what changed between the versions. Pure: does not own rewriting a file.
"""

from typing import Any

from pi_rpc.session._repair import clean_json, plain_object

__all__ = ["Upgrade"]


class Upgrade:
    """Turns the lines of a file of version 1 or 2 into version 3, one after the other.

    Version 1 had no ids: entries get their position as id, the same whenever the file is read.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._index = 0
        self._ids: dict[int, str] = {}
        self._last: str | None = None

    def line(self, line: bytes) -> bytes:
        """The line as version 3 has it; one that is no object stays as it is."""
        fields = plain_object(line) if line.strip() else None
        if fields is None:
            return line
        changed = self._version < 2 and self._with_id(fields)
        message = fields.get("message")
        if isinstance(message, dict) and message.get("role") == "hookMessage":
            message["role"] = "custom"
            changed = True
        return clean_json(fields) if changed else line

    def _with_id(self, fields: dict[str, Any]) -> bool:
        # Positions count the header, which was 0.
        self._index += 1
        if fields.get("type") == "session":
            return False
        entry_id = f"{self._index:08x}"
        self._ids[self._index] = entry_id
        fields |= {"id": entry_id, "parentId": self._last}
        self._last = entry_id
        if fields.get("type") == "compaction":
            kept = fields.pop("firstKeptEntryIndex", None)
            if isinstance(kept, int):
                fields["firstKeptEntryId"] = self._ids.get(kept, entry_id)
            else:
                fields.setdefault("firstKeptEntryId", entry_id)
        return True
