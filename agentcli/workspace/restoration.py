"""Restoration of an earlier state of the folders: all submissions since then are undone as one.

What the user changed meanwhile is kept, as in an undo: between two submissions and while they ran. The restoration is
recorded like a submission. So it can be undone and redone, and a later one can return to the states before it. Changes
that were made elsewhere can take the place of the reverted ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.core.frozen import replace
from agentcli.core.text.format import counted
from agentcli.workspace.base import (
    Conflict,
    FileChange,
    FolderDiff,
    Kept,
    RestoreMark,
    RestorePlan,
    Snapshot,
    SnapshotError,
    UndoChoices,
    UndoPlan,
    UndoReport,
    WorkspaceDiff,
)
from agentcli.workspace.diffs import DIFF_LIMIT
from agentcli.workspace.file_undo import FileDecisions, FileUndo
from agentcli.workspace.folders import Roots, SnapshotFolders
from agentcli.workspace.git import describe_head
from agentcli.workspace.journal import StagedChanges, SubmissionRecord, UndoJournal, UserChanges
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.submission_undo import SubmissionUndo


class Restoration:
    """`since`: number of the first submission that is reverted; `snapshot_seconds`: maximum seconds for a snapshot;
    `first`: a submission to revert before all others, for changes made elsewhere with both states exchanged."""

    def __init__(
        self,
        folders: SnapshotFolders,
        journal: UndoJournal,
        since: int,
        snapshot_seconds: float,
        first: SubmissionRecord | None = None,
    ) -> None:
        self._folders = folders
        self._journal = journal
        self._number = since
        self._since = [*filter(None, [first]), *(one for one in journal.submissions if one.number >= since)]
        self._undo = SubmissionUndo(folders, journal, again=False, snapshot_seconds=snapshot_seconds)
        self._snapshot_seconds = snapshot_seconds

    async def plan(self, choices: UndoChoices) -> RestorePlan:
        """What `run` would do beyond the questions. Changes nothing. Raises `SnapshotError` and OSError."""
        target, undoing = await self._join(), FileUndo("", choices)
        diffs: list[FolderDiff] = []
        conflicts: list[Conflict] = []
        doubtful: list[str] = []
        merged: list[str] = []
        kept: list[Kept] = []
        changes_folders = False
        for reversal in await self._undo.reversals(undoing, target, choices):
            shadow, root = reversal.shadow, reversal.shadow.root
            now = await shadow.take(self._snapshot_seconds)
            decided = await undoing.decide(reversal, now)
            since = await shadow.compare(reversal.left.tree, now.tree)
            uncopied = await undoing.find_without_copy(reversal, since)
            diffs.append(await _diff(shadow, decided, uncopied))
            conflicts += decided.conflicts
            doubtful += [str(root / path) for path in sorted(decided.doubtful & decided.unresolved)]
            merged += [str(root / path) for path in sorted(decided.merged)]
            left = decided.kept.items() - {(path, decided.kept.get(path, "")) for path in decided.unresolved}
            kept += [*uncopied, *(Kept(str(root / path), reason) for path, reason in sorted(left))]
            changes_folders |= reversal.left.empty != reversal.wanted.empty
        commands = tuple(dict.fromkeys(one.command for _root, one in target.user_changes if one.command))
        questions = UndoPlan(target.prompt_id, tuple(conflicts), tuple(doubtful), commands)
        diff = WorkspaceDiff(tuple(one for one in diffs if one.text or one.notes))
        notes = await self._list_notes(target)
        return RestorePlan(diff, questions, tuple(merged), tuple(kept), notes, changes_folders)

    async def run(self, choices: UndoChoices, mark: RestoreMark) -> UndoReport:
        """Restore. Raises `SnapshotError` and OSError before any change."""
        target, undoing, journal = await self._join(), FileUndo("", choices), self._journal
        reversals = await self._undo.reversals(undoing, target, choices)
        roots = [reversal.shadow.root for reversal in reversals] or [Path(root) for root in target.staged]
        if not roots:
            return UndoReport(mark.instead is not None, "The files are as they were then already.")
        now = await self._take(roots)
        # Recorded first: if the process is killed, what it did until then can be undone too.
        record = journal.begin(mark.prompt_id)
        await in_thread(lambda: journal.note_before(record, now, describe_heads(now)))
        for reversal in reversals:
            await self._undo.apply(undoing, reversal)
        staged = await self._undo.index_changes(target)
        index, problems = await self._undo.restore_index(target)
        report = replace(undoing.report((*target.missed, *problems)), index=index)
        after = await self._take(roots)
        mark = mark if mark.instead is None else replace(mark, since=self._number)
        await in_thread(partial(journal.note_restored, record, mark, report))
        for root, entries in staged.items():
            done = {path: (target.staged[root].files[path][1], entry) for path, entry in entries.items()}
            if done and str(Path(root) / next(iter(done))) in index:
                await in_thread(partial(journal.note_staged, record, root, replace(target.staged[root], files=done)))
        await in_thread(lambda: journal.note_after(record, after))
        return report

    async def _take(self, roots: Iterable[Path]) -> Roots:
        wanted = list(roots)
        taken = await self._folders.take(wanted, {}, ())
        for root in wanted:
            if str(root) not in taken.snapshots:
                raise SnapshotError(f"{root}: {taken.failed.get(str(root), 'there is no snapshot of it')}")
        return {str(root): taken.snapshots[str(root)] for root in wanted}

    async def _join(self) -> SubmissionRecord:
        """All that is reverted as one submission, in which the changes between two submissions are the user's."""
        reverted = [one for one in self._since if one.changed and not one.undone]
        whole = SubmissionRecord(0, next((one.prompt_id for one in reverted if one.restored is None), ""), after={})
        whole.missed = list(dict.fromkeys(text for one in self._since if not one.undone for text in one.missed))
        last: Roots = {}
        for one in reverted:
            for root, before in one.before.items():
                if root in last and (between := await self._compare(Path(root), last[root], before)):
                    whole.user_changes.append((root, between))
                whole.before.setdefault(root, before)
            whole.user_changes += one.user_changes
            last |= one.after or one.before
            _join_staged(whole.staged, one.staged)
        whole.after = last
        return whole

    async def _compare(self, root: Path, before: Snapshot, after: Snapshot) -> UserChanges | None:
        if before == after:
            return None
        found = await (await self._folders.shadow(root)).compare(before.tree, after.tree)
        files = {path: (one.before, one.after) for path, one in found.items()}
        return UserChanges(files, sorted(after.empty - before.empty), sorted(before.empty - after.empty))

    async def _list_notes(self, target: SubmissionRecord) -> tuple[str, ...]:
        notes = []
        then: dict[str, str] = {}
        for one in reversed(self._since):
            then |= one.heads
        for root, head in (await in_thread(partial(describe_heads, then))).items():
            if head != then[root]:
                text = f"Git in {root}: {head or 'no repository'}; then: {then[root] or 'no repository'}."
                notes.append(f"{text} Branches and commits stay as they are.")
        count = sum(len(entries) for entries in (await self._undo.index_changes(target)).values())
        if count:
            notes.append(f"{counted(count, 'entry', 'entries')} of git's index would be restored too.")
        return (*notes, *target.missed)


def describe_heads(roots: Iterable[str]) -> dict[str, str]:
    """By folder, what git has checked out there now. Blocking."""
    return {root: describe_head(Path(root)) for root in roots}


def _join_staged(whole: dict[str, StagedChanges], later: dict[str, StagedChanges]) -> None:
    """Add entries of the index. After a commit, what was staged before it is part of that."""
    for root, one in later.items():
        known = whole.get(root)
        if known is None or (known.index, known.head) != (one.index, one.head):
            whole[root] = one
        else:
            files = {path: (known.files.get(path, pair)[0], pair[1]) for path, pair in one.files.items()}
            whole[root] = replace(one, files={**known.files, **files})


async def _diff(shadow: Shadow, decided: FileDecisions, uncopied: Iterable[Kept]) -> FolderDiff:
    """From the files as they are to what they would become."""
    for file in decided.merged.values():
        await shadow.store(file.content)
    old = await shadow.tree_of({path: now for path, (now, _then) in decided.changes.items() if now.exists})
    new = await shadow.tree_of({path: then for path, (_now, then) in decided.changes.items() if then.exists})
    text = await shadow.patch(old, new, DIFF_LIMIT) if old != new else ""
    notes = tuple(FileChange(one.path, one.kind or "modified", one.reason) for one in uncopied)
    return FolderDiff(str(shadow.root), text, notes, len(text) >= DIFF_LIMIT)
