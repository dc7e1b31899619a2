"""An editor's buffers, as far as the daemon is concerned with them.

They apply edits as LSP says: in the version they were made for or not at all, in the encoding that
was agreed on. Places in a text are found in its encoded bytes, so nothing here is computed as the
daemon does it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
from pygls.protocol import default_converter

from tests.e2e.editor import DEADLINE_S, Editor

CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
ABILITIES = ("readDocument", "applyEdit", "saveDocument")


@dataclass
class Buffer:
    """A document that is open."""

    path: Path
    uri: str
    text: str
    """With plain line ends, whatever the file has."""
    eol: str = "\n"
    version: int = 1
    dirty: bool = False
    undo: list[str] = field(default_factory=list)
    """Earlier texts: one for each step."""

    def change(self, text: str) -> None:
        """Another text, as one step."""
        self.undo.append(self.text)
        self.text = text
        self.version += 1
        self.dirty = True

    def save(self) -> None:
        self.path.write_bytes(self.text.replace("\n", self.eol).encode())
        self.dirty = False


class Buffers:
    """The documents of an editor; answers what the daemon asks about them."""

    def __init__(self, editor: Editor, encoding: str = "utf-16") -> None:
        self.editor = editor
        self.encoding = encoding
        self.open: dict[str, Buffer] = {}
        self.answers: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "editor/readDocument": self.read,
            "workspace/applyEdit": self.apply,
            "editor/saveDocument": self.save,
        }
        """What answers each question; tests put others in place."""
        for method in self.answers:
            editor.answers(method, lambda params, method=method: self.answers[method](params))

    def show(self, path: Path, *, typed: str | None = None, uri: str | None = None) -> Buffer:
        """Open a file; ``typed`` is what the person has made of it without saving."""
        content = path.read_bytes().decode() if path.exists() else ""
        eol = "\r\n" if "\r\n" in content else "\n"
        text = content.replace("\r\n", "\n")
        buffer = Buffer(path, uri or path.as_uri(), text, eol)
        if typed is not None:
            buffer.change(typed)
        self.open[buffer.uri] = buffer
        self.tell()
        return buffer

    def tell(self) -> None:
        """``editor/didChange``."""
        documents = [
            {"uri": each.uri, "version": each.version, "dirty": each.dirty}
            for each in self.open.values()
        ]
        self.editor.notify("editor/didChange", {"openDocuments": documents})

    @property
    def asked(self) -> list[str]:
        """The methods of what the daemon has asked, in order."""
        return [method for method, _ in self.editor.asked]

    async def read(self, params: dict[str, Any]) -> Any:
        buffer = self.open.get(params["uri"])
        if buffer is None:
            return {"open": False}
        return {
            "open": True,
            "text": buffer.text,
            "version": buffer.version,
            "eol": buffer.eol,
        }

    async def apply(self, params: Any) -> Any:
        # The library knows this request, and makes objects of it.
        plain = params if isinstance(params, dict) else default_converter().unstructure(params)
        (change,) = plain["edit"]["documentChanges"]
        buffer = self.open[change["textDocument"]["uri"]]
        if buffer.version != change["textDocument"]["version"]:
            return {"applied": False, "failureReason": "version"}
        buffer.change(applied(buffer.text, change["edits"], self.encoding))
        self.tell()
        return {"applied": True}

    async def save(self, params: dict[str, Any]) -> Any:
        buffer = self.open[params["uri"]]
        if buffer.version != params["version"]:
            return {"saved": False}
        buffer.save()
        self.tell()
        return {"saved": True}

    async def prompt(self, message: str = "go") -> list[dict[str, Any]]:
        """Prompt, and give the ends of the tool calls of that run."""
        before = len(self.editor.events)
        with anyio.fail_after(DEADLINE_S):
            await self.editor.request("prompt", {"message": message})
        ended = self.editor.events[before:]
        return [each for each in ended if each["type"] == "tool_execution_end"]


def applied(text: str, edits: Sequence[dict[str, Any]], encoding: str) -> str:
    """``text`` after LSP's ``edits``; refuses what LSP does not allow."""
    codec, width = CODECS[encoding]
    lines = text.split("\n")

    def place(position: dict[str, int]) -> int:
        line, character = position["line"], position["character"]
        before = lines[line].encode(codec)[: character * width]
        assert len(before) == character * width, "a position behind the end of its line"
        rest = lines[line][len(before.decode(codec)) :]
        inside = before.decode(codec).endswith("\r") and not rest and line + 1 < len(lines)
        assert not inside, "a position within a line break"
        return sum(len(each) + 1 for each in lines[:line]) + len(before.decode(codec))

    spans = [
        (place(each["range"]["start"]), place(each["range"]["end"]), each["newText"])
        for each in edits
    ]
    assert spans == sorted(spans)
    for (_, end, _), (start, _, _) in pairwise(spans):
        assert end <= start, "edits that overlap"
    for start, end, new in reversed(spans):
        assert start <= end
        text = text[:start] + new + text[end:]
    return text


def said(end: dict[str, Any]) -> str:
    """What the model reads of a call."""
    return "".join(block["text"] for block in end["result"]["content"])
