"""Program started by `pdf`: reads a PDF on stdin, writes its pages as JSON to stdout.

A separate process because a hostile PDF may use unlimited time or memory, and only a process can be killed. Imports
nothing of this package, opens no file.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sys
from typing import Any

_MEMORY = 2 << 30
_CPU_SECONDS = 60
_FEW_CHARACTERS = 20
"""A page with fewer characters is probably a scan, so its image is shown."""
_LONGEST_TEXT = 200_000
_MOST_PICTURES = 5
_LARGEST_PICTURE = 24 << 20


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
            entry["text"] = page.extract_text()[:_LONGEST_TEXT]
        if len(entry["text"].strip()) < _FEW_CHARACTERS and pictures < _MOST_PICTURES:
            with contextlib.suppress(Exception):
                largest = max(page.images, key=lambda image: len(image.data))
                if len(largest.data) <= _LARGEST_PICTURE:
                    entry["picture"] = base64.b64encode(largest.data).decode("ascii")
                    pictures += 1
        found.append(entry)
    return {"total": total, "pages": found}


def main() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    try:
        result = pages(sys.stdin.buffer.read(), int(sys.argv[1]), int(sys.argv[2]))
    except ImportError:
        result = {"error": "pypdf is not there to read it: pip install pypdf"}
    except Exception as error:  # noqa: BLE001 - a damaged document fails in many ways
        result = {"error": f"it is damaged or of an unknown kind ({type(error).__name__})"}
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
