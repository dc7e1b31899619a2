"""What the editor is told beside answers: messages, and answers of a model as documents.

Owns when a message is enough, and the private folder that documents of ours are in. An editor that
shows no documents is told where they are.
"""

import logging
from pathlib import Path

import anyio

from pi_rpc._os.scratch import ScratchFolder
from pi_rpc._os.threads import run_blocking
from pi_rpc.jsonrpc.asking import Asking
from pi_rpc.jsonrpc.peer import Peer
from pi_rpc.lsp import shapes as s

__all__ = ["Telling"]

_log = logging.getLogger("pi_rpc.lsp")

_SHORT = 200
"""Characters of an answer that a message has room for, if they are one line."""
_ANSWER_S = 10.0
"""How long the editor may take to show a document."""


class Telling:
    """All that one editor is told."""

    def __init__(self, peer: Peer, asking: Asking, *, shows_documents: bool) -> None:
        self._peer = peer
        self._asking = asking
        self._shows_documents = shows_documents
        self._folder: ScratchFolder | None = None
        self._making = anyio.Lock()
        self._written = 0

    def message(self, level: int, text: str) -> None:
        """``window/showMessage``; or, at the lowest level, ``window/logMessage``."""
        method = "window/logMessage" if level == s.LOG else "window/showMessage"
        self._peer.notify(method, {"type": level, "message": text})

    async def answer(self, title: str, text: str) -> None:
        """What a model has answered: a short line as a message, anything else as a document."""
        text = text.strip()
        if not text:
            return
        if len(text) <= _SHORT and "\n" not in text:
            self.message(s.INFO, text)
            return
        try:
            path = await self.write("answer", f"# {title}\n\n{text}\n")
        except OSError as error:
            _log.warning("an answer is a message, for no document can be written: %s", error)
            self.message(s.INFO, text)
            return
        await self.show(path, f"{brief(text)}\nThe whole answer: {path}")

    async def write(self, name: str, text: str) -> Path:
        """A new document of ours, which only this user can read."""
        async with self._making:
            if self._folder is None or not await run_blocking(self._folder.path.is_dir):
                # What nobody touches for days is taken out of temporary folders.
                await self.aclose()
                self._folder = await run_blocking(ScratchFolder)
        self._written += 1
        path = self._folder.path / f"{name}-{self._written}.md"
        await run_blocking(lambda: path.write_text(text, encoding="utf-8", errors="replace"))
        return path

    async def show(self, path: Path, instead: str) -> None:
        """``window/showDocument``, or the message ``instead``."""
        if self._shows_documents:
            params = {"uri": path.as_uri(), "external": False, "takeFocus": True}
            method = "window/showDocument"
            answer = await self._asking.ask(
                method, params, s.ShowDocumentResult, timeout_s=_ANSWER_S
            )
            if answer is not None and answer.success:
                return
        self.message(s.INFO, instead)

    async def aclose(self) -> None:
        """Remove what was written."""
        if self._folder is not None:
            await run_blocking(self._folder.remove)


def brief(text: str) -> str:
    """The beginning of a text, for a message."""
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}…"
