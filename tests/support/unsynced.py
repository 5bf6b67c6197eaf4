"""Let nothing wait for the disk.

The power does not fail during a test, and waiting takes milliseconds. `fstat` fails as syncing would.
"""

from __future__ import annotations

import os
from typing import Any


def _check_descriptor(descriptor: Any) -> None:
    os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())


def install() -> None:
    os.fsync = _check_descriptor
    if hasattr(os, "fdatasync"):
        os.fdatasync = _check_descriptor
