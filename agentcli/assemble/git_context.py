"""The git state of a new session, gathered beside everything else that a start does.

Git runs only in a trusted folder (S1), and only where the repository's configuration makes it run nothing (S12).
Everywhere else, and when it takes too long, the system context has the branch alone, read from `.git` without git.
"""

from __future__ import annotations

import threading
import time

from agentcli.assemble.ground import Ground
from agentcli.workspace.git_status import GitStatus, read_git_status

DEADLINE_SECONDS = 0.2
"""How long a first prompt waits, counted from the start of the gathering."""
GIT_SECONDS = 5.0
"""How long git itself may take: a first prompt is often typed much later than the start."""


class GitGathering:
    """Starts at once, in a thread."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._deadline = time.monotonic() + DEADLINE_SECONDS
        self._found: GitStatus | None = None
        self._thread = threading.Thread(target=self._gather, name="git status", daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """What is known at the deadline, or now if that is later."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        return self._found.lines() if not self._thread.is_alive() and self._found is not None else []

    def _gather(self) -> None:
        ground = self._ground
        if not ground.is_trusted():
            return
        from agentcli.permissions.git.config import git_program, runs_programs

        folders = tuple(str(folder) for folder in ground.writable_dirs)
        program = git_program(folders)
        if program is None or runs_programs(ground.cwd, folders) is not None:
            return
        self._found = read_git_status(program, ground.cwd, GIT_SECONDS)
