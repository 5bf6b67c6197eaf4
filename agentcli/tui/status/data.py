"""Data of the status line, read from an engine, and the git branch, read without git. No Textual here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.aio import cancel_and_wait, start_task
from agentcli.core.files.access import read_start
from agentcli.core.git.repository import git_folder, repository_root
from agentcli.core.text.plaintext import plain_line
from agentcli.tui.model import Facts

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

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


FACTS_SECONDS = 0.1
"""Minimum time between two updates of the status line."""
POLL_SECONDS = 2.0
"""Interval at which the branch and the prompt cache are checked."""


class FactsFeed:
    """Shows current facts when they may have changed: immediately, or together with others that change shortly after.
    Also checks every few seconds what no event reports: the branch, and whether the prompt cache has expired."""

    def __init__(
        self,
        show: Callable[[Facts], None],
        read_branch: Callable[[Path], str] | None = None,
        request_frame: Callable[[], None] | None = None,
    ) -> None:
        """`request_frame` requests a frame, which calls `refresh_late`; without it, updates do not wait for a frame."""
        self._show = show
        self._read_branch = read_branch
        self._request_frame = request_frame or self.refresh_late
        self._engine: Engine | None = None
        self.agents = 0
        """Number of running sub-agents."""
        self._polled = ("", True)
        """Branch, and whether the cache is cold."""
        self._polling: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._due: asyncio.TimerHandle | None = None
        self._stale = False

    def follow(self, engine: Engine) -> None:
        self._engine = engine
        if self._polling is None:
            self._polling = start_task(self._poll())
        self.look_at_branch()
        self.refresh()

    def look_at_branch(self) -> None:
        self._wake.set()

    def refresh(self) -> None:
        if self._due is not None:
            self._stale = True
        elif self._engine is not None:
            self._stale = False
            self._show(facts_of(self._engine, self._polled[0], self.agents))
            self._due = asyncio.get_running_loop().call_later(FACTS_SECONDS, self._end_pause)

    async def aclose(self) -> None:
        polling, self._polling, self._engine = self._polling, None, None
        if polling is not None:
            await cancel_and_wait([polling])
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def refresh_late(self) -> None:
        """Show changes that were delayed because they came too soon after others."""
        if self._stale and self._due is None:
            self.refresh()

    def _end_pause(self) -> None:
        self._due = None
        if self._stale:
            self._request_frame()

    async def _poll(self) -> None:
        while (engine := self._engine) is not None:
            self._wake.clear()
            branch = "" if self._read_branch is None else await asyncio.to_thread(self._read_branch, engine.root)
            found = branch, engine.context.cache_seconds_left() is None
            if found != self._polled and engine is self._engine:
                self._polled = found
                self.refresh()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()


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
        cwd=show_path(engine.root),
        sandbox=engine.sandbox,
        is_sandboxed=engine.session.tool_context.launcher.name != "none",
        session=engine.session_id,
        tasks=sum(task.status == "running" for task in engine.background.commands),
        agents=agents,
        failed_servers=sum(server.state in ("failed", "needs-auth") for server in engine.session.mcp or ()),
        todos=len(engine.session.todos),
        todos_done=done,
    )


def show_path(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return f"~{text[len(home) :]}" if text == home or text.startswith(f"{home}/") else text
