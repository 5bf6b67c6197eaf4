"""Fit images to the limits of the API: pixels, bytes, complete data, one of four formats.

Never larger than `MAX_SIDE`: the API would scale it down anyway, after a longer upload. Pillow is imported only
when an image is read; without it, images that already fit are sent unchanged.
"""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock
from agentcli.tools.files.file_kinds import image_media_type

MAX_IMAGE_SIZE = 5 * 1024 * 1024 * 3 // 4
"""The API accepts 5 MB of base64, which is this many bytes."""
MAX_SIDE = 1_568
_MAX_ACCEPTED_LENGTH = 8_000
_MAX_PIXELS = 40_000_000
"""Decoded that is 160 MB. Several images may be read at a time."""
_MAX_JPEG_PIXELS = 80_000_000
"""More, because JPEG is decoded at a smaller scale. Below Pillow's limit for decompression bombs."""
_MAX_SCANS = 100
"""Maximum passes of a progressive JPEG, which has about ten. Each costs time for all pixels, and hardly any bytes."""
_SENDABLE = ("image/png", "image/jpeg", "image/gif", "image/webp")


@frozen
class Picture:
    data: bytes
    media_type: str
    width: int
    height: int
    original: tuple[int, int] | None = None
    """Width and height in the file, if it was scaled down."""

    @property
    def words(self) -> str:
        size = f"{self.width}×{self.height}"
        if self.original is None:
            return f"{self.media_type}, {size}"
        width, height = self.original
        scale = f"multiply coordinates by {width / self.width:.2f}"
        return f"{self.media_type}, shown at {size}, {width}×{height} in the file: {scale}"

    def block(self) -> ImageBlock:
        data = base64.b64encode(self.data).decode("ascii")
        return ImageBlock({"type": "base64", "media_type": self.media_type, "data": data})


@frozen
class Unshowable:
    reason: str


def fitted(data: bytes) -> Picture | Unshowable:
    """The image in a form that can be sent. Blocking; never raises for invalid data."""
    kind = image_media_type(data)
    if kind == "image/png":
        data = _without_damaged_metadata(data)
    size = _dimensions(data, kind)
    if kind is None or size is None:
        return Unshowable("it is damaged or cut off")
    most = _MAX_JPEG_PIXELS if kind == "image/jpeg" else _MAX_PIXELS
    if size[0] * size[1] > most:
        return Unshowable(f"it has {size[0]}×{size[1]} pixels, which is too large to be decoded")
    if kind == "image/jpeg" and data.count(b"\xff\xda") > _MAX_SCANS:
        return Unshowable(f"it is a JPEG of more than {_MAX_SCANS} passes, which takes too long to be decoded")
    fits = max(size) <= MAX_SIDE and len(data) <= MAX_IMAGE_SIZE and kind in _SENDABLE
    try:
        from PIL import Image, ImageOps
    except ImportError:
        if (fits or max(size) <= _MAX_ACCEPTED_LENGTH) and len(data) <= MAX_IMAGE_SIZE and kind in _SENDABLE:
            return Picture(data, kind, *size)
        return Unshowable("it must be resized or converted, and Pillow is not installed: pip install pillow")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP", "BMP")) as image:
            # The decoder may see a different size than the header check above.
            if image.width * image.height > most:
                return Unshowable(f"it has {image.width}×{image.height} pixels, which is too large to be decoded")
            if not fits:
                image.draft("RGB", (MAX_SIDE, MAX_SIDE))
            image.load()
            if fits:
                return Picture(data, kind, *size)
            if image.mode in ("RGB", "RGBA", "L", "CMYK"):
                # Before it is turned or converted: a copy of all its pixels takes as much memory again.
                image.thumbnail((MAX_SIDE, MAX_SIDE))
            return _smaller(ImageOps.exif_transpose(image), kind, size)
    except Exception as error:  # noqa: BLE001 - decoders fail in many ways, and all of them mean this
        return Unshowable(f"it is damaged or of an unknown kind: {type(error).__name__}")


def _smaller(image: Any, kind: str, original: tuple[int, int]) -> Picture | Unshowable:
    is_transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    image = image.convert("RGBA" if is_transparent else "RGB")
    # JPEG for images that are already lossy; PNG keeps drawings and screenshots sharp.
    formats = ("JPEG",) if kind == "image/jpeg" else ("PNG", "JPEG")
    side = MAX_SIDE
    while side >= 200:
        image.thumbnail((side, side))
        for format in formats:
            data = _encoded(image, format)
            if len(data) <= MAX_IMAGE_SIZE:
                turned = (image.width > image.height) != (original[0] > original[1]) and original[0] != original[1]
                shown = (original[1], original[0]) if turned else original
                scaled = None if shown == (image.width, image.height) else shown
                return Picture(data, f"image/{format.lower()}", image.width, image.height, scaled)
        side //= 2
    return Unshowable("it cannot be made small enough")


def _encoded(image: Any, format: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    if format == "JPEG" and image.mode == "RGBA":
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A"))
        image = flat
    image.save(buffer, format, **({"quality": 85} if format == "JPEG" else {}))
    return buffer.getvalue()


def _without_damaged_metadata(data: bytes) -> bytes:
    """A PNG without optional chunks whose checksum is wrong: viewers ignore them, but Pillow rejects the image."""
    kept, at = [data[:8]], 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        is_optional = bool(data[at + 4] & 0x20)
        if not is_optional or zlib.crc32(data[at + 4 : end - 4]) == int.from_bytes(data[end - 4 : end], "big"):
            kept.append(data[at:end])
        at = end
    return b"".join((*kept, data[at:]))


def _dimensions(data: bytes, kind: str | None) -> tuple[int, int] | None:
    """Width and height from the header alone: a decompression bomb must be detected before decoding."""
    try:
        if kind == "image/png":
            return struct.unpack(">II", data[16:24])
        if kind == "image/gif":
            return struct.unpack("<HH", data[6:10])
        if kind == "image/bmp":
            width, height = struct.unpack("<ii", data[18:26])
            return width, abs(height)
        if kind == "image/webp":
            return _webp_dimensions(data)
        return _jpeg_dimensions(data) if kind == "image/jpeg" else None
    except (struct.error, IndexError):
        return None


def _webp_dimensions(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg_dimensions(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
