"""The git branch in the status line, kept up to date. No Textual here, and git is not run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.files.bounded_read import read_start
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

LOOK_SECONDS = 2.0
"""Polling interval of the repository."""
_BRANCHES = "ref: refs/heads/"
_NO_BRANCH = ".invalid"
"""HEAD in repositories with another reference format (reftable), which only git itself can read."""


def branch_of(cwd: Path) -> str:
    """Branch, or commit of a detached HEAD; "" outside a repository. Does not run git: the folder may be untrusted."""
    top = repository_root(cwd)
    head = "" if top is None else plain_line(read_start(git_folder(top)[0] / "HEAD").strip())
    if not head.startswith("ref:"):
        return head[:8]
    branch = head.removeprefix(_BRANCHES)
    return "" if branch in (_NO_BRANCH, head) else branch


class BranchWatch:
    """Reads the branch every few seconds and on request, in a thread; reports changes."""

    def __init__(self, show: Callable[[str], None], read: Callable[[Path], str]) -> None:
        self._show = show
        self._read = read
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._engine: Engine | None = None
        self._shown = ""

    def follow(self, engine: Engine) -> None:
        self._engine = engine
        self._wake.set()
        if self._task is None:
            self._task = start_task(self._watch())

    def look(self) -> None:
        self._wake.set()

    async def aclose(self) -> None:
        task, self._task, self._engine = self._task, None, None
        if task is not None:
            await cancel_and_wait([task])

    async def _watch(self) -> None:
        while (engine := self._engine) is not None:
            self._wake.clear()
            branch = await asyncio.to_thread(self._read, engine.root)
            if branch != self._shown and engine is self._engine:
                self._shown = branch
                self._show(branch)
            waiting = asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
            try:
                await waiting
            except TimeoutError:
                continue
