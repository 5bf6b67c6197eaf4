"""How child processes of tools are started: bare, or inside a sandbox. Values and the contract only.

Nothing here starts a process or knows a sandbox: tools start what a `Launcher` hands them, sandboxes implement one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentcli.core.grant import ORDINARY, Grant


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a command left behind and that did not stay, or that the user should know of."""

    text: str
    """What happened and how to undo it, for the user and the model."""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """How one child process is to be started, and what to do when it is over."""

    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    close: Callable[[], tuple[Finding, ...]] = lambda: ()
    """To be called once the process has ended: removes what the launch had to leave on disk and checks what the command
    left. May take a while, so not on the event loop. A second call does nothing and returns the same."""
    watch: int = -1
    """A descriptor that is readable when `look` has something to do; -1: there is none."""
    look: Callable[[], bool] = lambda: False
    """Deal with what was noticed on `watch`. True: the command has to be stopped."""
    pass_descriptors: tuple[int, ...] = ()
    stopped_for: Callable[[], str] = lambda: ""
    """After `close`: a sentence that names the limit for which the sandbox stopped the process; empty for none."""
    terminate: Callable[[], bool] | None = None
    """Not None: how to ask what was started to end. A signal to the process itself would be the end of everything in
    its sandbox at once. False when there is nothing yet to be asked; synchronous."""
    refused_hosts: Callable[[], tuple[str, ...]] = tuple
    """The hosts that it tried to reach and was not allowed to."""
    private_hosts: Callable[[], tuple[str, ...]] = tuple
    """The allowed hosts that it did not reach because their names lead to private addresses."""


class Launcher(Protocol):
    """Starts child processes of tools: bare, or inside a sandbox. Immutable; decided once per session."""

    @property
    def name(self) -> str:
        """`none`, `bubblewrap`, `seatbelt`."""
        ...

    @property
    def level(self) -> str:
        """What holds, in a few words for a badge: `bubblewrap, network on`, `off`. Always shown."""
        ...

    def launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant = ORDINARY
    ) -> Launch: ...

    def lacked_network(self, code: int, output: str, grant: Grant) -> bool:
        """Whether a command failed because it had no network, as far as its output tells."""
        ...

    def explain(self, code: int, output: str, grant: Grant = ORDINARY) -> str | None:
        """A sentence when a failure looks like the sandbox's doing: what was refused and how to allow it. For code 0
        only when the output leaves no doubt."""
        ...

    @property
    def uncontained(self) -> str:
        """Why commands cannot be kept from the network and from files outside; empty when they can."""
        ...

    @property
    def temp_folder(self) -> Path | None:
        """The session's private temp folder, which commands know as `/tmp`; None: they use the machine's own."""
        ...

    def outside(self, path: str) -> str:
        """Where a path that commands name lies for the other tools: `/tmp/x` may be elsewhere."""
        ...

    def inside(self, path: str) -> str:
        """The name by which commands know a path of the other tools; undoes `outside`."""
        ...

    def close(self) -> None:
        """Remove what it keeps on disk. Nothing that it started may run any more. May take seconds, so not on the event
        loop."""
        ...

    def permit(self, path: str) -> None:
        """A tool writes this path with the user's approval: not a finding of the commands that run meanwhile."""
        ...

    def take_notice(self) -> str | None:
        """What was found after a command's `Launch.close`, for the user; None: nothing more."""
        ...


class BareLauncher:
    name = "none"

    def __init__(self, level: str = "off") -> None:
        self.level = level

    @property
    def uncontained(self) -> str:
        return "commands run without a sandbox. `agentcli doctor` shows how to get one."

    def launch(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], grant: Grant = ORDINARY
    ) -> Launch:
        # Without it `> $TMPDIR/x` would be a file in the root folder.
        return Launch(tuple(arguments), {"TMPDIR": tempfile.gettempdir(), **environ})

    def lacked_network(self, code: int, output: str, grant: Grant) -> bool:
        return False

    def explain(self, code: int, output: str, grant: Grant = ORDINARY) -> str | None:
        return None

    @property
    def temp_folder(self) -> Path | None:
        return None

    def outside(self, path: str) -> str:
        return path

    def inside(self, path: str) -> str:
        return path

    def close(self) -> None:
        pass

    def permit(self, path: str) -> None:
        pass

    def take_notice(self) -> str | None:
        return None
