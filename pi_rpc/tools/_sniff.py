"""What a file is, by its first bytes, as far as the tools tell files apart. Pure functions."""

__all__ = ["binary_reason", "image_type"]


def image_type(head: bytes) -> str | None:
    """The media type of the image that begins with ``head``; None when it is no image we know."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    # "BM" may begin a text; the reserved field behind the size is zero in a bitmap only.
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return None


def binary_reason(head: bytes) -> str | None:
    """Why a file that begins with ``head`` cannot be read as text; None when it can."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) and b"\0" in head:
        return (
            "is text in UTF-16, and only UTF-8 can be read. "
            "Convert a copy of it, for instance with iconv -f UTF-16 -t UTF-8."
        )
    if b"\0" in head:
        return (
            "is a binary file (it contains NUL bytes) and was not read. "
            "Use a program that knows its format, or xxd, to look into it."
        )
    return None
