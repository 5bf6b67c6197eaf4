"""Keep the unsent prompt on disk, so that it survives a crash: one file per process, found at the next start.

A draft belongs to a process as long as that holds the lock file beside it; the lock ends with the process in any case.
Written in a thread a moment after the last change, or at once on request. Never raises for disk errors. A prompt with
an API key, which was pasted by mistake, is not saved.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentcli.config.files import replace_file
from agentcli.core.aio import start_task
from agentcli.core.files.bounded_read import parse_json, read_bounded
from agentcli.core.text.plaintext import has_key
from agentcli.interactive.drafts.draft import Draft
from agentcli.interactive.drafts.history import project_name
from agentcli.session.base import make_private_dir

_QUIET_SECONDS = 0.5
_KEPT_SECONDS = 30 * 24 * 3600
_MAX_FILE = 64 * 1024 * 1024


def drafts_folder(state_dir: Path | None, cwd: Path) -> Path | None:
    return None if state_dir is None else state_dir / "drafts" / project_name(cwd)


class DraftStore:
    """Stores one process's draft. `folder` None: store nothing. Call from the event loop; `load` from any thread."""

    def __init__(self, folder: Path | None, *, pid: int | None = None, quiet_seconds: float = _QUIET_SECONDS) -> None:
        self._folder = folder
        self._name = f"{os.getpid() if pid is None else pid}-{os.urandom(4).hex()}"
        self._quiet_seconds = quiet_seconds
        self._current: Callable[[], Draft] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._writing: asyncio.Task[None] | None = None
        self._disk = threading.Lock()
        """Held while a file is written, so that a late thread never writes a discarded draft again."""
        self._written = 0
        self._version = 0
        self._lock_file = -1
        self._claimed: tuple[str, int, Draft] | None = None
        """The draft of an ended process that `load` returned: its name, its lock descriptor and its content."""
        self.problem = ""

    # ------------------------------------------------------------------------------------------ of this process

    def changed(self, current: Callable[[], Draft]) -> None:
        """Schedule a write after a change; `current` returns the content when it is written. Very cheap."""
        self._version += 1
        self._current = current
        if self._folder is None:
            return
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._quiet_seconds
        if self._timer is None:
            self._timer = loop.call_at(self._due, self._is_it_time)

    def flush(self) -> None:
        """Write pending changes now: the window lost its focus, or the program ends."""
        self._stop_timer()
        if self._current is not None and self._folder is not None:
            self._write(self._version, self._current())

    def hurry(self) -> None:
        """Like `flush`, but in a thread, so that the caller does not wait for the disk."""
        if self._timer is not None:
            self._stop_timer()
            self._due = 0.0
            self._is_it_time()

    def discard(self, sent: Draft | None = None) -> None:
        """Delete the stored draft: the prompt was sent."""
        self._version += 1
        self._current = None
        self._stop_timer()
        with self._disk:
            self._written = self._version
            if self._folder is not None:
                with suppress(OSError):
                    self._file(self._name).unlink(missing_ok=True)
                if sent is not None:
                    self._drop_claimed(sent)

    async def aclose(self) -> None:
        """Write the draft, which the next start offers, and release the lock."""
        self.flush()
        if self._writing is not None:
            await asyncio.wait({self._writing})
        with self._disk:
            if self._claimed is not None:
                os.close(self._claimed[1])
                self._claimed = None
            if self._lock_file >= 0:
                os.close(self._lock_file)
                self._lock_file = -1
                with suppress(OSError):
                    if not self._file(self._name).exists():
                        self._lock(self._name).unlink(missing_ok=True)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_it_time(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if loop.time() < self._due - 0.001:
            self._timer = loop.call_at(self._due, self._is_it_time)
        elif self._writing is not None and not self._writing.done():
            self._timer = loop.call_later(self._quiet_seconds, self._is_it_time)
        elif self._current is not None:
            written = asyncio.to_thread(self._write, self._version, self._current())
            self._writing = start_task(written, name="draft")

    def _write(self, version: int, draft: Draft) -> None:
        assert self._folder is not None
        with self._disk:
            if version <= self._written:
                return
            try:
                if draft.is_empty or has_key(draft.expanded()):
                    self._file(self._name).unlink(missing_ok=True)
                else:
                    self._hold_lock()
                    data = {"version": 1, "pid": os.getpid(), "draft": draft.to_dict()}
                    replace_file(self._file(self._name), json.dumps(data).encode(), 0o600)
                    self._drop_claimed(draft)
                self._written = version
                self.problem = ""
            except OSError as error:
                self.problem = f"The unsent prompt cannot be saved: {error.strerror or error}."

    def _hold_lock(self) -> None:
        if self._lock_file < 0:
            assert self._folder is not None
            make_private_dir(self._folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._lock(self._name), flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lock_file = descriptor

    # ----------------------------------------------------------------------------------------- of ended processes

    def load(self) -> Draft | None:
        """The newest draft whose process has ended, or None. Blocking, but short; for any thread.

        Its file is deleted only after our own file has its content, so that one of the two always exists.
        """
        if self._folder is None:
            return None
        found: list[tuple[float, Path]] = []
        with suppress(OSError):
            for file in self._folder.glob("*.json"):
                with suppress(OSError):
                    found.append((file.stat().st_mtime, file))
        with self._disk:
            for modified, file in sorted(found, reverse=True):
                if file.stem == self._name or (lock := self._taken_over(file.stem)) is None:
                    continue
                draft = _read(file)
                if draft is None or time.time() - modified > _KEPT_SECONDS:
                    self._remove(file.stem)
                elif self._claimed is None:
                    self._claimed = (file.stem, lock, draft)
                    continue
                os.close(lock)
            return None if self._claimed is None else self._claimed[2]

    def _drop_claimed(self, draft: Draft) -> None:
        """Delete the file of the loaded draft once its text is part of the stored or sent one."""
        if self._claimed is not None and self._claimed[2].text.strip() in draft.text:
            self._remove(self._claimed[0])
            os.close(self._claimed[1])
            self._claimed = None

    def _taken_over(self, name: str) -> int | None:
        """Lock the draft of an ended process; None if the process is alive. The caller closes the descriptor."""
        with suppress(OSError):
            descriptor = os.open(self._lock(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except OSError:
                os.close(descriptor)
        return None

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            self._file(name).unlink(missing_ok=True)
            self._lock(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{name}.json"

    def _lock(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{name}.lock"


def _read(file: Path) -> Draft | None:
    with suppress(ValueError):
        data = parse_json(read_bounded(file, _MAX_FILE) or b"")
        if isinstance(data, dict) and isinstance(data.get("draft"), dict):
            draft = Draft.from_dict(data["draft"])
            return None if draft.is_empty else draft
    return None
