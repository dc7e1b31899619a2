"""Making an image fit for models: decoding, turning, scaling, encoding. With Pillow, of the extra
``images``.

Owns the rules of what a model is sent of an image. Blocks, may take long and much memory, and
decodes what somebody else made: run in a process of its own (``pi_rpc.tools._images``).
"""

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MAX_BASE64", "MAX_PIXELS", "MAX_SIDE", "fit"]

MAX_SIDE = 2000
"""Pixels of the longer side of what is sent; providers refuse larger images."""
MAX_BASE64 = 4_718_592
"""Characters of base64 (4.5 MiB) that what is sent may have."""
MAX_PIXELS = 120_000_000
"""Pixels of an image that is decoded at all: an image of a few bytes can claim to be gigantic."""

_FORMATS = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
}
_QUALITIES = (85, 70, 55, 40)
_SHRINK = 0.75
_SENT_AS_THEY_ARE = {"1", "L", "LA", "P", "RGB", "RGBA"}


def fit(request: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
    """The image ``content`` as models take it, and ``{mimeType, width, height, originalWidth,
    originalHeight, animated, changed}``; without bytes and with ``{problem}`` when it is none.

    ``request`` may hold ``maxBase64`` in place of ``MAX_BASE64``. Sizes are those of the image as
    it is looked at, turned as its EXIF data say.
    """
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # the limit here is our own
    most = request.get("maxBase64", MAX_BASE64) // 4 * 3
    try:
        with Image.open(io.BytesIO(content), formats=tuple(_FORMATS)) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                megapixels = width * height / 1_000_000
                return {
                    "problem": f"has {width}x{height} pixels ({megapixels:.0f} million), more "
                    f"than the {MAX_PIXELS // 1_000_000} million that are decoded"
                }, b""
            return _fitted(opened, content, most)
    except MemoryError:
        return {"problem": "takes too much memory to be decoded"}, b""
    except Exception as error:  # noqa: BLE001 - decoders of broken images raise whatever they like
        return {"problem": f"could not be decoded ({type(error).__name__})"}, b""


def _fitted(opened: "Image", content: bytes, most: int) -> tuple[dict[str, Any], bytes]:
    from PIL import ImageOps

    name = opened.format or ""
    original = opened.size
    is_animated = bool(getattr(opened, "is_animated", False))
    if is_animated:
        opened.seek(0)
    if max(original) > MAX_SIDE:
        # A JPEG can be decoded at half or a quarter of its size, which still is not too small.
        scale = MAX_SIDE / max(original)
        opened.draft(None, (round(original[0] * scale), round(original[1] * scale)))
    opened.load()
    turned = ImageOps.exif_transpose(opened)
    if (opened.getexif().get(0x0112) or 1) >= 5:  # a quarter turn
        original = (original[1], original[0])
    head: dict[str, Any] = {
        "originalWidth": original[0],
        "originalHeight": original[1],
        "animated": is_animated,
    }
    is_fit = (
        name in _FORMATS
        and name != "BMP"
        and not is_animated
        and max(original) <= MAX_SIDE
        and (opened.getexif().get(0x0112) or 1) == 1
        and opened.mode in _SENT_AS_THEY_ARE
        and len(content) <= most
    )
    if is_fit:
        head |= {"width": original[0], "height": original[1], "mimeType": _FORMATS[name]}
        return {**head, "changed": False}, content
    image = _plain(turned)
    if max(image.size) > MAX_SIDE:
        image = _scaled(image, MAX_SIDE / max(image.size))
    image, mime_type, data = _encoded(image, most, is_photo=name == "JPEG")
    head |= {"width": image.size[0], "height": image.size[1], "mimeType": mime_type}
    return {**head, "changed": True}, data


def _plain(image: "Image") -> "Image":
    """The image in a mode that every format and scaling can handle."""
    if image.mode.startswith("I") or image.mode == "F":
        # Sixteen bits of grey; converting directly would cut off and not scale.
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.mode in {"LA", "PA", "RGBA", "RGBa", "La"} or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in {"1", "L"} else "RGB")


def _scaled(image: "Image", scale: float) -> "Image":
    from PIL import Image

    width, height = (max(1, int(side * scale + 0.001)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _encoded(image: "Image", most: int, *, is_photo: bool) -> tuple["Image", str, bytes]:
    """The image, made smaller as far as it must be, in the form that loses least and fits."""
    while True:
        if not is_photo and len(data := _saved(image, "PNG")) <= most:
            return image, "image/png", data
        opaque = _opaque(image)
        for quality in _QUALITIES:
            data = _saved(opaque, "JPEG", quality=quality)
            if len(data) <= most or max(image.size) == 1:
                return image, "image/jpeg", data
        image = _scaled(image, _SHRINK)


def _opaque(image: "Image") -> "Image":
    from PIL import Image

    if image.mode != "RGBA":
        return image
    ground = Image.new("RGB", image.size, "white")
    ground.paste(image, mask=image.getchannel("A"))
    return ground


def _saved(image: "Image", name: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, name, **options)
    return out.getvalue()
