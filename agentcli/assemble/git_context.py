"""The git status in the system context of a new session, read in a thread during start-up.

Git runs only in a trusted folder (S1), and only if the repository's configuration starts no programs (S12).
Otherwise, and after a timeout, the system context has only the branch, read from `.git` without git.
"""

from __future__ import annotations

import threading
import time

from agentcli.assemble.environment import Environment
from agentcli.workspace.git_status import GitStatus, read_git_status

DEADLINE_SECONDS = 0.2
"""How long the first prompt waits for git, counted from the start of the thread."""
GIT_SECONDS = 5.0
"""Timeout for git itself: the first prompt often comes much later than the start."""


class GitStatusReader:
    """Reads the git status in a thread that starts with the object."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._deadline = time.monotonic() + DEADLINE_SECONDS
        self._found: GitStatus | None = None
        self._thread = threading.Thread(target=self._gather, name="git status", daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        """The status lines, after waiting at most until the deadline; empty if git has not finished."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        return self._found.lines() if not self._thread.is_alive() and self._found is not None else []

    def _gather(self) -> None:
        env = self._env
        if not env.is_trusted():
            return
        from agentcli.permissions.git.config import git_program, runs_programs

        folders = tuple(str(folder) for folder in env.writable_dirs)
        program = git_program(folders)
        if program is None or runs_programs(env.cwd, folders) is not None:
            return
        self._found = read_git_status(program, env.cwd, GIT_SECONDS)
