"""A working directory for tests of undo: states as values, a history on it, and random changes."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from agentcli.workspace.base import SnapshotLocation
from agentcli.workspace.history import WorkspaceHistory

SESSION = "11111111-1111-4111-8111-111111111111"

State = dict[str, tuple[str, bytes, int]]


def git(folder: Path, *arguments: str) -> str:
    """Run git without settings of the user."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *names, *arguments], cwd=folder, env=environ, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def state_of(folder: Path, leave_out: tuple[str, ...] = (".git",)) -> State:
    """Every file, link and folder below, with content and permission bits."""
    found: State = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in leave_out)
        for name in (*folders, *files):
            path = Path(parent) / name
            status = path.lstat()
            key = path.relative_to(folder).as_posix()
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", os.fsencode(path.readlink()), 0)
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", b"", 0)
            else:
                found[key] = ("file", path.read_bytes(), stat.S_IMODE(status.st_mode))
    return found


class Work:
    """A session in one folder: `change` is one submission in which `act` is what the agent's calls do."""

    def __init__(self, history: WorkspaceHistory, *folders: Path) -> None:
        self.history = history
        self.folders = folders
        self.calls = 0
        self.undo = partial(history.put_back, False)
        self.redo = partial(history.put_back, True)

    async def before(self, **input: str) -> None:
        self.calls += 1
        await self.history.before_change(dict(input), self.folders[0], self.folders)

    @asynccontextmanager
    async def submission(self, **input: str) -> AsyncIterator[None]:
        self.history.begin(f"prompt_{self.calls}")
        await self.before(**input)
        yield
        await self.history.end()


@asynccontextmanager
async def working(state: Path, *folders: Path, session: str = SESSION, **rest: object) -> AsyncIterator[Work]:
    path = rest.pop("search_path_override", None)
    place = SnapshotLocation(state, session, os.environ["PATH"] if path is None else str(path), **rest)  # type: ignore[arg-type]
    history = WorkspaceHistory(place)
    try:
        yield Work(history, *folders)
    finally:
        await history.aclose()
