"""What an editor sends along is checked before it is used."""

import pytest

from pi_rpc.agent.tool import Position, Range
from pi_rpc.protocol.attachments import (
    MAX_ATTACHMENT_BYTES,
    Attachment,
    DiagnosticsAttachment,
    EditorDiagnostic,
    FileAttachment,
    SelectionAttachment,
    TextAttachment,
    check_attachments,
)
from pi_rpc.protocol.errors import ProtocolError


@pytest.mark.parametrize("uri", ["https://example.org", "untitled:1", "", "/a"])
def test_what_is_no_file_is_refused_by_its_path(uri: str) -> None:
    good = FileAttachment(uri="file:///a")
    with pytest.raises(ProtocolError, match=r"^attachments\[1\]\.uri: ") as caught:
        check_attachments([good, FileAttachment(uri=uri)])
    assert caught.value.data == {"kind": "invalidParams", "path": "attachments[1].uri"}


HALF = "é" * (MAX_ATTACHMENT_BYTES // 4)
PLACE = Range(start=Position(line=0, character=0), end=Position(line=0, character=1))
HALVES: list[Attachment] = [
    TextAttachment(text=HALF),
    SelectionAttachment(uri="file:///a", range=PLACE, text=HALF),
    DiagnosticsAttachment(
        uri="file:///a", diagnostics=[EditorDiagnostic(range=PLACE, message=HALF)]
    ),
]


@pytest.mark.parametrize("half", HALVES)
def test_texts_of_every_kind_are_bounded_together(half: Attachment) -> None:
    check_attachments([half, half, FileAttachment(uri="file:///a")])
    with pytest.raises(ProtocolError, match="at most"):
        check_attachments([half, half, TextAttachment(text="x")])
