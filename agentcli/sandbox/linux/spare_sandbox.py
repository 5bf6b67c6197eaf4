"""A sandbox started before its command is known, and the check that it still fits that command.

Starting bubblewrap and its mounts takes longer than most commands. A spare is used only for a command whose own
arguments, computed when it arrives, are identical, and only if every path in them is still the same file or folder: a
mount stays on the inode it was made for, so a file that was replaced since would not be covered. No other command may
have run since the spare was started, because it could have replaced a folder by a link before it was mounted.

An inode number alone says little: it is free for the next file once a covered one is removed, and a file that
is removed can come back from a second link of it, without the mount. Both change the time of a file's inode. That of a
folder changes with every file in it, so covered folders are held open instead: their numbers stay taken.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from agentcli.sandbox.linux.processes import SandboxProcesses

PathStamps = dict[str, tuple[int, ...]]
"""State of each path: device, inode, kind and (except for folders) change time; for a link, also those of its target.
Empty for a missing path."""


def path_stamps(arguments: Iterable[str]) -> PathStamps:
    """Stamp all absolute paths among bubblewrap's arguments. Blocking; some microseconds for each."""
    return {path: _stamp(path) for path in {*arguments} if path.startswith("/")}


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
        if not stat.S_ISLNK(found.st_mode):
            return _identity(found)
        target = os.stat(path)  # noqa: PTH116 - some hundred of them before a command
    except (OSError, ValueError):
        return ()
    return (*_identity(found), *_identity(target))


def _identity(found: os.stat_result) -> tuple[int, ...]:
    changed = 0 if stat.S_ISDIR(found.st_mode) else found.st_ctime_ns
    return (found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode), changed)


def hold_covered_folders(arguments: Sequence[str]) -> list[int]:
    """Open the folders that bubblewrap mounts something over, and return the descriptors."""
    binds = zip(arguments, arguments[1:], arguments[2:], strict=False)
    covered = [target for option, source, target in binds if option == "--ro-bind" and source != target]
    covered += [target for option, target in pairwise(arguments) if option == "--tmpfs"]
    held: list[int] = []
    for path in covered:
        with contextlib.suppress(OSError, ValueError):
            held.append(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW))
    return held


@dataclass(slots=True)
class SpareSandbox:
    """`setup`: bubblewrap's arguments without descriptors and command. `after`: number of the launch before it."""

    setup: tuple[str, ...]
    after: int
    filter: int
    """The descriptor of the system call filter, -1 for none."""
    inside: SandboxProcesses = field(default_factory=SandboxProcesses)
    stamps: PathStamps = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    """Descriptors of covered folders."""
    is_adopted: bool = False

    def __post_init__(self) -> None:
        # Before the start, so that a path replaced during the start is detected later.
        self.held = hold_covered_folders(self.setup)
        self.stamps = path_stamps(self.setup)

    def fits(self, setup: tuple[str, ...], number: int) -> bool:
        """Whether this setup is identical, the launch with this number is the first since, and no path has changed."""
        return self.setup == setup and self.after + 1 == number and self.stamps == path_stamps(setup)

    def let_go(self) -> None:
        """Close the held folders. Call it when the sandbox is used or closed, after the last `fits`."""
        while self.held:
            os.close(self.held.pop())

    def close(self) -> None:
        """Release its descriptors, unless a launch has adopted them."""
        self.let_go()
        if not self.is_adopted:
            self.is_adopted = True
            self.inside.close()
            if self.filter >= 0:
                os.close(self.filter)
