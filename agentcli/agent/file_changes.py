"""`engine.files`: file changes: diffs, undo and redo, and notices of changes made by others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from agentcli.agent.updates.changed_files import ChangedFiles
from agentcli.agent.updates.undo_notes import UserActionNote, forget_changed, undo_note
from agentcli.core.aio import in_thread
from agentcli.core.messages import Message
from agentcli.tools.base import ToolContext
from agentcli.workspace.base import DiffScope, FileChange, UndoChoices, UndoPlan, UndoReport, Workspace, WorkspaceDiff

if TYPE_CHECKING:
    from agentcli.tools.search.file_index import FileIndex

FindMessages = Callable[[Collection[str]], Awaitable[Sequence[Message]]]


class FileChanges:
    """`seen`: the files that the model has read, checked for changes by others; None: the disk is not watched."""

    def __init__(
        self, workspace: Workspace, context: Callable[[], ToolContext], seen: ChangedFiles | None = None
    ) -> None:
        self._workspace = workspace
        self._context = context
        self._seen = seen
        self._rewritten: set[str] = set()
        """Files that undo and redo have written since the last prompt."""

    async def changes(self) -> list[FileChange]:
        """Changes that the last submission made and that were not undone."""
        return await self._workspace.changes()

    async def diff(self, scope: DiffScope = "session") -> WorkspaceDiff:
        """Changes as unified diffs; `problem` explains why there are none."""
        return await self._workspace.diff(scope, self._context().working_dirs)

    async def undo(self, choices: UndoChoices | None = None) -> UndoReport:
        """Revert the file changes of the last submission; each further call reverts one submission more.

        Not while a submission runs. The user's own changes stay; files in which both changed the same lines need a
        choice, or are reported and stay. The model is notified with the next prompt."""
        return self._noted(await self._workspace.undo(choices))

    async def redo(self, choices: UndoChoices | None = None) -> UndoReport:
        """Revert the last undo; possible until something else has changed."""
        return self._noted(await self._workspace.redo(choices))

    async def undo_plan(self, again: bool = False, choices: UndoChoices | None = None) -> UndoPlan:
        """List the files for which an undo (`again`: a redo) needs a choice beyond `choices`. Changes nothing."""
        return await self._workspace.plan(again, choices)

    async def wait_for_notice(self) -> str:
        """Wait until someone else has changed files that the model has seen; returns a notice that names them. For use
        between submissions. Never returns where the disk is not watched; cancel it."""
        from agentcli.agent.updates.file_watch import changed_notice, wait_for_changes

        if self._seen is None:
            await asyncio.Event().wait()
        assert self._seen is not None
        paths = await wait_for_changes(self._seen, self._context(), frozenset(self._rewritten))
        return changed_notice(paths, self._context())

    def index(self) -> FileIndex:
        """An index for finding files by name while the user types; the caller starts and closes it."""
        from agentcli.tools.search.file_index import FileIndex

        return FileIndex(self._context())

    async def take_undo_note(self, find: FindMessages) -> UserActionNote | None:
        """One note for the model about undos and redos since the last prompt; None if they cancel each other out.
        `find` returns messages that include those with the given ids and everything after them."""
        news = await self._workspace.take_undo_news()
        paths, self._rewritten = self._rewritten, set()
        paths.update(path for one in news for path in (*one.restored, *one.deleted))
        if paths:
            await in_thread(forget_changed, paths, self._context().read_cache)
        if not news:
            return None
        return undo_note(news, await find([one.prompt_id for one in news]))

    def _noted(self, report: UndoReport) -> UndoReport:
        self._rewritten.update(report.touched)
        return report
