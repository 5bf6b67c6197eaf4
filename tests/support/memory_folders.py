"""`tmp_path` in memory, where files are made and removed in a fraction of the time that a disk takes.

Only for the tests of some folders: a sandbox has its own /dev, so tests with a real one need a disk, and the policy
judges paths below /dev in its own way.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.pathlib import cleanup_dead_symlinks

_MEMORY = "/dev/shm"
_LEAST_ROOM = 1 << 30
_FOLDERS = {
    *("agent", "config", "context", "core", "definitions", "hooks", "mcp"),
    *("memory", "plugins", "providers", "session", "tools", "workspace"),
    *("commands", "demo", "headless", "interactive", "plain", "tui"),
}
_TESTS = Path(__file__).parents[1]
_major, _preadv = os.major, os.preadv


def is_meant_for(request: pytest.FixtureRequest) -> bool:
    folder = str(request.path).removeprefix(f"{_TESTS}/").partition("/")[0]
    return folder in _FOLDERS


@contextmanager
def memory_factory(usual: pytest.TempPathFactory, config: pytest.Config) -> Iterator[pytest.TempPathFactory]:
    """Makes folders in memory. The usual one where there is none, or the user has named a folder."""
    named = config.option.basetemp is not None and not hasattr(config, "workerinput")
    if named or not _has_room():
        yield usual
        return
    base = Path(tempfile.mkdtemp(prefix="agentcli-tests-", dir=_MEMORY))
    _pass_for_disk(base.stat().st_dev)
    policy, count = usual._retention_policy, usual._retention_count
    yield pytest.TempPathFactory(None, count, policy, usual._trace, basetemp=base, _ispytest=True)
    cleanup_dead_symlinks(base)
    with suppress(OSError):
        base.rmdir()  # It has the folders of tests that failed.


def _has_room() -> bool:
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return False
    return os.access(_MEMORY, os.W_OK | os.X_OK) and found.f_bavail * found.f_frsize >= _LEAST_ROOM


def _pass_for_disk(device: int) -> None:
    """The product reads a file of a disk at once if it is in memory. Linux does not say so of files that are nowhere
    else, and they would be read in another way than those of users."""

    def read_at_once(descriptor: int, buffers: Any, offset: int, flags: int = 0) -> int:
        try:
            return _preadv(descriptor, buffers, offset, flags)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP or os.fstat(descriptor).st_dev != device:
                raise
            return _preadv(descriptor, buffers, offset)

    os.major = lambda number: 1 if number == device else _major(number)
    os.preadv = read_at_once
