"""Launcher for commands without a sandbox, with a private temp folder for the session.

Their `$TMPDIR` is private to the session: file tools use it without approval, and it is removed at the end. `/tmp` is
the machine's own here and may contain other users' files.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.core.permission import ORDINARY, Grant
from agentcli.core.processes.launch import Launch, Launcher
from agentcli.sandbox.session_folder import SessionFolder


class UnsandboxedLauncher(Launcher):
    """Runs commands without a sandbox. Creates the temp folder when it is first needed."""

    def __init__(self, temp_root: Path, level: str = "off") -> None:
        super().__init__(level)
        self._root = temp_root
        self._folder: SessionFolder | None = None
        self._usable = True
        self._lock = threading.Lock()

    @property
    def temp_folder(self) -> Path | None:
        """None if it cannot be created."""
        with self._lock:
            if self._folder is None and self._usable:
                try:
                    folder = SessionFolder(self._root)
                    (folder.path / "tmp").mkdir(0o700)
                except OSError:
                    self._usable = False
                    return None
                weakref.finalize(self, folder.remove)
                self._folder = folder
            return None if self._folder is None else self._folder.path / "tmp"

    def launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant = ORDINARY
    ) -> Launch:
        own = self.temp_folder
        if own is not None:
            environ = {**environ, "TMPDIR": str(own), "TMP": str(own), "TEMP": str(own)}
        return super().launch(arguments, cwd, environ, grant)

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                self._folder.remove()
            self._folder = None
