"""`tmp_path` in memory, where files are made and removed in a fraction of the time that a disk takes.

Most tests use /dev/shm. A sandbox has its own /dev, and the policy judges paths below /dev in its own way: tests of
these, and of the whole program, use a file system in memory that root mounts elsewhere, seen by the processes of this
run alone.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.tmpdir import tmppath_result_key

_MEMORY = "/dev/shm"
_MIN_ROOM = 1 << 30
_FOLDERS = {
    *("agent", "config", "context", "core", "definitions", "hooks", "mcp"),
    *("memory", "plugins", "providers", "session", "tools", "workspace"),
    *("commands", "demo", "headless", "interactive", "plain", "tui"),
}
_FILES = {
    *(f"assemble/test_{name}.py" for name in ("git_context", "hooks", "mcp", "mcp_requests", "mcp_tools")),
    *(f"assemble/test_{name}.py" for name in ("output_styles", "prices", "stopped_commands", "working_directory")),
    *(f"permissions/test_{name}.py" for name in ("decisions", "gitconfig", "gitfiles", "reach", "rebuildable")),
    *(f"permissions/test_{name}.py" for name in ("rule_text", "rules", "suggest")),
}
"""Files of other folders, which start no sandbox and have no rule for /dev."""
_MOUNTED_FOLDERS = {"assemble", "e2e", "permissions"}
_MOUNT = "AGENTCLI_TESTS_MOUNT"
"""Environment variable of workers: the file system that the controller has mounted."""
_CLONE_NEWNS, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x20000, 0x4000, 0x40000, 2
_TESTS = Path(__file__).parents[1]
_MAX_NAME = 30


def folder_of(item: pytest.Item) -> Iterator[Path]:
    """What pytest's `tmp_path` does, without a list of all folders of earlier tests and a link to the last one."""
    name = re.sub(r"\W", "_", item.name)[:_MAX_NAME]
    path = _make_folder(_base(item), name)
    yield path
    passed = item.stash[tmppath_result_key].get("call", True)
    if passed and item.config._tmp_path_factory._retention_policy == "failed":  # type: ignore[attr-defined]
        shutil.rmtree(path, ignore_errors=True)
    elif str(path).startswith(f"{os.environ.get(_MOUNT)}/"):
        # What is mounted goes with the run.
        subprocess.run(["cp", "-a", path, item.config._tmp_path_factory.getbasetemp()], check=False)  # type: ignore[attr-defined]


def _make_folder(base: Path, name: str) -> Path:
    number = _next_numbers.get(name, 0)
    while True:
        path = base / f"{name}{number}"
        number += 1
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            _next_numbers[name] = number
            return path


_next_numbers: dict[str, int] = {}
"""Tests whose names begin alike: the number that is not taken yet."""


def _base(item: pytest.Item) -> Path:
    path = str(item.path).removeprefix(f"{_TESTS}/")
    folder = path.partition("/")[0]
    memory: Path | None = None
    if folder in _FOLDERS or path in _FILES:
        memory = _memory_base(item.config, _MEMORY)
    elif folder in _MOUNTED_FOLDERS and _MOUNT in os.environ:
        memory = _memory_base(item.config, os.environ[_MOUNT])
    return memory or item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined, no-any-return]


@functools.cache
def _memory_base(config: pytest.Config, place: str) -> Path | None:
    """None where there is no memory to make folders in, or the user has named a folder."""
    named = config.option.basetemp is not None and not hasattr(config, "workerinput")
    if named or not _has_room(place):
        return None
    base = Path(tempfile.mkdtemp(prefix="agentcli-tests-", dir=place))
    _pass_for_disk(base.stat().st_dev)
    config.add_cleanup(functools.partial(_remove_empty, base))
    return base


def _remove_empty(base: Path) -> None:
    with suppress(OSError):
        base.rmdir()  # It has the folders of tests that failed.


def _has_room(place: str) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return os.access(place, os.W_OK | os.X_OK) and found.f_bavail * found.f_frsize >= _MIN_ROOM


def mount(config: pytest.Config) -> None:
    """Mount a file system in memory for the workers that this process is about to start, if it may."""
    if sys.platform != "linux" or os.geteuid() != 0 or config.option.basetemp is not None:
        return
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        return
    folder = tempfile.mkdtemp(prefix="agentcli-tests-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
    config.add_cleanup(functools.partial(_remove_empty, Path(folder)))
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"mode=700") == 0:
        os.environ[_MOUNT] = folder
        config.add_cleanup(lambda: libc.umount2(os.fsencode(folder), _MNT_DETACH))


def _pass_for_disk(device: int) -> None:
    """The product reads a file of a disk at once if it is in memory. Linux does not say so of files that are nowhere
    else, and they would be read in another way than those of users."""

    major, preadv = os.major, os.preadv

    def read_at_once(descriptor: int, buffers: Any, offset: int, flags: int = 0) -> int:
        try:
            return preadv(descriptor, buffers, offset, flags)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP or os.fstat(descriptor).st_dev != device:
                raise
            return preadv(descriptor, buffers, offset)

    os.major = lambda number: 1 if number == device else major(number)
    os.preadv = read_at_once
