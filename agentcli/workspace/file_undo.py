"""One undo or redo, folder by folder: remove the submission's changes from the current files.

The history of a file is a chain of states: before the submission, after each change that the user made while no call
ran, and at the end. The transitions in between are the submission's steps. A file that is exactly as the submission
left it is restored. If the user changed it as well, the user's lines are kept and the submission's are removed; if both
changed the same lines, a choice decides, and without one the file is not touched and is reported. Redo is the same with
both states exchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial

from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen, slotted
from agentcli.workspace.base import (
    Conflict,
    ConflictChoice,
    Kept,
    LineClash,
    Snapshot,
    SnapshotError,
    UndoChoices,
    UndoReport,
)
from agentcli.workspace.journal import EntryChange, UndoOutcome, UserChanges
from agentcli.workspace.listing import disk_stamp, list_uncovered_changes, why_uncovered
from agentcli.workspace.merge import Clash, is_text, merge
from agentcli.workspace.restore import FolderRestorer, OldFile, blob_id, parents
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import ABSENT, Difference, TreeEntry


@slotted
class FolderReversal:
    """How to change one folder from the state `left` to the state `wanted`. Paths are relative to the folder."""

    shadow: Shadow
    left: Snapshot
    wanted: Snapshot
    before: Snapshot
    """The earlier of `left` and `wanted`."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """From `left` to `wanted`."""
    steps: dict[str, list[EntryChange]] = field(default_factory=dict)
    """Changes to reverse by path, oldest first."""
    entries: dict[str, TreeEntry] = field(default_factory=dict)
    """The entries of these paths in `left`."""
    user_made: frozenset[str] = frozenset()
    """Empty folders that the user created."""
    user_gone: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    """Files that the user may have changed while a command ran."""


async def plan_undo(shadow: Shadow, was: Snapshot, became: Snapshot, users: Sequence[UserChanges]) -> FolderReversal:
    """Plan an undo. `users`: the user's changes during the submission, in order."""
    reversal = FolderReversal(shadow, became, was, was, await shadow.compare(became.tree, was.tree))
    touched = list(dict.fromkeys(path for one in users for path in one.files))
    unchanged = await shadow.entries(was.tree, [path for path in touched if path not in reversal.differences])
    for path in (*reversal.differences, *(path for path in touched if path not in reversal.differences)):
        difference = reversal.differences.get(path)
        first = difference.after if difference else unchanged.get(path, ABSENT)
        last = difference.before if difference else first
        reversal.entries[path] = last
        steps = agent_steps(first, last, [one.files[path] for one in users if path in one.files])
        if steps:
            reversal.steps[path] = steps
    reversal.user_made = frozenset(name for one in users for name in one.made)
    reversal.user_gone = frozenset(name for one in users for name in one.gone)
    reversal.doubtful = frozenset(path for one in users if one.doubtful for path in one.files)
    return reversal


def agent_steps(first: TreeEntry, last: TreeEntry, users: Iterable[EntryChange]) -> list[EntryChange]:
    steps: list[EntryChange] = []
    at = first
    for began, ended in users:
        if at != began:
            steps.append((at, began))
        at = ended
    if at != last:
        steps.append((at, last))
    return steps


async def plan_redo(shadow: Shadow, was: Snapshot, became: Snapshot, done: UndoOutcome) -> FolderReversal:
    """Plan a redo. `done`: effects of the undo beyond restoring the snapshot."""
    reversal = FolderReversal(shadow, was, became, was, await shadow.compare(was.tree, became.tree))
    others = [path for path in done.files if path not in reversal.differences]
    unchanged = await shadow.entries(was.tree, others)
    for path, difference in reversal.differences.items():
        if path not in done.untouched:
            reversal.entries[path] = difference.before
            reversal.steps[path] = [(difference.after, difference.before)]
    for path, step in done.files.items():
        found = reversal.differences.get(path)
        reversal.entries[path] = found.before if found else unchanged.get(path, ABSENT)
        reversal.steps[path] = [step]
    return reversal


_CHANGED = "it was changed later"
_CLASHES = "the same lines were changed later"
_DOUBTFUL = "it changed while a command ran and may be your change"
_CHOSEN = "you kept your lines"


@frozen
class FileVersion:
    """One version of a file; `content` is set only if no snapshot has it."""

    entry: TreeEntry
    content: bytes | None = None


@slotted
class FileDecisions:
    """Decisions about the files of one folder."""

    write: dict[str, TreeEntry] = field(default_factory=dict)
    merged: dict[str, OldFile] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    unresolved: set[str] = field(default_factory=set)
    conflicts: list[Conflict] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)
    """The files in `kept` that either the user or a command changed."""
    changes: dict[str, EntryChange] = field(default_factory=dict)
    """Changed files with their entries before and after."""


@slotted
class FileUndo:
    prompt_id: str
    choices: UndoChoices = field(default_factory=UndoChoices)
    only: Mapping[str, set[str]] | None = None
    """By folder, the files to consider; None: all of them."""
    changes: dict[str, EntryChange] = field(default_factory=dict)
    """By absolute path, the changes made."""
    merged: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    put_back: dict[str, UndoOutcome] = field(default_factory=dict)
    folders: int = 0
    """Number of empty folders created or removed."""

    @property
    def found_nothing(self) -> bool:
        return not (self.changes or self.kept or self.folders)

    async def check(self, shadow: Shadow, *snapshots: Snapshot) -> None:
        """Raise `SnapshotError` if something that is needed no longer exists."""
        await in_thread(shadow.make_root)
        for snapshot in snapshots:
            if not await shadow.holds(snapshot.tree):
                raise SnapshotError(f"the copies of {shadow.root} were too old and have been deleted")

    async def decide(self, reversal: FolderReversal, now: Snapshot) -> FileDecisions:
        """Decide what to do in a folder whose current state is `now`. Changes nothing. Raises `SnapshotError`."""
        since = await reversal.shadow.compare(reversal.left.tree, now.tree)
        decided = FileDecisions()
        for path, steps in reversal.steps.items():
            if self.only is not None and path not in self.only.get(str(reversal.shadow.root), ()):
                continue
            if reversal.before.is_foreign(path) or path in reversal.left.uncovered or path in reversal.wanted.uncovered:
                continue
            if path in now.uncovered:
                decided.kept[path] = _CHANGED
                continue
            there = since[path].after if path in since else reversal.entries[path]
            await self._decide_file(reversal.shadow, path, there, steps, decided)
        if self.only is None:
            there_still = await in_thread(partial(_find_existing, reversal.shadow, reversal.doubtful))
            decided.doubtful = there_still - decided.kept.keys()
            decided.kept |= dict.fromkeys(decided.doubtful, _DOUBTFUL)
            decided.unresolved |= {
                path for path in there_still if self.choices.get(str(reversal.shadow.root / path)) is None
            }
        return decided

    async def _decide_file(
        self, shadow: Shadow, path: str, there: TreeEntry, steps: Sequence[EntryChange], decided: FileDecisions
    ) -> None:  # fmt: skip
        name = str(shadow.root / path)
        choice = self.choices.get(name)
        wanted, clashes = await _revert(shadow, FileVersion(there), steps, choice or "keep")
        if clashes and choice is None:
            replaced, _again = await _revert(shadow, FileVersion(there), steps, "replace")
            decided.conflicts.append(Conflict(name, tuple(filter(None, clashes)), replaced.entry.exists))
            decided.kept[path] = _CLASHES if any(clash and clash.line for clash in clashes) else _CHANGED
            decided.unresolved.add(path)
        elif wanted.entry == there:
            if clashes:
                decided.kept[path] = _CHOSEN
        elif wanted.content is not None and wanted.entry != steps[0][0]:
            executable = wanted.entry.mode == "100755"
            decided.merged[path] = OldFile(path, wanted.content, executable)
            decided.changes[path] = (there, wanted.entry)
        else:
            decided.changes[path] = (there, wanted.entry)
            if wanted.entry.exists:
                decided.write[path] = wanted.entry
            else:
                decided.remove.append(path)

    async def folder(self, reversal: FolderReversal, seconds: float) -> Snapshot | None:
        """Apply the reversal to one folder. Raises `SnapshotError` before any change; `check` all folders first.

        Returns the state before, if a redo needs something in it.
        """
        shadow = reversal.shadow
        now = await shadow.take(seconds)
        since = await shadow.compare(reversal.left.tree, now.tree)
        decided = await self.decide(reversal, now)
        restoring = FolderRestorer(shadow.root)
        await self._apply(reversal, restoring, decided)
        decided.kept |= restoring.problems
        for path in restoring.problems:
            decided.changes.pop(path, None)
        self._note(reversal, decided)
        self.folders += restoring.folders
        if self.only is None:
            self.kept += await self.find_without_copy(reversal, since)
        return now if self.put_back[str(shadow.root)].files else None

    def _note(self, reversal: FolderReversal, decided: FileDecisions) -> None:
        where, changes = reversal.shadow.root, decided.changes
        self.changes |= {str(where / path): change for path, change in sorted(changes.items())}
        self.merged += [str(where / path) for path in sorted(decided.merged) if path in changes]
        self.kept += [
            Kept(str(where / path), reason, is_open=path in decided.unresolved)
            for path, reason in sorted(decided.kept.items())
        ]
        self.put_back[str(where)] = UndoOutcome(
            {path: step for path, step in changes.items() if step != _usual(reversal, path)},
            {path for path in reversal.steps if path not in changes},
            decided.unresolved & decided.kept.keys(),
        )

    async def find_without_copy(self, reversal: FolderReversal, since: Mapping[str, Difference]) -> list[Kept]:
        """Changes of the submission that cannot be reversed, except those already reversed on disk."""
        root, left, wanted, before = reversal.shadow.root, reversal.left, reversal.wanted, reversal.before
        ways = reversal.differences

        def found() -> list[Kept]:
            back = before is wanted
            done = {path: one.reverse() for path, one in ways.items()} if back else ways
            kept = []
            for path, kind in list_uncovered_changes(root, before, left if back else wanted, done).items():
                one = ways.get(path)
                if path in wanted.uncovered:
                    as_wanted = disk_stamp(root / path) == wanted.uncovered[path]
                elif one is not None and one.after.exists:
                    as_wanted = path in since and since[path].after == one.after
                else:
                    as_wanted = not os.path.lexists(root / path)
                if not as_wanted:
                    reason = why_uncovered((left.uncovered.get(path), wanted.uncovered.get(path)))
                    kept.append(Kept(str(root / path), reason, kind))
            return kept

        return await in_thread(found)

    async def _apply(self, reversal: FolderReversal, restoring: FolderRestorer, decided: FileDecisions) -> None:
        left, wanted = reversal.left, reversal.wanted
        folders = set(await reversal.shadow.folders(wanted.tree)) | wanted.empty | reversal.user_made
        folders |= {parent for path in (*wanted.empty, *reversal.user_made) for parent in parents(path)}
        whole = self.only is None
        gone = sorted(left.empty - folders) if whole else []
        back = sorted(wanted.empty - left.empty - reversal.user_gone) if whole else []
        await in_thread(lambda: restoring.clear(decided.remove, gone, folders))
        async for files in reversal.shadow.old_files(decided.write):
            await in_thread(partial(restoring.write, files))
        await in_thread(partial(restoring.write, decided.merged.values()))
        await in_thread(lambda: restoring.make_folders(back))

    def report(self, missed: Sequence[str]) -> UndoReport:
        changes = self.changes.items()
        return UndoReport(
            done=True,
            text=" ".join(missed),
            prompt_id=self.prompt_id,
            restored=tuple(path for path, (_was, becomes) in changes if becomes.exists),
            recreated=tuple(path for path, (was, becomes) in changes if becomes.exists and not was.exists),
            deleted=tuple(path for path, (_was, becomes) in changes if not becomes.exists),
            kept=tuple(self.kept),
            merged=tuple(self.merged),
        )


def _find_existing(shadow: Shadow, paths: Iterable[str]) -> set[str]:
    return {path for path in paths if os.path.lexists(shadow.root / path)}


def _usual(reversal: FolderReversal, path: str) -> EntryChange | None:
    """The change of a file that only the submission has changed."""
    difference = reversal.differences.get(path)
    return (difference.before, difference.after) if difference else None


async def _revert(
    shadow: Shadow, version: FileVersion, steps: Sequence[EntryChange], choice: ConflictChoice
) -> tuple[FileVersion, list[LineClash | None]]:
    """The file without these steps, and where a choice was needed; None for a clash that cannot be shown."""
    clashes: list[LineClash | None] = []
    for began, ended in reversed(steps):
        if version.entry == ended:
            version = FileVersion(began)
        elif version.entry == began or not version.entry.exists:
            # Already reverted, or the user deleted it, so that nothing of the submission is left in it.
            continue
        else:
            found = await _merge_lines(shadow, version, began, ended, choice)
            if found is None:
                clashes.append(await _whole_clash(shadow, version, began))
                if choice == "keep":
                    return version, clashes
                version = FileVersion(began)
            else:
                version = found[0]
                clashes += [LineClash(one.line, _text(one.mine), _text(one.other)) for one in found[1]]
    return version, clashes


async def _merge_lines(
    shadow: Shadow, version: FileVersion, began: TreeEntry, ended: TreeEntry, choice: ConflictChoice
) -> tuple[FileVersion, tuple[Clash, ...]] | None:
    """Merge by lines; None if one of the versions is not text."""
    if not (version.entry.is_file and began.is_file and ended.is_file):
        return None
    mine, other, base = [await _content(shadow, one) for one in (version, FileVersion(began), FileVersion(ended))]
    if not (is_text(mine) and is_text(other) and is_text(base)):
        return None
    favour = partial(merge, favour="mine" if choice == "keep" else "other")
    merged = await in_thread(lambda: favour(base, mine, other))
    mode = version.entry.mode if version.entry.mode != ended.mode else began.mode
    return FileVersion(TreeEntry(mode, blob_id(merged.content)), merged.content), merged.clashes


async def _whole_clash(shadow: Shadow, version: FileVersion, began: TreeEntry) -> LineClash | None:
    """Both versions of a file that needs a choice as a whole; None if they are not text."""
    if not version.entry.is_file or not (began.is_file or not began.exists):
        return None
    mine = await _content(shadow, version)
    other = await _content(shadow, FileVersion(began)) if began.exists else b""
    return LineClash(0, _text(mine), _text(other)) if is_text(mine) and is_text(other) else None


async def _content(shadow: Shadow, version: FileVersion) -> bytes:
    return version.content if version.content is not None else await shadow.content(version.entry.oid)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
