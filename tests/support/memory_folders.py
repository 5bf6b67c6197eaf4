"""`tmp_path` in memory, where files are made and removed in a fraction of the time that a disk takes.

Only for the tests of some folders: a sandbox has its own /dev, so tests with a real one need a disk, and the policy
judges paths below /dev in its own way. Those get a folder on a disk.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.tmpdir import tmppath_result_key

_MEMORY = "/dev/shm"
_LEAST_ROOM = 1 << 30
_FOLDERS = {
    *("agent", "config", "context", "core", "definitions", "hooks", "mcp"),
    *("memory", "plugins", "providers", "session", "tools", "workspace"),
    *("commands", "demo", "headless", "interactive", "plain", "tui"),
}
_FILES = {
    *(f"assemble/test_{name}.py" for name in ("git_context", "hooks", "mcp", "mcp_duties", "mcp_offer")),
    *(f"assemble/test_{name}.py" for name in ("output_styles", "prices", "stopped_commands", "working_directory")),
    *(f"permissions/test_{name}.py" for name in ("decisions", "gitconfig", "gitfiles", "reach", "rebuildable")),
    *(f"permissions/test_{name}.py" for name in ("rule_text", "rules", "suggest")),
}
"""Files of other folders, which start no sandbox and have no rule for /dev."""
_TESTS = Path(__file__).parents[1]
_LONGEST_NAME = 30
_major, _preadv = os.major, os.preadv


def folder_of(item: pytest.Item) -> Iterator[Path]:
    """What pytest's `tmp_path` does, without a list of all folders of earlier tests and a link to the last one."""
    name = re.sub(r"\W", "_", item.name)[:_LONGEST_NAME]
    path = _make_folder(_base(item), name)
    yield path
    passed = item.stash[tmppath_result_key].get("call", True)
    if passed and item.config._tmp_path_factory._retention_policy == "failed":  # type: ignore[attr-defined]
        shutil.rmtree(path, ignore_errors=True)


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
    memory = _memory_base(item.config) if path.partition("/")[0] in _FOLDERS or path in _FILES else None
    return memory or item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined, no-any-return]


@functools.cache
def _memory_base(config: pytest.Config) -> Path | None:
    """None where there is no memory to make folders in, or the user has named a folder."""
    named = config.option.basetemp is not None and not hasattr(config, "workerinput")
    if named or not _has_room():
        return None
    base = Path(tempfile.mkdtemp(prefix="agentcli-tests-", dir=_MEMORY))
    _pass_for_disk(base.stat().st_dev)
    config.add_cleanup(functools.partial(_remove_empty, base))
    return base


def _remove_empty(base: Path) -> None:
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
