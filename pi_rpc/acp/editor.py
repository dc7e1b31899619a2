"""The editor behind the client, through ``fs/*``.

Owns the step from the host's ``Editor`` to ``fs/read_text_file`` and ``fs/write_text_file``. The
protocol does not tell which documents are open: a file is taken for open while the client gives
another text for it than the disk does, or, where the client writes as well, exactly the same. A
text that differs in its line ends alone, as clients give it that normalise them, is the file's, and
the file is read and written where it is. What is made of all this is ``pi_rpc.host.edited_files``'.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pi_rpc._os.threads import run_blocking
from pi_rpc.acp import questions as q
from pi_rpc.host import editor as e
from pi_rpc.host.edited_files import MAX_DOCUMENT_BYTES
from pi_rpc.host.hosted import HostedSession
from pi_rpc.host.text_edits import PositionEncoding, TextEdit
from pi_rpc.jsonrpc.asking import Asking

__all__ = ["ClientEditor"]

_READ, _WRITE = "fs/read_text_file", "fs/write_text_file"
_BOM = "\ufeff"


class ClientEditor:
    """The ``Editor`` of one session of a client."""

    def __init__(
        self, hosted: HostedSession, asking: Asking, *, can_edit: bool, timeout_s: float | None
    ) -> None:
        """``can_edit``: the client writes, too. ``timeout_s``: how long it may take to answer."""
        self._hosted = hosted
        self._asking = asking
        self._timeout_s = timeout_s
        self._open: dict[str, e.OpenDocument] = {}
        self._versions: dict[str, tuple[int, int]] = {}
        """How often what each shows had changed, and a digest of it: a model may look at more texts
        than are to be kept."""
        self._looked_at: tuple[str, str] | None = None
        """The text that has just been asked for, behind whose it is."""
        self._refused: set[str] = set()
        """Documents that the client would not write."""
        self.position_encoding: PositionEncoding = "utf-32"
        self.can_edit = can_edit
        self.can_save = False

    @property
    def documents(self) -> Mapping[str, e.OpenDocument]:
        """What was found to be open, by URI."""
        return self._open

    async def look(self, path: Path) -> None:
        """Ask for its text and compare it with the disk's."""
        if not self._asking.can_ask(_READ):
            return
        uri = path.as_uri()
        on_disk, is_text = await run_blocking(_on_disk, path)
        shown = await self._text(path) if is_text else None
        if shown is None or not self._is_open(uri, shown, on_disk):
            self._open.pop(uri, None)
            self._versions.pop(uri, None)
            return
        self._open[uri] = e.OpenDocument(uri, path, dirty=shown != on_disk)
        self._looked_at = uri, shown

    async def read(self, uri: str) -> e.DocumentText | None:
        """``fs/read_text_file``."""
        document = self._open.get(uri)
        if document is None:
            return None
        looked_at, self._looked_at = self._looked_at, None
        if looked_at is not None and looked_at[0] == uri:
            text = looked_at[1]
        elif (shown := await self._text(document.path)) is not None:
            text = shown
        else:
            raise e.NoAnswerError
        version = self._version_of(uri, text)
        on_disk, _ = await run_blocking(_on_disk, document.path)
        uses_crlf = on_disk is not None and "\r\n" in on_disk and "\r\n" not in text
        return e.DocumentText(text, version, "\r\n" if uses_crlf else "")

    async def edit(self, uri: str, version: int, edits: Sequence[TextEdit]) -> e.Applied:
        """``fs/write_text_file``; with the whole text, so it is looked at just before."""
        document = self._open[uri]
        shown = await self._text(document.path)
        if shown is None:
            raise e.NoAnswerError
        if self._version_of(uri, shown) != version:
            return e.Applied(applied=False, reason="version")
        wanted = _edited(shown, edits)
        params = q.WriteFileParams(
            session_id=self._hosted.id, path=str(document.path), content=wanted
        )
        answer = await self._asking.ask(_WRITE, params, q.Nothing, timeout_s=self._timeout_s)
        self._looked_at = None  # Another call may have looked meanwhile.
        if answer is None:
            self._refused.add(uri)
            return e.Applied(applied=False, reason="it would not write the file")
        on_disk, _ = await run_blocking(_on_disk, document.path)
        saved = on_disk is not None and _plain(on_disk) == _plain(wanted)
        self._open[uri] = e.OpenDocument(uri, document.path, dirty=not saved)
        return e.Applied(applied=True, saved=saved)

    async def save(self, uri: str, version: int) -> bool:
        """The protocol has no such request; clients save what they are given to write."""
        del uri, version
        return False

    # --- inside ----------------------------------------------------------------------------------

    def _is_open(self, uri: str, shown: str, on_disk: str | None) -> bool:
        if shown == on_disk:
            return self.can_edit and uri not in self._refused
        return on_disk is None or _plain(shown) != _plain(on_disk)

    def _version_of(self, uri: str, text: str) -> int:
        """The version that ``text``, which it shows now, is of it."""
        version, before = self._versions.get(uri, (0, None))
        if before != (digest := hash(text)):
            version += 1
            self._versions[uri] = version, digest
        return version

    async def _text(self, path: Path) -> str | None:
        params = q.ReadFileParams(session_id=self._hosted.id, path=str(path))
        answer = await self._asking.ask(_READ, params, q.ReadFileResult, timeout_s=self._timeout_s)
        return None if answer is None else answer.content


def _on_disk(path: Path) -> tuple[str | None, bool]:
    """The text of a file, None where there is none; and whether it can be asked for as a text.
    Blocks."""
    try:
        if not path.is_file():
            return None, not path.exists()
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            return None, False
        text = path.read_bytes().decode()
    except (OSError, ValueError):
        return None, False
    return text, "\0" not in text


def _plain(text: str) -> str:
    """A text but for how its lines end, and the last of them."""
    text = text.removeprefix(_BOM).replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n")


def _edited(text: str, edits: Sequence[TextEdit]) -> str:
    """``text`` with ``edits``, whose places are in characters, in the order of the text."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    pieces: list[str] = []
    done = 0
    for edit in edits:
        start, end = edit.range.start, edit.range.end
        pieces += [text[done : starts[start.line] + start.character], edit.new_text]
        done = starts[end.line] + end.character
    return "".join([*pieces, text[done:]])
