"""Where a command would run, and which files it may read there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.core.files.links import is_below
from agentcli.core.frozen import frozen
from agentcli.shell.file_exposure import FileExposure
from agentcli.shell.paths import real_path


@frozen
class CommandContext:
    """Where a command would run, and what it may read there. Working directories are resolved."""

    cwd: str
    working_dirs: tuple[str, ...]
    readable: tuple[Path, ...] = ()
    """More readable folders; resolved only when a path outside the working directories is checked."""
    hides: Callable[[str], bool] | None = None
    """Whether a rule restricts reading this file; None without such rules."""
    resolve: Callable[[str], str] = real_path
    search_path: str = ""
    """Search path of the shell (PATH). Empty: not checked."""
    home: str = ""
    """Value of `$HOME` for commands; empty: same as in this process."""
    temp: str = ""
    """Value of `$TMPDIR` for commands; empty if unknown."""
    trusted: bool = True
    """Whether the user trusts the folder, so that its repository may make git run programs."""
    exposure: FileExposure | None = None
    """Restricted files that searches could show; None if no file is restricted."""
    relocate: Callable[[str], str] = str
    """Maps a path to the path outside the sandbox, whose `/tmp` is private."""
    scratch: tuple[str, ...] = ()
    """The session's temp folder, outside of the sandbox."""
    contained: bool = False
    """Whether read-only commands run in a sandbox that hides secrets and files of deny rules."""

    @classmethod
    def of(cls, cwd: Path, working_dirs: Sequence[Path]) -> CommandContext:
        """A context without rules and without a sandbox."""
        return cls(str(cwd), tuple(real_path(str(folder)) for folder in working_dirs))

    def locate(self, path: str) -> str:
        """Map a path of the command to the path outside the sandbox, also if `..` or a link leads to the private
        `/tmp`."""
        found = self.relocate(path)
        if found != path or self.relocate is str:
            return found
        real = real_path(path)
        moved = self.relocate(real)
        return path if moved == real else moved

    def in_scratch(self, folder: str) -> bool:
        """Whether a folder of the command is the session's temp folder or below it, without passing through a link."""
        located = os.path.normpath(self.locate(folder))
        for own in self.scratch:
            if is_below(located, (own,)):
                return real_path(located) == real_path(own) + located[len(own) :]
        return False

    @property
    def passes_names(self) -> bool:
        """Whether a read-only program may receive any file names that another one prints: a sandbox keeps secrets from
        it, and there is no other restricted file that it could show."""
        exposure = self.exposure
        return self.contained and (exposure is None or not any(map(exposure.below, self.working_dirs)))

    def holds(self, path: str) -> bool:
        """Whether a path resolves into the working directories."""
        return is_below(self.resolve(path), self.working_dirs)

    def may_read(self, path: str) -> bool:
        real = self.resolve(path)
        return is_below(real, self.working_dirs) or is_below(
            real, (self.resolve(str(folder)) for folder in self.readable)
        )
