"""The file with the tracebacks of plugins: notices show only one line of them."""

from __future__ import annotations

import contextlib
import os
import traceback
from datetime import datetime
from pathlib import Path

LARGEST = 1024 * 1024
"""Size in bytes at which the file is truncated."""


class TracebackLog:
    def __init__(self, path: Path | None) -> None:
        """`path`: None: nothing is written."""
        self._path = path

    def add(self, label: str, error: BaseException) -> None:
        """Append a traceback. Never raises."""
        if self._path is None:
            return
        lines = "".join(traceback.format_exception(error))
        text = f"{datetime.now().isoformat(timespec='seconds')} {label}\n{lines}\n"
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                if os.fstat(descriptor).st_size > LARGEST:
                    os.ftruncate(descriptor, 0)
                os.write(descriptor, text.encode(errors="replace")[:LARGEST])
            finally:
                os.close(descriptor)
