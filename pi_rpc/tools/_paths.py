"""Paths as models write them.

Owns how the text of a path argument becomes an absolute path, and how a path is shown. Does not
touch the disk. Symlinks are the file system's to resolve: ``..`` is taken off the text, before any
link is followed.
"""

import os
import re
import unicodedata
from pathlib import Path

from pi_rpc.agent.ports import PortError
from pi_rpc.agent.tool import Location, Range

__all__ = [
    "display_path",
    "display_text",
    "file_uri",
    "locations_of",
    "resolve_path",
    "spellings_on_disk",
    "title_path",
]

_UNICODE_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks by their category that show nothing."""
_BEFORE_AM_PM = re.compile(r" (?=(?:AM|PM)\.)", re.IGNORECASE)


def resolve_path(text: str, cwd: Path) -> Path:
    """The absolute path that ``text`` names, seen from ``cwd``.

    One leading ``@`` is dropped (models copy it from mentions), Unicode spaces become plain ones,
    ``~`` and ``~/`` are the home directory, and ``file:`` URLs are read as what they name. Raises
    ``PortError`` for what cannot be a path.
    """
    name = _UNICODE_SPACES.sub(" ", text.removeprefix("@"))
    if name[:5].lower() == "file:":
        name = _path_of_url(name)
    elif name == "~" or name.startswith("~/"):
        name = os.path.expanduser("~") + name[1:]  # noqa: PTH111 - text, not yet a path
    if not name:
        raise PortError("other", "The path is empty.")
    if "\0" in name:
        raise PortError("other", f"The path {display_text(name)} contains a NUL character.")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise PortError(
            "other",
            f"The path {display_text(name)} contains characters that no file name can have.",
        ) from None
    joined = os.path.normpath(cwd / name)
    # POSIX gives two leading slashes a meaning of their own; nobody who writes them wants it.
    return Path("/" + joined.lstrip("/") if joined.startswith("//") else joined)


def spellings_on_disk(path: Path) -> list[Path]:
    """Other spellings under which a missing file may exist, most likely first.

    macOS puts a narrow no-break space before AM and PM in screenshot names, decomposes accents,
    and some programs prefer a curly apostrophe.
    """
    text = str(path)
    decomposed = unicodedata.normalize("NFD", text)
    candidates = (
        _BEFORE_AM_PM.sub("\u202f", text),
        decomposed,
        text.replace("'", "\u2019"),
        decomposed.replace("'", "\u2019"),
    )
    return [Path(name) for name in dict.fromkeys(candidates) if name != text]


def file_uri(path: Path) -> str:
    """The ``file:`` URI of an absolute path."""
    return path.as_uri()


def display_path(path: Path, cwd: Path) -> str:
    """The path as a person would write it: relative inside ``cwd``, with ``~`` inside home."""
    if path == cwd:
        return "."
    if path.is_relative_to(cwd):
        return display_text(str(path.relative_to(cwd)))
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    if home.is_absolute() and path.is_relative_to(home) and path != home:
        return display_text("~/" + str(path.relative_to(home)))
    return display_text(str(path))


def display_text(text: str) -> str:
    """``text`` with what is not Unicode, what breaks a line and what is blank escaped."""
    safe = text.encode("utf-8", "backslashreplace").decode()
    if safe.isprintable() and _BLANK.isdisjoint(safe):
        return safe
    return "".join(
        char if char.isprintable() and char not in _BLANK else ascii(char)[1:-1] for char in safe
    )


def title_path(text: object, cwd: Path | None) -> str:
    """A path argument for a title, whatever it is."""
    if not isinstance(text, str):
        return "?"
    if cwd is None:
        return display_text(text)
    try:
        return display_path(resolve_path(text, cwd), cwd)
    except PortError:
        return display_text(text)


def locations_of(text: object, cwd: Path | None, part: Range | None = None) -> tuple[Location, ...]:
    """The location a path argument names; nothing where it names none."""
    if not isinstance(text, str):
        return ()
    if cwd is None:
        if not text.removeprefix("@").startswith(("/", "~", "file:")):
            return ()  # relative, and nothing to be relative to
        cwd = Path("/")
    try:
        path = resolve_path(text, cwd)
    except PortError:
        return ()
    uri = file_uri(path)
    return (Location(uri=uri) if part is None else Location(uri=uri, range=part),)


def _path_of_url(url: str) -> str:
    from urllib.parse import unquote_to_bytes, urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        raise PortError("other", f"{display_text(url)} is not a valid file URL.") from None
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise PortError(
            "other", f"{display_text(url)} is not a file of this machine; use file:///PATH."
        )
    return os.fsdecode(unquote_to_bytes(parts.path))
