"""The editor behind the language client, as a session's tools meet it.

Owns the step from the host's ``Editor`` to ``workspace/applyEdit``, and that an edit counts once
the document shows it, not when the editor says so. LSP has no request to save: what was edited
stays unsaved. What is made of all this is ``pi_rpc.host.edited_files``'.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pi_rpc._os.threads import run_blocking
from pi_rpc.host import editor as e
from pi_rpc.host.text_edits import PositionEncoding, TextEdit
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.lsp import shapes as s
from pi_rpc.lsp.documents import Documents, on_disk
from pi_rpc.lsp.handshake import EditorAbilities

__all__ = ["ClientEditor"]

_APPLY = "workspace/applyEdit"
_GRACE_S = 1.0
"""How long a document may show something else than the edit before it counts as moved on: what the
person typed may come first."""
_LONGEST_S = 10.0
"""How long a document may take to show an edit where answers have no limit."""


class ClientEditor:
    """The ``Editor`` of one session."""

    def __init__(
        self,
        documents: Documents,
        asking: Asking,
        abilities: EditorAbilities,
        encoding: PositionEncoding,
        *,
        timeout_s: float | None,
    ) -> None:
        """``timeout_s``: how long the editor may take to answer."""
        self._documents = documents
        self._asking = asking
        self._versioned = abilities.versioned_edits
        self._timeout_s = timeout_s
        self.position_encoding = encoding
        self.can_edit = abilities.apply_edit
        self.can_save = False

    @property
    def documents(self) -> Mapping[str, e.OpenDocument]:
        """Open documents by URI."""
        return self._documents.open

    async def look(self, path: Path) -> None:
        """It says by itself what is open, but not whether that is saved."""
        del path
        await self._documents.look()

    async def read(self, uri: str) -> e.DocumentText | None:
        """What it has said that the document reads."""
        document = self._documents.get(uri)
        if document is None:
            return None
        text, version = document.source, document.version or 0
        uses_crlf = False
        if (known := self._documents.open.get(uri)) is not None and "\r\n" not in text:
            saved = await run_blocking(on_disk, known.path)
            uses_crlf = saved is not None and "\r\n" in saved
        return e.DocumentText(text, version, "\r\n" if uses_crlf else "")

    async def edit(self, uri: str, version: int, edits: Sequence[TextEdit]) -> e.Applied:
        """``workspace/applyEdit``, and the change that comes of it."""
        document = self._documents.get(uri)
        if document is None or document.version != version:
            return e.Applied(applied=False, reason="version")
        wanted = await run_blocking(self._documents.edited, document.source, edits)
        params = {"label": "pi", "edit": self._workspace_edit(uri, version, edits)}
        answer = await self._asking.ask(
            _APPLY, params, s.ApplyEditResult, timeout_s=self._timeout_s
        )
        if answer is None:
            raise e.NoAnswerError
        if not answer.applied:
            return e.Applied(applied=False, reason=answer.failure_reason or "")
        await self._documents.until(
            uri, wanted, since=version, timeout_s=self._timeout_s or _LONGEST_S, grace_s=_GRACE_S
        )
        return e.Applied(applied=True)

    async def save(self, uri: str, version: int) -> bool:
        """There is no such request."""
        del uri, version
        return False

    def _workspace_edit(self, uri: str, version: int, edits: Sequence[TextEdit]) -> dict[str, Any]:
        texts = [{"range": each.range, "newText": each.new_text} for each in edits]
        if not self._versioned:
            return {"changes": {uri: texts}}
        document = {"uri": uri, "version": version}
        return {"documentChanges": [{"textDocument": document, "edits": texts}]}
