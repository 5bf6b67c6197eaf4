"""A workspace history that is created on first use, because most conversations change no files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.messages import Json
from agentcli.workspace.base import (
    CallChanges,
    DiffScope,
    FileChange,
    UndoChoices,
    UndoNews,
    UndoPlan,
    UndoReport,
    Workspace,
    WorkspaceDiff,
)

if TYPE_CHECKING:
    from agentcli.workspace.history import WorkspaceHistory


class LazyHistory(Workspace):
    """`session`: its id and that of its origin. Nothing is started before a call may write or the history is needed."""

    def __init__(
        self,
        state_dir: Path,
        session: tuple[str, str],
        search_path: str | None,
        may_warm: Callable[[], bool] = lambda: False,
    ) -> None:
        self._state_dir = state_dir
        self._session = session
        self._search_path = search_path
        self._may_warm = may_warm
        self._prompt_id: str | None = None
        self._last_prompt = ""
        self._running = 0
        """Number of calls that may be changing files now: several if sub-agents work."""
        self._only: set[str] | None = set()
        """Paths that calls which ended during others may have changed; None: any file."""
        self._overlap = False
        """Whether calls overlapped since none was running."""
        self._end_is_due = False
        """Whether the submission ended while a background agent's call was running."""
        self._history: WorkspaceHistory | None = None

    def _open(self) -> WorkspaceHistory:
        if self._history is None:
            from agentcli.workspace.folders import SnapshotLocation
            from agentcli.workspace.history import WorkspaceHistory

            session_id, forked_from = self._session
            self._history = WorkspaceHistory(
                SnapshotLocation(self._state_dir, session_id, self._search_path, forked_from=forked_from)
            )
            if self._prompt_id is not None:
                self._history.begin(self._prompt_id)
        return self._history

    def begin(self, prompt_id: str) -> None:
        self._prompt_id = self._last_prompt = prompt_id
        self._end_is_due = False
        if self._history is not None:
            self._history.begin(prompt_id)

    async def warm(self, working_dirs: Sequence[Path]) -> None:
        if self._may_warm():
            await self._open().warm(working_dirs)

    async def find_gap(self, working_dirs: Sequence[Path], paths: Sequence[str]) -> str:
        return await self._open().find_gap(working_dirs, paths)

    def uncovered(self) -> tuple[Path, ...]:
        return self._history.uncovered() if self._history is not None else ()

    async def before_change(self, call_id: str, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        history = self._open()
        if self._prompt_id is None and not self._running and not self._end_is_due:
            # A background agent continues after the prompt that started it.
            history.begin(self._last_prompt)
            self._end_is_due = True
        self._running += 1
        try:
            await history.before_change(call_id, input, cwd, working_dirs)
        except BaseException:
            self._running -= 1
            raise

    async def after_change(self, only: Sequence[str] | None = None, background: bool = False, report: str = "") -> bool:
        """Record the end of a call. Changes of overlapping calls are attributed together, when the last one has
        ended, and are not reported for a single call."""
        self._running -= 1
        self._overlap |= bool(self._running)
        self._only = None if only is None or self._only is None else {*self._only, *only}
        if self._running or self._history is None:
            return False
        changed, self._only = self._only, set()
        overlap, self._overlap = self._overlap, False
        only = None if changed is None else sorted(changed)
        has_changes = await self._history.after_change(only, background, "" if overlap else report)
        if self._end_is_due and not self._running:
            self._end_is_due = False
            await self._history.end()
        return has_changes

    def take_call_changes(self) -> list[CallChanges]:
        return self._history.take_call_changes() if self._history is not None else []

    async def before_user_command(self, command: str, only: Sequence[str] | None) -> None:
        if self._history is not None:
            await self._history.before_user_command(command, only)

    async def after_user_command(self) -> None:
        if self._history is not None:
            await self._history.after_user_command()

    async def end(self, hurry: bool = False) -> None:
        self._prompt_id = None
        if self._running and not hurry:
            self._end_is_due = True
        elif self._history is not None:
            await self._history.end(hurry)

    def take_notice(self) -> str | None:
        return self._history.take_notice() if self._history is not None else None

    async def changes(self) -> list[FileChange]:
        return await self._open().changes()

    async def diff(self, scope: DiffScope, working_dirs: Sequence[Path]) -> WorkspaceDiff:
        return await self._open().diff(scope, working_dirs)

    async def undo(self, choices: UndoChoices | None = None) -> UndoReport:
        return await self._open().undo(choices)

    async def redo(self, choices: UndoChoices | None = None) -> UndoReport:
        return await self._open().redo(choices)

    async def plan(self, again: bool, choices: UndoChoices | None = None) -> UndoPlan:
        return await self._open().plan(again, choices)

    async def take_undo_news(self) -> list[UndoNews]:
        # Check the disk first: a session without changes has no journal.
        journal = self._state_dir / "snapshots" / "sessions" / f"{self._session[0]}.jsonl"
        if self._history is None and not journal.exists():
            return []
        return await self._open().take_undo_news()

    async def aclose(self) -> None:
        if self._history is not None:
            await self._history.aclose()
