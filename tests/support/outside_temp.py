"""A folder for projects that are not below the system's temp folder, which has a meaning of its own in the sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.sandbox.session_folder import SYSTEM_TEMP

_HOME = Path.home().resolve()
LASTING_TEMP = Path("/var/tmp")


@contextmanager
def folder_outside_temp() -> Iterator[Path]:
    """In the home folder, or in `LASTING_TEMP` if that is below the temp folder itself."""
    is_usable = not _HOME.is_relative_to(SYSTEM_TEMP) and os.access(_HOME, os.W_OK | os.X_OK)
    with TemporaryDirectory(dir=_HOME if is_usable else LASTING_TEMP, prefix=".agentcli-test-") as name:
        yield Path(name).resolve()
