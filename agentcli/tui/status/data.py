"""Data of the status line, read from an engine, and the git branch, read without git. No Textual here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.files.bounded_read import read_start
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.model import Facts

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


FACTS_SECONDS = 0.1
"""Minimum time between two updates of the status line."""
_AFTERWARDS = 0.1
_LOOK_SECONDS = 15.0


class FactsFeed:
    """Shows current facts when they may have changed: immediately, or together with others that change shortly after;
    and when the prompt cache expires, which no event reports."""

    def __init__(
        self,
        show: Callable[[Facts], None],
        read_branch: Callable[[Path], str] | None = None,
        request_frame: Callable[[], None] | None = None,
    ) -> None:
        """`request_frame` requests a frame, which calls `refresh_late`; without it, updates do not wait for a frame."""
        self._show = show
        self._request_frame = request_frame or self.refresh_late
        self._branch_watch = BranchWatch(self.set_branch, read_branch) if read_branch is not None else None
        self._engine: Engine | None = None
        self.agents = 0
        """Number of running sub-agents."""
        self._branch = ""
        self._due: asyncio.TimerHandle | None = None
        self._cold: asyncio.TimerHandle | None = None
        self._stale = False

    def follow(self, engine: Engine) -> None:
        self._engine = engine
        if self._branch_watch is not None:
            self._branch_watch.follow(engine)
        self.refresh()

    def look_at_branch(self) -> None:
        if self._branch_watch is not None:
            self._branch_watch.look()

    def set_branch(self, branch: str) -> None:
        self._branch = branch
        self.refresh()

    def refresh(self) -> None:
        if self._due is not None:
            self._stale = True
        elif self._engine is not None:
            self._now(self._engine)
            self._due = asyncio.get_running_loop().call_later(FACTS_SECONDS, self._again)

    async def aclose(self) -> None:
        self._engine = None
        if self._branch_watch is not None:
            await self._branch_watch.aclose()
        for timer in (self._due, self._cold):
            if timer is not None:
                timer.cancel()
        self._due = self._cold = None

    def refresh_late(self) -> None:
        """Show changes that were delayed because they came too soon after others."""
        if self._stale and self._due is None:
            self.refresh()

    def _again(self) -> None:
        self._due = None
        if self._stale:
            self._request_frame()

    def _now(self, engine: Engine) -> None:
        self._stale = False
        self._show(facts_of(engine, self._branch, self.agents))
        if self._cold is not None:
            self._cold.cancel()
        left = engine.context.cache_seconds_left()
        self._cold = None if left is None else self._look_again(engine, left)

    def _look_again(self, engine: Engine, left: float) -> asyncio.TimerHandle:
        """Check again after a limited time: event loop timers stop while the machine sleeps, but the cache expires."""
        later = asyncio.get_running_loop().call_later
        return later(min(left + _AFTERWARDS, _LOOK_SECONDS), self._look, engine)

    def _look(self, engine: Engine) -> None:
        left = engine.context.cache_seconds_left()
        self._cold = None if left is None else self._look_again(engine, left)
        if left is None:
            self.refresh()


def facts_of(engine: Engine, branch: str, agents: int = 0) -> Facts:
    outlook, totals = engine.context.outlook(), engine.costs.session_totals
    usage = totals.usage
    info = engine.session.catalog.get(engine.model)
    done = sum(todo.get("status") == "completed" for todo in engine.session.todos)
    return Facts(
        model=info.id,
        effort=engine.effort or info.default_effort or "",
        fast=engine.is_fast,
        mode=engine.permissions.mode.value,
        context_tokens=outlook.tokens,
        context_window=outlook.window,
        compact_at=outlook.compact_at,
        cost_usd=totals.cost_usd,
        fully_priced=totals.fully_priced,
        next_cost_usd=outlook.next_cost_usd,
        cache_cold=outlook.cold,
        cached_share=usage.cache_read_input_tokens / usage.prompt_tokens if usage.prompt_tokens else None,
        branch=branch,
        cwd=shown_path(engine.root),
        sandbox=engine.sandbox,
        is_sandboxed=engine.session.tool_context.launcher.name != "none",
        session=engine.session_id,
        tasks=sum(task.status == "running" for task in engine.background.commands),
        agents=agents,
        failed_servers=sum(server.state in ("failed", "needs-auth") for server in engine.session.mcp or ()),
        todos=len(engine.session.todos),
        todos_done=done,
    )


def shown_path(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return f"~{text[len(home) :]}" if text == home or text.startswith(f"{home}/") else text
