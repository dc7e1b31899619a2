"""What a file is, by its first bytes, as far as the tools tell files apart. Pure functions."""

from dataclasses import dataclass

__all__ = ["ImageType", "binary_reason", "image_type"]


@dataclass(frozen=True, slots=True)
class ImageType:
    """A type of image."""

    mime_type: str
    can_be_shown: bool = True
    """Models take images of this type as they are."""


def image_type(head: bytes) -> ImageType | None:
    """The type of the image that begins with ``head``; None when it is no image we know."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageType("image/png")
    if head.startswith(b"\xff\xd8\xff"):
        return ImageType("image/jpeg")
    if head.startswith((b"GIF87a", b"GIF89a")):
        return ImageType("image/gif")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ImageType("image/webp")
    # "BM" may begin a text; the reserved field behind the size is zero in a bitmap only.
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0":
        return ImageType("image/bmp", can_be_shown=False)
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
