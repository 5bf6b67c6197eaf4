"""Extract the pages of a PDF: their text, or the image of a page without text.

Runs in a worker process (`tools/worker.py`): imports nothing of this package, opens no file.
"""

from __future__ import annotations

import base64
import contextlib
import io
from typing import Any

_FEW_CHARACTERS = 20
"""A page with fewer characters is probably a scan, so its image is shown."""
_MAX_TEXT_LENGTH = 200_000
_MAX_PICTURES = 5
_MAX_PICTURE_SIZE = 24 << 20


def pages(data: bytes, first: int, last: int) -> dict[str, Any]:
    import pypdf

    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        return {"error": "it is protected by a password"}
    total = len(reader.pages)
    found: list[dict[str, Any]] = []
    pictures = 0
    for number in range(first, min(last, total) + 1):
        page = reader.pages[number - 1]
        entry: dict[str, Any] = {"number": number, "text": ""}
        with contextlib.suppress(Exception):
            entry["text"] = page.extract_text()[:_MAX_TEXT_LENGTH]
        if len(entry["text"].strip()) < _FEW_CHARACTERS and pictures < _MAX_PICTURES:
            with contextlib.suppress(Exception):
                largest = max(page.images, key=lambda image: len(image.data))
                if len(largest.data) <= _MAX_PICTURE_SIZE:
                    entry["picture"] = base64.b64encode(largest.data).decode("ascii")
                    pictures += 1
        found.append(entry)
    return {"total": total, "pages": found}


def work(data: bytes, first: str, last: str) -> dict[str, Any]:
    try:
        return pages(data, int(first), int(last))
    except ImportError:
        return {"error": "pypdf, which reads it, is not installed: pip install pypdf"}
    except Exception as error:  # noqa: BLE001 - a damaged document fails in many ways
        return {"error": f"it is damaged or of an unknown kind ({type(error).__name__})"}
