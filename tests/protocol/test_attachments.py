"""What an editor sends along becomes text that a model can use."""

import pytest

from pi_rpc.agent.tool import Position, Range
from pi_rpc.protocol.attachments import (
    MAX_ATTACHMENT_BYTES,
    DiagnosticsAttachment,
    EditorDiagnostic,
    FileAttachment,
    SelectionAttachment,
    TextAttachment,
    attachments_text,
    check_attachments,
)
from pi_rpc.protocol.errors import ProtocolError


def lines(first: int, last: int, character: int = 3) -> Range:
    return Range(
        start=Position(line=first, character=0), end=Position(line=last, character=character)
    )


def test_a_file_is_named_by_its_path_and_its_lines_counted_from_one() -> None:
    whole = FileAttachment(uri="file:///a%20b.py")
    assert attachments_text([whole]) == '<attached-file path="/a b.py"/>'
    part = FileAttachment(uri="file:///a.py", range=lines(1, 3))
    assert attachments_text([part]) == '<attached-file path="/a.py" lines="2-4"/>'


def test_a_selection_that_ends_at_the_start_of_a_line_does_not_name_that_line() -> None:
    selection = SelectionAttachment(uri="file:///a.py", range=lines(1, 3, 0), text="x\ny\n")
    assert 'lines="2-3"' in attachments_text([selection])
    assert "\nx\ny\n" in attachments_text([selection])
    empty = SelectionAttachment(uri="file:///a.py", range=lines(1, 1, 0), text="")
    assert 'lines="2-2"' in attachments_text([empty])


def test_diagnostics_are_one_line_each() -> None:
    attachment = DiagnosticsAttachment(
        uri="file:///a.py",
        diagnostics=[
            EditorDiagnostic(
                range=lines(0, 0), message="unused", severity=2, code="F401", source="ruff"
            ),
            EditorDiagnostic(range=lines(4, 4), message="odd"),
        ],
    )
    text = attachments_text([attachment])
    assert "1:1 warning: unused [ruff F401]\n5:1 problem: odd\n" in text


def test_several_attachments_follow_each_other_and_names_cannot_break_out() -> None:
    both = [TextAttachment(text="T", name='a"b\nc'), FileAttachment(uri="file:///a")]
    text = attachments_text(list(both))
    assert text.startswith('<attached-text name="a&quot;b c">\nT\n</attached-text>\n<attached-file')


@pytest.mark.parametrize("uri", ["https://example.org", "untitled:1", "", "/a"])
def test_what_is_no_file_is_refused_by_its_path(uri: str) -> None:
    good = FileAttachment(uri="file:///a")
    with pytest.raises(ProtocolError, match=r"\$\.attachments\[1\]\.uri") as caught:
        check_attachments([good, FileAttachment(uri=uri)])
    assert caught.value.kind == "invalidParams"


def test_texts_are_bounded_together() -> None:
    half = TextAttachment(text="é" * (MAX_ATTACHMENT_BYTES // 4))
    check_attachments([half])
    with pytest.raises(ProtocolError, match="at most"):
        check_attachments([half, half])
