"""Undo and redo of one submission: its files in all folders, and the entries of git's index that it changed.

Chooses the submission, asks each folder for what is to be done, applies it and records the outcome in the journal.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.workspace.base import SnapshotError, UndoChoices, UndoPlan, UndoReport
from agentcli.workspace.file_undo import FileUndo, FolderReversal, plan_redo, plan_undo
from agentcli.workspace.folders import SnapshotFolders
from agentcli.workspace.journal import SubmissionRecord, UndoJournal, UndoOutcome
from agentcli.workspace.repository_watch import index_reversal
from agentcli.workspace.trees import TreeEntry


class SubmissionUndo:
    """`again`: whether to redo instead of to undo; `snapshot_seconds`: maximum seconds for a snapshot."""

    def __init__(self, folders: SnapshotFolders, journal: UndoJournal, again: bool, snapshot_seconds: float) -> None:
        self._folders = folders
        self._journal = journal
        self._again = again
        self._snapshot_seconds = snapshot_seconds

    def _targets(self) -> list[SubmissionRecord]:
        return self._journal.to_redo() if self._again else self._journal.to_undo()

    async def plan(self, choices: UndoChoices) -> UndoPlan:
        """The questions beyond `choices`. Changes nothing. Raises `SnapshotError` and OSError."""
        for target in self._targets():
            undoing, conflicts, is_work = FileUndo(target.changes_of, choices), [], False
            doubtful: list[str] = []
            for reversal in await self.reversals(undoing, target, choices):
                decided = await undoing.decide(reversal, await reversal.shadow.take(self._snapshot_seconds))
                conflicts += decided.conflicts
                doubtful += [str(reversal.shadow.root / path) for path in sorted(decided.doubtful & decided.unresolved)]
                is_work = is_work or bool(decided.changes or decided.kept)
            if is_work or any((await self.index_changes(target)).values()):
                commands = dict.fromkeys(one.command for _root, one in target.user_changes if one.command)
                return UndoPlan(target.changes_of, tuple(conflicts), tuple(doubtful), tuple(commands))
        return UndoPlan()

    async def run(self, choices: UndoChoices) -> UndoReport:
        """Undo or redo the first submission of which something is left, and no other one, whatever the choices."""
        journal, again = self._journal, self._again
        if choices.otherwise is not None and (left := journal.unresolved(again)) is not None:
            return await self._resolve(left, choices)
        for target in self._targets():
            undoing = FileUndo(target.changes_of, choices)
            for reversal in await self.reversals(undoing, target, choices):
                await self.apply(undoing, reversal)
            if again:
                # Keep the record of the undo: a file that is skipped now may be redone later.
                for root, done in target.put_back.items():
                    fresh = undoing.put_back.get(root, UndoOutcome())
                    undoing.put_back[root] = UndoOutcome(done.files, done.untouched, fresh.unresolved)
            index, problems = await self.restore_index(target)
            missed = () if again else (*target.missed, *self._list_missed_after(target))
            report = replace(undoing.report((*missed, *problems)), index=index)
            await in_thread(partial(journal.note_undone, target, not again, report, undoing.put_back))
            if (
                not undoing.found_nothing
                or index
                or problems
                or (choices.prompt_id and choices.prompt_id == target.prompt_id)
            ):
                return report
        return UndoReport(False, self._report_nothing())

    async def _resolve(self, target: SubmissionRecord, choices: UndoChoices) -> UndoReport:
        """Resolve the files that the last undo or redo skipped."""
        only = {root: done.unresolved for root, done in target.put_back.items()}
        undoing = FileUndo(target.changes_of, choices, only)
        for reversal in await self.reversals(undoing, target, choices):
            await self.apply(undoing, reversal)
        put_back = {}
        for root, done in target.put_back.items():
            fresh = undoing.put_back.get(root, UndoOutcome()) if not self._again else UndoOutcome()
            put_back[root] = UndoOutcome({**done.files, **fresh.files}, done.untouched - fresh.files.keys())
        report = undoing.report(())
        earlier = target.news
        whole = report if earlier is None else replace(
            report,
            restored=tuple(dict.fromkeys((*earlier.restored, *report.restored))),
            deleted=tuple(dict.fromkeys((*earlier.deleted, *report.deleted))),
            merged=tuple(dict.fromkeys((*earlier.merged, *report.merged))),
        )  # fmt: skip
        await in_thread(partial(self._journal.note_undone, target, not self._again, whole, put_back))
        return report

    async def index_changes(self, target: SubmissionRecord) -> dict[str, dict[str, TreeEntry]]:
        """By folder, the index entries to write. Raises `SnapshotError`."""
        found = {}
        for root, staged in target.staged.items():
            found[root] = await index_reversal(await self._folders.shadow(Path(root)), staged, self._again)
        return found

    async def restore_index(self, target: SubmissionRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Restore entries of git's index. Returns the absolute paths, and sentences about what failed."""
        done: list[str] = []
        try:
            for root, entries in (await self.index_changes(target)).items():
                if entries:
                    shadow = await self._folders.shadow(Path(root))
                    await shadow.write_index(Path(target.staged[root].index), entries)
                    done += [str(Path(root) / path) for path in sorted(entries)]
        except (SnapshotError, OSError) as error:
            reason = f"Git's index was not restored: {error}."
            return tuple(done), (f"{reason} To unstage a file: git restore --staged FILE.",)
        return tuple(done), ()

    def _list_missed_after(self, target: SubmissionRecord) -> list[str]:
        """What later submissions did that cannot be undone, if that is all they did: it is not named otherwise."""
        later = (one for one in self._journal.submissions if one.number > target.number and not one.undone)
        return [text for one in later if not one.changed for text in one.missed]

    async def reversals(
        self, undoing: FileUndo, target: SubmissionRecord, choices: UndoChoices
    ) -> list[FolderReversal]:
        """One reversal per changed folder. Raises `SnapshotError` before any change if a folder cannot be restored."""
        assert target.after is not None
        reversals = []
        for root, was in target.before.items():
            became = target.after.get(root, was)
            users = [one.without(root, choices) for one in target.user_changes_in(root)]
            if became != was or any(users):
                shadow = await self._folders.shadow(Path(root))
                await undoing.check(shadow, was, became)
                done = target.put_back.get(root, UndoOutcome())
                planned = plan_redo(shadow, was, became, done) if self._again else plan_undo(shadow, was, became, users)
                reversals.append(await planned)
        return reversals

    async def apply(self, undoing: FileUndo, reversal: FolderReversal) -> None:
        """Apply one reversal. The snapshots before and after are kept for a redo."""
        before = await undoing.folder(reversal, self._snapshot_seconds)
        if before is not None:
            after = await reversal.shadow.take(self._snapshot_seconds)
            for snapshot in (before, after):
                await self._folders.hold(reversal.shadow, snapshot.tree)

    def _report_nothing(self) -> str:
        journal = self._journal
        if self._again:
            return "Nothing to redo."
        missed = [text for one in journal.submissions if not one.undone for text in one.missed]
        if missed:
            return f"Nothing can be undone. {missed[-1]}"
        if any(one.undone for one in journal.submissions):
            return "Nothing more to undo in this session."
        return "Nothing to undo: no files were changed in this session."
