"""LineWindow: however a file is cut into pieces, the lines and counts are the same."""

from hypothesis import given
from hypothesis import strategies as st

from pi_rpc.tools._lines import LineWindow
from pi_rpc.tools._truncate import MAX_BYTES

_pieces = st.lists(st.text("a\n", min_size=1, max_size=5).map(str.encode), max_size=8)


@given(_pieces, st.integers(1, 8), st.none() | st.integers(1, 4))
def test_the_window_holds_the_lines_asked_for(
    pieces: list[bytes], first: int, limit: int | None
) -> None:
    window = LineWindow(first, limit)
    for piece in pieces:
        window.feed(piece)
    lines = b"".join(pieces).splitlines(keepends=True)
    selected = lines[first - 1 :][:limit]
    assert window.total_lines == len(lines)
    assert window.selected() == b"".join(selected)
    assert window.selected_lines == len(selected)
    assert window.selected_bytes == len(b"".join(selected))
    assert window.first_line_bytes == (len(selected[0].rstrip(b"\n")) if selected else 0)


def test_no_more_is_kept_than_can_be_shown() -> None:
    window = LineWindow(2, None)
    for _ in range(40):
        window.feed(b"x\n" * 100_000)
    assert len(window.selected()) < MAX_BYTES + 100
    assert window.total_lines == 4_000_000
    assert window.selected_bytes == 2 * 3_999_999
