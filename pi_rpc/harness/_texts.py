"""Reading the texts people write for a model: Markdown files of modest size.

Owns what is read over (byte order marks, bytes that are not UTF-8) and the limit on size. Does not
own what a file means."""

from pathlib import Path

from pi_rpc._os.files import read_regular

__all__ = ["MAX_TEXT_BYTES", "TooLargeError", "read_beginning", "read_text"]

MAX_TEXT_BYTES = 1024 * 1024
"""A skill, prompt template or system prompt above this is a mistake."""

_BOM = "\ufeff"


class TooLargeError(Exception):
    """The file holds more than ``MAX_TEXT_BYTES``."""


def read_text(path: Path) -> str:
    """The text of ``path``, without a byte order mark and with line ends as ``\\n``.

    Bytes that are not UTF-8 become U+FFFD. Raises ``OSError`` and ``TooLargeError``.
    """
    text, left_out = read_beginning(path, MAX_TEXT_BYTES)
    if left_out:
        raise TooLargeError(f"larger than {MAX_TEXT_BYTES // 1024} KiB")
    return text


def read_beginning(path: Path, limit: int) -> tuple[str, int]:
    """At most ``limit`` bytes of ``path`` as text, and how many bytes were left out.

    As ``read_text`` otherwise; a character that the limit cuts in half is left out whole.
    """
    raw, left_out = read_regular(path, limit)
    text = raw.decode("utf-8", "ignore" if left_out and _ends_torn(raw) else "replace")
    return text.removeprefix(_BOM).replace("\r\n", "\n").replace("\r", "\n"), left_out


def _ends_torn(raw: bytes) -> bool:
    """The last character of ``raw`` is cut off, and nothing else is wrong with it."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False
