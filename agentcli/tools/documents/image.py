"""Fit images to the limits of the API: pixels, bytes, complete data, one of four formats.

Never larger than `MAX_SIDE`: the API would scale it down anyway, after a longer upload.
"""

from __future__ import annotations

import base64
import io
import warnings
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock
from agentcli.tools.files.file_kinds import image_media_type

MAX_IMAGE_SIZE = 5 * 1024 * 1024 * 3 // 4
"""The API accepts 5 MB of base64, which is this many bytes."""
MAX_SIDE = 1_568
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


def fit_image(data: bytes) -> Picture | Unshowable:
    """The image in a form that can be sent. Blocking; never raises for invalid data."""
    # Imported here: few sessions show images.
    from PIL import Image, ImageOps

    kind = image_media_type(data) or ""
    most = _MAX_JPEG_PIXELS if kind == "image/jpeg" else _MAX_PIXELS
    if kind == "image/jpeg" and data.count(b"\xff\xda") > _MAX_SCANS:
        return Unshowable(f"it is a JPEG of more than {_MAX_SCANS} passes, which takes too long to be decoded")
    try:
        with warnings.catch_warnings():
            # Reads only the header: an image that is too large must be detected before it is decoded.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP", "BMP"))
        with opened as image:
            size = image.size
            if size[0] * size[1] > most:
                return Unshowable(f"it has {size[0]}×{size[1]} pixels, which is too large to be decoded")
            fits = max(size) <= MAX_SIDE and len(data) <= MAX_IMAGE_SIZE and kind in _SENDABLE
            if not fits:
                image.draft("RGB", (MAX_SIDE, MAX_SIDE))
            image.load()
            if fits:
                return Picture(data, kind, *size)
            if image.mode in ("RGB", "RGBA", "L", "CMYK"):
                # Before it is turned or converted: a copy of all its pixels takes as much memory again.
                image.thumbnail((MAX_SIDE, MAX_SIDE))
            return _shrink(ImageOps.exif_transpose(image), kind, size)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        return Unshowable("it has too many pixels to be decoded")
    except Exception as error:  # noqa: BLE001 - decoders fail in many ways, and all of them mean this
        return Unshowable(f"it is damaged or of an unknown kind: {type(error).__name__}")


def _shrink(image: Any, kind: str, original: tuple[int, int]) -> Picture | Unshowable:
    is_transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    image = image.convert("RGBA" if is_transparent else "RGB")
    # JPEG for images that are already lossy; PNG keeps drawings and screenshots sharp.
    formats = ("JPEG",) if kind == "image/jpeg" else ("PNG", "JPEG")
    side = MAX_SIDE
    while side >= 200:
        image.thumbnail((side, side))
        for format in formats:
            data = _encode(image, format)
            if len(data) <= MAX_IMAGE_SIZE:
                turned = (image.width > image.height) != (original[0] > original[1]) and original[0] != original[1]
                shown = (original[1], original[0]) if turned else original
                scaled = None if shown == (image.width, image.height) else shown
                return Picture(data, f"image/{format.lower()}", image.width, image.height, scaled)
        side //= 2
    return Unshowable("it cannot be made small enough")


def _encode(image: Any, format: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    if format == "JPEG" and image.mode == "RGBA":
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A"))
        image = flat
    image.save(buffer, format, **({"quality": 85} if format == "JPEG" else {}))
    return buffer.getvalue()
