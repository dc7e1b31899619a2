"""Images that the read tool shows: fitted to what providers take, or described."""

import base64
import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from pi_rpc.agent.tool import ToolFailure, ToolResult
from pi_rpc.llm.abort import AbortController
from pi_rpc.llm.messages import ImageBlock, TextBlock
from pi_rpc.tools import _image_work
from pi_rpc.tools.read import read_tool
from tests.tools.conftest import Call

pytestmark = pytest.mark.anyio

READ = read_tool()


def saved(image: Image.Image, name: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, name, **options)  # type: ignore[arg-type]
    return out.getvalue()


def shown(result: ToolResult) -> tuple[str, Image.Image, ImageBlock]:
    note, block = result.content
    assert isinstance(note, TextBlock)
    assert isinstance(block, ImageBlock)
    return note.text, Image.open(io.BytesIO(base64.b64decode(block.data))), block


def described(result: ToolResult) -> str:
    [note] = result.content
    assert isinstance(note, TextBlock)
    return note.text


def two_halves(width: int, height: int) -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (width, height), "red")
    image.paste("blue", (width // 2, 0, width, height))
    return image


def png_that_claims(width: int, height: int) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


@pytest.mark.parametrize("name", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_an_image_that_fits_is_known_by_its_bytes_and_passed_on_as_it_is(
    call: Call, workdir: Path, name: str
) -> None:
    data = saved(two_halves(60, 40), name)
    (workdir / "no-suffix").write_bytes(data)
    note, _, block = shown(await call(READ, path="no-suffix", offset=5))
    assert note.startswith(f"Image no-suffix (image/{name.lower()}, 60x40, ")
    assert "Shown as" not in note
    assert block.mime_type == f"image/{name.lower()}"
    assert base64.b64decode(block.data) == data


async def test_a_large_image_is_scaled_and_the_note_says_by_how_much(
    call: Call, workdir: Path
) -> None:
    (workdir / "f.jpg").write_bytes(saved(two_halves(5000, 250), "JPEG"))
    note, image, block = shown(await call(READ, path="f.jpg"))
    assert image.size == (2000, 100)
    assert block.mime_type == "image/jpeg"
    assert "5000x250" in note
    assert "Shown as image/jpeg, 2000x100" in note
    assert "Multiply coordinates by 2.50" in note


async def test_a_bitmap_becomes_a_png(call: Call, workdir: Path) -> None:
    (workdir / "f.bmp").write_bytes(saved(two_halves(60, 40), "BMP"))
    note, image, block = shown(await call(READ, path="f.bmp"))
    assert (image.format, image.size, block.mime_type) == ("PNG", (60, 40), "image/png")
    assert "image/bmp, 60x40" in note


async def test_a_photo_is_turned_as_its_camera_says(call: Call, workdir: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    (workdir / "f.jpg").write_bytes(saved(two_halves(60, 40), "JPEG", exif=exif.tobytes()))
    note, image, _ = shown(await call(READ, path="f.jpg"))
    assert image.size == (40, 60)
    assert "image/jpeg, 40x60" in note
    red, _, blue = image.convert("RGB").getpixel((20, 10))  # type: ignore[misc]
    assert red > 200
    assert blue < 50


async def test_of_an_animation_the_first_frame_is_shown(call: Call, workdir: Path) -> None:
    frames = [Image.new("RGB", (30, 20), colour) for colour in ("red", "blue")]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    (workdir / "f.gif").write_bytes(data)
    note, image, _ = shown(await call(READ, path="f.gif"))
    assert "first frame" in note
    assert image.convert("RGB").getpixel((5, 5)) == (255, 0, 0)
    assert not getattr(image, "is_animated", False)


async def test_an_image_that_claims_to_be_gigantic_is_not_decoded(
    call: Call, workdir: Path
) -> None:
    (workdir / "f.png").write_bytes(png_that_claims(60_000, 60_000))
    text = described(await call(READ, path="f.png"))
    assert "60000x60000 pixels" in text
    assert "not shown" in text


@pytest.mark.parametrize("keep", [60, 12])
async def test_a_broken_image_is_only_described(call: Call, workdir: Path, keep: int) -> None:
    (workdir / "f.png").write_bytes(saved(two_halves(600, 400), "PNG")[:keep])
    assert "could not be decoded" in described(await call(READ, path="f.png"))


async def test_work_that_dies_or_takes_too_long_leaves_a_description(
    call: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "f.png").write_bytes(saved(two_halves(60, 40), "PNG"))
    monkeypatch.setattr("pi_rpc.tools._images._TIME_LIMIT_S", 0)
    assert "longer than 0 seconds" in described(await call(READ, path="f.png"))
    monkeypatch.undo()
    monkeypatch.setattr("pi_rpc.tools._apart._START", "import os; os.abort()")
    assert "working on it failed" in described(await call(READ, path="f.png"))


async def test_an_abort_ends_the_work(call: Call, workdir: Path) -> None:
    (workdir / "f.png").write_bytes(saved(two_halves(60, 40), "PNG"))
    controller = AbortController()
    controller.abort()
    with pytest.raises(ToolFailure, match="Aborted"):
        await call(READ, path="f.png", signal=controller.signal)


async def test_a_model_without_eyes_is_told_but_the_image_is_kept(
    call: Call, workdir: Path
) -> None:
    (workdir / "f.png").write_bytes(saved(two_halves(60, 40), "PNG"))
    note, _, _ = shown(await call(READ, path="f.png", supports_images=False))
    assert "cannot be shown images" in note


async def test_without_pillow_a_note_says_how_to_get_it(
    call: Call, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workdir / "f.png").write_bytes(saved(two_halves(60, 40), "PNG"))
    monkeypatch.setattr("pi_rpc.tools._images._has_pillow", lambda: False)
    text = described(await call(READ, path="f.png"))
    assert "image/png" in text
    assert "pip install 'pi-rpc[images]'" in text


async def test_a_file_beyond_all_measure_is_not_even_looked_at(call: Call, workdir: Path) -> None:
    with (workdir / "f.png").open("wb") as file:
        file.write(saved(two_halves(60, 40), "PNG"))
        file.truncate(65 * 1024 * 1024)
    assert "too large to be shown" in described(await call(READ, path="f.png"))


@pytest.mark.parametrize("most", [40_000, 4000, 40])
@pytest.mark.parametrize("name", ["PNG", "JPEG"])
def test_what_is_too_many_bytes_loses_quality_and_then_size(name: str, most: int) -> None:
    data = saved(Image.effect_noise((300, 200), 80).convert("RGB"), name)
    head, fitted = _image_work.fit({"maxBase64": most}, data)
    assert head["changed"]
    assert len(fitted) <= most // 4 * 3 or (head["width"], head["height"]) == (1, 1)
    assert Image.open(io.BytesIO(fitted)).size == (head["width"], head["height"])


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_can_be_scaled(mode: str) -> None:
    image = Image.new(mode, (2500, 10), 40_000 if mode == "I;16" else 1)
    head, fitted = _image_work.fit({}, saved(image, "PNG"))
    assert Image.open(io.BytesIO(fitted)).size == (2000, 8) == (head["width"], head["height"])


def test_sixteen_bits_of_grey_keep_their_brightness() -> None:
    data = saved(Image.new("I;16", (10, 10), 0x8000), "PNG")
    _, fitted = _image_work.fit({}, data)
    assert Image.open(io.BytesIO(fitted)).convert("L").getpixel((5, 5)) == 0x80


def test_a_photo_of_four_inks_becomes_one_of_three_colours() -> None:
    _, fitted = _image_work.fit({}, saved(Image.new("CMYK", (10, 10)), "JPEG"))
    assert Image.open(io.BytesIO(fitted)).mode == "RGB"
