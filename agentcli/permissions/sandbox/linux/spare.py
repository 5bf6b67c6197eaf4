"""A sandbox that is started before its command is known, and the proof that it is still as that command needs it.

Starting bubblewrap and its mounts takes longer than most commands. A spare is used only for a command whose own
arguments, computed when it comes, are the same, and only if every path in them is the very file or folder that it was:
a mount stays on what it was made for, so a file that has been replaced since would not be covered. No other command may
have run since the spare was started, because one could have put a link in place of a folder before it was mounted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcli.permissions.sandbox.linux.processes import SandboxProcesses

PathStamps = dict[str, tuple[int, ...]]
"""Device, inode and kind of each path, without and with following a link; empty for a missing one."""


def path_stamps(arguments: Iterable[str]) -> PathStamps:
    """The state of all absolute paths among bubblewrap's arguments. Blocking; some microseconds for each."""
    return {path: _stamp(path) for path in arguments if path.startswith("/")}


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
        if not stat.S_ISLNK(found.st_mode):
            return (found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode))
        target = os.stat(path)  # noqa: PTH116 - some hundred of them before a command
    except (OSError, ValueError):
        return ()
    return (found.st_dev, found.st_ino, target.st_dev, target.st_ino, stat.S_IFMT(target.st_mode))


@dataclass(slots=True)
class SpareSandbox:
    """`setup`: bubblewrap's arguments without descriptors and command. `after`: number of the launch before it."""

    setup: tuple[str, ...]
    after: int
    filter: int
    """The descriptor of the system call filter, -1 for none."""
    inside: SandboxProcesses = field(default_factory=SandboxProcesses)
    stamps: PathStamps = field(default_factory=dict)
    is_adopted: bool = False

    def __post_init__(self) -> None:
        # Before the start: what is replaced while it starts is found out later.
        self.stamps = path_stamps(self.setup)

    def fits(self, setup: tuple[str, ...], number: int) -> bool:
        """Whether the launch with this number, the first since, could have started it just now."""
        return self.setup == setup and self.after + 1 == number and self.stamps == path_stamps(setup)

    def close(self) -> None:
        """Release its descriptors, unless a launch has adopted them."""
        if not self.is_adopted:
            self.is_adopted = True
            self.inside.close()
            if self.filter >= 0:
                os.close(self.filter)
