"""`engine.files`: file changes: diffs, undo and redo, and notices of changes made by others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.attachments.changed_files import ChangedFiles
from agentcli.agent.attachments.undo_notes import UserActionNote, forget_changed, undo_note
from agentcli.core.aio import in_thread
from agentcli.core.messages import Message
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import ToolContext
from agentcli.tools.builtin import shown_path
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


MOST_FOLDERS = 200
"""Maximum watched folders, the latest ones; systems allow a user some thousand watches in all programs."""
_COALESCED_MILLISECONDS = 400
_STEP_MILLISECONDS = 200
"""Polling step of the library, whose default of 50 would wake the process twenty times a second."""
_MOST_NAMED = 3


async def wait_for_changes(changed: ChangedFiles, context: ToolContext, without: Collection[str] = ()) -> list[str]:
    """Wait for unreported changes to files that the model has seen, and return their paths. For use between
    submissions; cancel it when one begins. Never returns where nothing can be watched. `without`: files to ignore."""
    known = frozenset(context.read_cache.paths()).difference(without)
    folders = await in_thread(_folders, context)
    if folders:
        found = [path for path in await changed.peek(context) if path not in without]
        if found:
            return found
        found = await _watched(changed, context, folders, known)
        if found:
            return found
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def _watched(
    changed: ChangedFiles, context: ToolContext, folders: Sequence[str], known: frozenset[str]
) -> list[str]:
    from watchfiles import awatch

    stop = asyncio.Event()
    batches = awatch(
        *folders,
        watch_filter=lambda _change, path: path in known,
        debounce=_COALESCED_MILLISECONDS,
        step=_STEP_MILLISECONDS,
        stop_event=stop,
        recursive=False,
        ignore_permission_denied=True,
    )
    try:
        async for _batch in batches:
            # A background command of ours, or a write without a change, is not reported.
            if found := [path for path in await changed.peek(context) if path in known]:
                return found
    except (OSError, RuntimeError):
        # A missing folder, too many watches, or a file system without support.
        return []
    finally:
        stop.set()
        await batches.aclose()
    return []


def _folders(context: ToolContext) -> list[str]:
    latest_first = reversed(context.read_cache.paths())
    folders = list(dict.fromkeys(path.rpartition("/")[0] or "/" for path in latest_first))[:MOST_FOLDERS]
    # A missing folder would make watching the others fail.
    return [folder for folder in folders if Path(folder).is_dir()]


def changed_notice(paths: Sequence[str], context: ToolContext) -> str:
    """Notice for the user about changed files."""
    names = ", ".join(plain_line(shown_path(path, context), 60) for path in paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED:,} more" if len(paths) > _MOST_NAMED else ""
    return f"Changed since the model saw it: {names}{more}. The model gets the changes with your next prompt."
