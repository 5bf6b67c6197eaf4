"""The contract for starting child processes of tools, without or inside a sandbox.

Nothing here starts a process or knows a sandbox: tools start what a `Launcher` returns, sandboxes implement it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agentcli.core.files.access import is_below
from agentcli.core.frozen import frozen
from agentcli.core.permission import ORDINARY, Grant

LIMITS_FROM_SECONDS = 0.02
"""Run time from which on resource limits are watched: most commands end sooner, and watching costs a thread."""


@frozen
class SandboxFinding:
    """A file that a command left behind and the sandbox removed, or that the user should know about."""

    text: str
    """What happened and how to undo it, for the user and the model."""
    path: str = ""


@frozen
class Launch:
    """How to start one child process, and how to clean up after it."""

    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    close: Callable[[], tuple[SandboxFinding, ...]] = lambda: ()
    """Call once after the process has ended: removes temporary files of the launch and checks what the command left.
    May be slow, so not on the event loop. A second call returns the same."""
    watch: int = -1
    """A descriptor that is readable when `look` has work; -1: none."""
    look: Callable[[], bool] = lambda: False
    """Handle what was noticed on `watch`. True: the command must be stopped."""
    pass_descriptors: tuple[int, ...] = ()
    watch_limits: Callable[[], None] = lambda: None
    """Call when the process has run for `LIMITS_FROM_SECONDS`: from then on it is stopped if it uses too much."""
    stopped_for: Callable[[], str] = lambda: ""
    """After `close`: a message with the limit for which the sandbox stopped the process; empty for none."""
    terminate: Callable[[], bool] | None = None
    """Not None: asks the program to end; a signal would kill its whole sandbox. False: nothing to ask yet."""
    refused_hosts: Callable[[], tuple[str, ...]] = tuple
    """Hosts that the process tried to reach without permission."""
    private_hosts: Callable[[], tuple[str, ...]] = tuple
    """Allowed hosts that the process could not reach because they resolve to private addresses."""


class Launcher:
    """Starts child processes of tools. This one starts them without a sandbox; sandboxes override what differs.

    Chosen once per session.
    """

    name = "none"
    """`none`, `bubblewrap`, `seatbelt`."""

    def __init__(self, level: str = "off") -> None:
        self.level = level
        """Short state for a badge: `bubblewrap, network on`, `off`. Always shown."""
        self.copies: Mapping[Path, Path] = {}
        """By folder, the copy that tools use in its place."""

    def launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant = ORDINARY
    ) -> Launch:
        # Unset, `> $TMPDIR/x` would write to the root folder.
        return Launch(tuple(arguments), {"TMPDIR": tempfile.gettempdir(), **environ})

    def runs_bare(self, command: str) -> bool:
        """Whether the settings exclude this shell command from the sandbox."""
        return False

    def lacked_network(self, code: int, output: str, grant: Grant) -> bool:
        """Whether a command failed because it had no network access, judging by its output."""
        return False

    def explain(self, code: int, output: str, grant: Grant = ORDINARY) -> str | None:
        """A message if the sandbox probably caused a failure, and how to allow it. For code 0 only if it is clear."""
        return None

    @property
    def uncontained(self) -> str:
        """Why commands cannot be kept from the network and from other files; empty if they can."""
        return "commands run without a sandbox. `agentcli doctor` shows how to get one."

    @property
    def temp_folder(self) -> Path | None:
        """The session's private temp folder, which commands see as `/tmp`; None: they use the machine's."""
        return None

    def outside(self, path: str) -> str:
        """Map a path in commands to the path for other tools: `/tmp/x` may be elsewhere."""
        return _moved(path, self.copies.items())

    def inside(self, path: str) -> str:
        """Map a path of other tools to the path in commands; the reverse of `outside`."""
        return _moved(path, ((copy, folder) for folder, copy in self.copies.items()))

    def for_copies(self, copies: Mapping[Path, Path], kept: Iterable[Path]) -> Launcher:
        """A launcher with which tools use copies of folders in their place. `kept`: paths in the folders that commands
        see as they are, where the sandbox can show them."""
        return self

    def close(self) -> None:
        """Delete its files. Nothing that it started may still run. May take seconds, so not on the event loop."""

    def permit(self, path: str) -> None:
        """A tool writes this path with the user's approval: not a finding of commands that run meanwhile."""

    def take_notice(self) -> str | None:
        """A late finding after a command's `Launch.close`, for the user; None: no more."""
        return None


def _moved(path: str, folders: Iterable[tuple[Path, Path]]) -> str:
    """The path in the second folder of the first pair that contains it."""
    for folder, other in folders:
        if is_below(path, (str(folder),)):
            return f"{other}{path.removeprefix(str(folder))}"
    return path
