"""Find the session that was cut off while it worked, to offer it once at the next start in its folder.

A process that ends in order removes the lock file of its session. One that was killed leaves it, and so does one that
a signal ended in the middle of a submission (`Store.mark_cut_off`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from agentcli.session.base import project_dir
from agentcli.session.find import SessionInfo, describe_session
from agentcli.session.journal import FileLock, LockBusy

MAX_AGE_SECONDS = 7 * 24 * 3600


def take_cut_off(state_dir: Path, cwd: Path) -> SessionInfo | None:
    """The newest session of this folder that was cut off and that no process has open; None if there is none. Removes
    its lock file, so that each session is returned once. Blocking, but short."""
    found: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in project_dir(state_dir, cwd).glob("*.lock"):
            # Without a session file it belongs to a process that is just starting, or there is nothing to continue.
            with suppress(OSError):
                found.append((path.with_suffix(".jsonl").stat().st_mtime, path))
    for modified, path in sorted(found, reverse=True):
        lock = FileLock(path)
        try:
            lock.acquire()
        except (LockBusy, OSError):
            continue
        info = describe_session(path.with_suffix(".jsonl"))
        if info is not None and info.cwd not in ("", str(cwd)):
            lock.release(keep_file=True)
            continue
        lock.release()
        if info is not None and info.is_cut_off and not info.parent and time.time() - modified < MAX_AGE_SECONDS:
            return info
    return None
