"""History of the working directories: a snapshot before every call that may write, and undo.

Does the work of `Workspace`, which describes the methods of the same names, for calls that do not overlap. Owns the
session's folders and journal, and serialises all work on them. No I/O error is raised: after a failed snapshot changes
cannot be undone, which is reported once, but the work continues.

The agent's changes are those made while one of its calls ran, to files that the call may have changed. All other
changes are the user's, and an undo keeps them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from agentcli.core.aio import cancel_and_wait, in_thread, start_task
from agentcli.core.files.access import is_below
from agentcli.core.frozen import slotted
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.workspace.attribution import NamedFiles, UserCommand, find_authors, users_changes
from agentcli.workspace.base import (
    CallChanges,
    DiffScope,
    FileChange,
    FolderDiff,
    RestoreMark,
    RestorePlan,
    Snapshot,
    SnapshotError,
    SnapshotLocation,
    UndoChoices,
    UndoNews,
    UndoPlan,
    UndoReport,
    WorkspaceDiff,
)
from agentcli.workspace.diffs import (
    DIFF_LIMIT,
    CallComparisons,
    SubmissionSpan,
    agent_changes,
    agent_diff,
    diff_against_head,
)
from agentcli.workspace.folders import (
    Roots,
    SnapshotFolders,
    distinct,
    home_of,
    make_private,
    prune,
)
from agentcli.workspace.journal import SubmissionRecord, UndoJournal
from agentcli.workspace.listing import lost, why_uncovered
from agentcli.workspace.repository_watch import RepositoryWatch
from agentcli.workspace.restoration import Restoration, describe_heads
from agentcli.workspace.submission_undo import SubmissionUndo
from agentcli.workspace.trees import Difference

T = TypeVar("T")
_HURRY_SECONDS = 1.0
_COMPARISON_SECONDS = 2.0
_MAX_COMMAND_LENGTH = 200
MAX_UNCOVERED = 50
"""Paths without a copy that commands in auto mode can be kept from, each by a mount."""
_PATH_FIELDS = ("file_path", "notebook_path")
_NOT_RESTORED = "The files cannot be restored"


@slotted
class _Open:
    """State of the running submission."""

    prompt_id: str
    record: SubmissionRecord | None = None
    forced: dict[str, set[str]] = field(default_factory=dict)
    """By folder, the files named by calls: they are copied even if git ignores them."""
    settled: set[str] = field(default_factory=set)
    """Those of `forced` that were checked against the first snapshot."""
    repositories: RepositoryWatch = field(default_factory=RepositoryWatch)
    uncovered: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By folder, the files without a copy in the last snapshot."""
    given_up: set[str] = field(default_factory=set)
    """Folders whose snapshot failed; they are skipped for the rest of the submission."""
    begun: Roots = field(default_factory=dict)
    """Snapshots before the running call."""
    idle: Roots = field(default_factory=dict)
    """Snapshots after the last call; changes since then are the user's."""
    background: bool = False
    """Whether a background command is running; its changes cannot be told from the user's."""
    named: NamedFiles = field(default_factory=NamedFiles)
    """Files named by the calls so far."""
    input: Json = field(default_factory=dict)
    """Input of the running call."""
    user_command: UserCommand | None = None
    """The commands of the user that ran during the running call."""


class WorkspaceHistory:
    def __init__(self, place: SnapshotLocation) -> None:
        self._place = place
        self._lock = asyncio.Lock()
        self._folders = SnapshotFolders(place)
        self._journal: UndoJournal | None = None
        self._open: _Open | None = None
        self._notices: list[str] = []
        self._notified: set[str] = set()
        self._warming: asyncio.Task[None] | None = None
        self._pruning: asyncio.Task[None] | None = None
        self._user_command: UserCommand | None = None
        self._comparisons = CallComparisons(self._folders.shadow)

    # -------------------------------------------------------------------------------------- called by the loop

    def begin(self, prompt_id: str) -> None:
        """Start a submission. No folder is read before something may change."""
        self._open = _Open(prompt_id)

    async def warm(self, working_dirs: Sequence[Path]) -> None:
        """Index the folders ahead of time, because the first snapshot takes long. May be cancelled.

        Runs git in the folder, isolated from its settings: only for trusted folders."""
        if self._warming is None:
            work = self._index_ahead(distinct(working_dirs))
            self._warming = start_task(work, name="look through the folders")
        try:
            await asyncio.shield(self._warming)
        except asyncio.CancelledError:
            await cancel_and_wait([self._warming])
            raise

    async def _index_ahead(self, roots: Sequence[Path]) -> None:
        async with self._lock:
            await self._folders.look_through(roots)

    async def _finish_warming(self) -> None:
        if self._warming is not None and not self._warming.done():
            # Files indexed so far need not be indexed again.
            await asyncio.wait({self._warming}, timeout=self._place.snapshot_seconds)
            await cancel_and_wait([self._warming])

    async def find_gap(self, working_dirs: Sequence[Path], paths: Sequence[str]) -> str:
        """See `Workspace.find_gap`. Takes a snapshot of a folder that has none yet."""
        await self._finish_warming()
        roots = distinct(working_dirs)
        async with self._lock:
            if new := [root for root in roots if root not in self._folders.tried]:
                await self._folders.take(new, {}, (), with_ignored=True)
        for root in roots:
            if problem := self._folders.problems.get(str(root)):
                return f"changes in {root} cannot be undone: {problem}"
        uncovered = self._folders.uncovered
        if len(uncovered) > MAX_UNCOVERED:
            return f"undo does not cover {len(uncovered):,} files and folders, such as {uncovered[0]}"
        names = [name for name in map(str, uncovered) if any(is_below(path, (name,)) for path in paths)]
        return f"undo does not cover {names[0]}" if names else ""

    def uncovered(self) -> tuple[Path, ...]:
        return tuple(self._folders.uncovered)

    async def before_change(self, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        await self._finish_warming()
        async with self._lock:
            await self._notify_failure(self._before_change(input, cwd, working_dirs))

    async def _before_change(self, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        opened = self._open = self._open or _Open("")
        journal = await self._open_journal()
        if opened.record is None:
            await self._close_killed(journal)
            opened.record = journal.begin(opened.prompt_id)
        record = opened.record
        roots = distinct(working_dirs)
        self._note_target(input, cwd, roots, opened, journal)
        first = not record.before
        wanted = [*roots, *(Path(root) for root in record.before)]
        snapshots = await self._take(wanted, opened, record, with_ignored=first)
        if first and (unwatched := self._folders.unwatched):
            more = f" and {len(unwatched) - 1:,} more" if len(unwatched) > 1 else ""
            text = f"Undo does not cover {unwatched[0]}{more}: too many or too large files."
            await in_thread(partial(journal.note_missed, record, text))
        fresh = {root: snapshot for root, snapshot in snapshots.items() if root not in record.before}
        await opened.repositories.begin_call(snapshots)
        if record.before:
            fresh |= await self._amend(record, snapshots, opened)
            for root in fresh.keys() - record.before.keys() - {str(root) for root in roots}:
                journal.note_missed(record, f"{root} was created meanwhile and is a separate repository: it stays.")
        if fresh:
            await in_thread(lambda: journal.note_before(record, fresh, describe_heads(fresh)))
        await self._notify_lost(opened, snapshots)
        await self._note_idle(opened, record, snapshots)
        opened.begun, opened.input, opened.user_command = snapshots, input, self._user_command
        self._start_pruning()

    async def after_change(
        self, only: Sequence[str] | None = None, background: bool = False, call_id: str = "", *, reports: bool = False
    ) -> bool:
        async with self._lock:
            return await self._notify_failure(self._after_change(only, background, call_id, reports)) is True

    async def _after_change(self, only: Sequence[str] | None, background: bool, call_id: str, reports: bool) -> bool:
        opened = self._open
        if opened is None or opened.record is None or not opened.begun:
            return False
        record, begun, opened.begun = opened.record, opened.begun, {}
        if only is None:
            opened.named.add_input(opened.input)
        else:
            opened.named.paths.update(only)
        now = await self._take([Path(root) for root in begun], opened, record)
        if only is None:
            command = "" if opened.user_command is not None else str(opened.input.get("command", ""))
            await opened.repositories.end_call(command, self._folders.shadow)
            await self._note_authors(opened, record, begun, now)
        else:
            for root in now.keys() & begun.keys():
                await self._note_users(opened, record, (root, begun[root], now[root]), except_below=only)
        opened.idle, opened.background = now, background
        spans = {root: (begun[root].tree, now[root].tree) for root in now.keys() & begun.keys()}
        if changed := {root: trees for root, trees in spans.items() if trees[0] != trees[1]}:
            journal = await self._open_journal()
            await in_thread(lambda: journal.note_call(record, call_id, changed))
        return reports and self._comparisons.compare(call_id, begun, now)

    def take_call_changes(self) -> list[CallChanges]:
        return self._comparisons.take()

    async def _note_authors(self, opened: _Open, record: SubmissionRecord, begun: Roots, now: Roots) -> None:
        """Record the user's changes during a call that may change any file."""
        line = opened.user_command
        for root in now.keys() & begun.keys():
            span = (root, begun[root], now[root])
            if begun[root] == now[root]:
                continue
            shadow = await self._folders.shadow(Path(root))
            is_users, may_be_users = await find_authors(shadow, record, begun[root], opened.named, line)
            if line is not None:
                await self._note_users(opened, record, span, is_users, doubtful=False)
            await self._note_users(opened, record, span, may_be_users, doubtful=True)

    def before_user_command(self, command: str, only: Sequence[str] | None) -> None:
        self._user_command = started = UserCommand.of(command, only)
        if (opened := self._open) is not None:
            earlier = opened.user_command
            opened.user_command = started if earlier is None else earlier.joined(started)

    def after_user_command(self) -> None:
        self._user_command = None

    async def _note_idle(self, opened: _Open, record: SubmissionRecord, now: Roots) -> None:
        """Record changes since the last call as the user's."""
        idle, opened.idle = opened.idle, {}
        for root in now.keys() & idle.keys():
            await self._note_users(opened, record, (root, idle[root], now[root]))

    async def _note_users(
        self, opened: _Open, record: SubmissionRecord, span: tuple[str, Snapshot, Snapshot],
        among: Callable[[str, Difference], bool] | None = None, except_below: Sequence[str] | None = None,
        doubtful: bool | None = None,
    ) -> None:  # fmt: skip
        """Record the user's changes in one folder: all, only those that `among` accepts, or none that a call may have
        made."""
        root, before, after = span
        if before == after:
            return
        shadow = await self._folders.shadow(Path(root))
        changes = await users_changes(shadow, (before, after), opened.forced.get(root, ()), among, except_below)
        if changes:
            changes.doubtful = except_below is None and opened.background if doubtful is None else doubtful
            if doubtful:
                changes.command = plain_line(str(opened.input.get("command", "")), _MAX_COMMAND_LENGTH)
            journal = await self._open_journal()
            await in_thread(lambda: journal.note_user_changes(record, root, changes))

    async def _amend(self, record: SubmissionRecord, now: Roots, opened: _Open) -> Roots:
        """Add ignored files first named by a later call to the first snapshot, with their current content.

        Otherwise an undo would treat them as new and remove them.
        """
        amended: Roots = {}
        for root, paths in opened.forced.items():
            was = record.before.get(root)
            if was is None or root not in now or now[root].tree == was.tree:
                continue
            shadow = await self._folders.shadow(Path(root))
            wanted = sorted(paths - opened.settled)
            opened.settled |= paths
            missing = set(wanted) - (await shadow.entries(was.tree, wanted)).keys()
            hidden = sorted(await shadow.list_ignored(sorted(missing)))
            entries = await shadow.entries(now[root].tree, hidden)
            if entries:
                tree = await shadow.with_entries(was.tree, entries)
                await self._folders.hold(shadow, tree)
                amended[root] = replace(was, tree=tree)
        return amended

    async def end(self, hurry: bool = False) -> None:
        """End the submission: later changes are the user's."""
        opened, self._open = self._open, None
        await self._comparisons.finish(0.0 if hurry else _COMPARISON_SECONDS)
        if opened is None or opened.record is None or not opened.record.before:
            return
        async with self._lock:
            await self._notify_failure(self._end(opened, opened.record, hurry))

    async def _end(self, opened: _Open, record: SubmissionRecord, hurry: bool) -> None:
        journal = await self._open_journal()
        after = await self._take([Path(root) for root in record.before], opened, record, hurry)
        await self._notify_lost(opened, after)
        await self._note_idle(opened, record, after)
        for root, staged in opened.repositories.staged().items():
            await in_thread(partial(journal.note_staged, record, root, staged))
        for text in await in_thread(opened.repositories.list_missed):
            await in_thread(partial(journal.note_missed, record, text))
        for root in after.keys() - record.before.keys():
            journal.note_missed(record, f"{root} was created meanwhile and is a separate repository: it stays.")
        if record.before.keys() <= after.keys():
            # Otherwise it stays open, and the state at the next opportunity counts as its end.
            whole = {root: after[root] for root in record.before}
            await in_thread(lambda: journal.note_after(record, whole))

    def take_notice(self) -> str | None:
        return self._notices.pop(0) if self._notices else None

    async def aclose(self) -> None:
        await cancel_and_wait([task for task in (self._pruning, self._warming) if task is not None])
        await self._comparisons.aclose()
        async with self._lock:
            await self._folders.aclose()

    # -------------------------------------------------------------------------------------- called for the user

    async def changes(self) -> list[FileChange]:
        async with self._lock:
            found = await self._try(self._changes())
            return found if isinstance(found, list) else []

    async def _changes(self) -> list[FileChange]:
        changes: list[FileChange] = []
        for root, spans in (await self._spans("prompt")).items():
            shadow = await self._folders.shadow(Path(root))
            for span in spans:
                changes += await agent_changes(shadow, span)
        return changes

    async def diff(self, scope: DiffScope, working_dirs: Sequence[Path]) -> WorkspaceDiff:
        return await self._try_diff(self._diff(scope, working_dirs))

    async def _diff(self, scope: DiffScope, working_dirs: Sequence[Path]) -> WorkspaceDiff:
        if scope == "all":
            return await diff_against_head(distinct(working_dirs), self._place.search_path)
        return await self._diff_spans(await self._spans(scope))

    async def _diff_spans(self, found: Mapping[str, Sequence[SubmissionSpan]]) -> WorkspaceDiff:
        folders = []
        for root, spans in found.items():
            folders.append(await agent_diff(await self._folders.shadow(Path(root)), spans))
        return WorkspaceDiff(tuple(one for one in folders if one.text or one.notes))

    async def put_back(self, again: bool, choices: UndoChoices | None = None) -> UndoReport:
        """Undo, or redo if `again`."""
        async with self._lock:
            report = await self._try(self._with_undo(again, lambda undo: undo.run(choices or UndoChoices())))
            return report if isinstance(report, UndoReport) else UndoReport(False, str(report))

    async def plan(self, again: bool, choices: UndoChoices | None = None) -> UndoPlan:
        async with self._lock:
            found = await self._try(self._with_undo(again, lambda undo: undo.plan(choices or UndoChoices())))
            return found if isinstance(found, UndoPlan) else UndoPlan()

    async def submissions(self) -> Sequence[SubmissionRecord]:
        async with self._lock:
            return tuple((await self._open_journal()).submissions)

    async def diff_trees(self, trees: Mapping[str, tuple[str, str]]) -> WorkspaceDiff:
        async def compare() -> WorkspaceDiff:
            found = []
            for root, (old, new) in trees.items():
                text = await (await self._folders.shadow(Path(root))).patch(old, new, DIFF_LIMIT)
                found.append(FolderDiff(root, text, cut=len(text) >= DIFF_LIMIT))
            return WorkspaceDiff(tuple(one for one in found if one.text))

        return await self._try_diff(compare())

    async def diff_submissions(self, numbers: Collection[int]) -> WorkspaceDiff:
        async def compare() -> WorkspaceDiff:
            journal = await self._open_journal()
            return await self._diff_spans(
                await self._spans_of([one for one in journal.submissions if one.number in numbers])
            )

        return await self._try_diff(compare())

    async def _try_diff(self, work: Awaitable[WorkspaceDiff]) -> WorkspaceDiff:
        async with self._lock:
            found = await self._try(work, "Changes cannot be shown")
            return found if isinstance(found, WorkspaceDiff) else WorkspaceDiff(problem=found)

    async def restore_plan(
        self, since: int, choices: UndoChoices, instead: SubmissionRecord | None = None
    ) -> RestorePlan:
        async with self._lock:
            work = self._with_restoration(since, instead, lambda restoration: restoration.plan(choices))
            found = await self._try(work, _NOT_RESTORED)
            return found if isinstance(found, RestorePlan) else RestorePlan(WorkspaceDiff(problem=found))

    async def restore(self, since: int, choices: UndoChoices, mark: RestoreMark) -> UndoReport:
        async with self._lock:
            work = self._with_restoration(since, mark.instead, lambda restoration: restoration.run(choices, mark))
            found = await self._try(work, _NOT_RESTORED)
            return found if isinstance(found, UndoReport) else UndoReport(False, found)

    async def _with_restoration(
        self, since: int, instead: SubmissionRecord | None, use: Callable[[Restoration], Awaitable[T]]
    ) -> T:
        if self._open is not None and self._open.begun:
            raise SnapshotError("a background agent is changing files; /tasks can stop it")
        journal = await self._open_journal()
        await self._close_killed(journal)
        return await use(Restoration(self._folders, journal, since, self._place.snapshot_seconds, instead))

    async def take_undo_news(self) -> list[UndoNews]:
        async with self._lock:
            journal = await self._open_journal()
            return await in_thread(journal.take_news)

    async def skip_undo_news(self) -> None:
        async with self._lock:
            journal = await self._open_journal()
            if journal.last is not None:
                await in_thread(partial(journal.mark_told, journal.last))

    async def _with_undo(self, again: bool, use: Callable[[SubmissionUndo], Awaitable[T]]) -> T:
        journal = await self._open_journal()
        await self._close_killed(journal)
        return await use(SubmissionUndo(self._folders, journal, again, self._place.snapshot_seconds))

    # ------------------------------------------------------------------------------------------------------ snapshots

    async def _take(
        self, roots: Iterable[Path], opened: _Open, record: SubmissionRecord, hurry: bool = False,
        with_ignored: bool = False,
    ) -> Roots:  # fmt: skip
        """Take snapshots of these folders. Failed ones are left out, recorded, and reported once."""
        seconds = _HURRY_SECONDS if hurry else None
        taken = await self._folders.take(roots, opened.forced, opened.given_up, seconds, with_ignored)
        opened.given_up |= taken.failed.keys()
        journal = await self._open_journal()
        for root, reason in taken.failed.items():
            text = f"Changes in {root} cannot be undone: {reason}."
            await in_thread(partial(journal.note_missed, record, text))
            self._notify(text)
        return taken.snapshots

    async def _notify_lost(self, opened: _Open, now: Roots) -> None:
        """Report removed files without a copy at once, not only at an undo."""
        for root, snapshot in now.items():
            was = opened.uncovered.get(root, {})
            opened.uncovered[root] = snapshot.uncovered
            gone = await in_thread(partial(lost, Path(root), was, snapshot.uncovered))
            if gone:
                first = plain_line(os.fsencode(Path(root) / gone[0]).decode("utf-8", "replace"), 300)
                more = f" and {len(gone) - 1} more were" if len(gone) > 1 else " was"
                reason = why_uncovered([was[path] for path in gone])
                self._notify(f"{first}{more} removed and cannot be restored: {reason}.")

    def _notify(self, text: str) -> None:
        if text not in self._notified:
            self._notified.add(text)
            self._notices.append(text)

    def _note_target(
        self, input: Json, cwd: Path, roots: Sequence[Path], opened: _Open, journal: UndoJournal
    ) -> None:  # fmt: skip
        """Note the file that a call names: it is copied even when ignored, unless it is outside the folders."""
        given = next((input[name] for name in _PATH_FIELDS if isinstance(input.get(name), str)), None)
        if not given or "\0" in given:
            return
        path = Path(os.path.normpath(cwd / given))
        real = Path(os.path.realpath(path.parent)) / path.name
        root = home_of(real, roots)
        if root is not None:
            opened.forced.setdefault(str(root), set()).add(real.relative_to(root).as_posix())
            return
        if opened.record is not None:
            journal.note_missed(opened.record, f"{real} is outside the working directories and is not undone.")

    async def _close_killed(self, journal: UndoJournal) -> None:
        """Close submissions of a killed process: all changes up to now count as theirs."""
        for one in journal.open_ended():
            if self._open is not None and one is self._open.record:
                continue
            after = await self._take([Path(root) for root in one.before], _Open(""), one)
            whole = {root: after.get(root, one.before[root]) for root in one.before}
            await in_thread(partial(journal.note_after, one, whole))

    async def _spans(self, scope: DiffScope) -> dict[str, list[SubmissionSpan]]:
        """By folder, the snapshots around each submission in scope, with the user's changes.

        Doubtful changes are not excluded, since showing them does no harm.
        """
        journal = await self._open_journal()
        running = self._open.record if self._open is not None else None
        await self._close_killed(journal)
        last = running or next(iter(journal.to_undo()), None)
        chosen = [one for one in journal.submissions if not one.undone] if scope == "session" else [last]
        return await self._spans_of([one for one in chosen if one is not None])

    async def _spans_of(self, chosen: Iterable[SubmissionRecord]) -> dict[str, list[SubmissionSpan]]:
        running = self._open.record if self._open is not None else None
        spans: dict[str, list[SubmissionSpan]] = {}
        for one in chosen:
            after = one.after
            if after is None:
                look = _Open("", forced=self._open.forced if self._open is not None else {})
                after = await self._take([Path(root) for root in one.before], look, one)
                if self._open is not None and one is running and self._open.idle:
                    await self._note_idle(self._open, one, after)
                    self._open.idle = after
            for root, before in one.before.items():
                if root in after and after[root] != before:
                    certain = [user for user in one.user_changes_in(root) if not user.doubtful]
                    spans.setdefault(root, []).append((before, after[root], certain))
        return spans

    # ---------------------------------------------------------------------------------------------- helpers

    async def _open_journal(self) -> UndoJournal:
        if self._journal is None:
            path = self._place.journal
            journal = UndoJournal(path)

            def opened() -> None:
                make_private(path.parent)
                if self._place.forked_from:
                    journal.inherit(path.with_stem(self._place.forked_from))
                journal.load()

            await in_thread(opened)
            self._journal = journal
        return self._journal

    async def _notify_failure(self, work: Awaitable[T]) -> T | str:
        result = await self._try(work)
        if isinstance(result, str):
            self._notify(result)
        return result

    async def _try(self, work: Awaitable[T], failed: str = "Changes cannot be undone") -> T | str:
        """The result of `work`, or an error message."""
        try:
            return await work
        except SnapshotError as error:
            return f"{failed}: {error}."
        except OSError as error:
            return f"{failed}: {(error.strerror or str(error)).lower()}."

    def _start_pruning(self) -> None:
        """Prune old snapshots in the background, once per process."""
        if self._pruning is None:
            self._pruning = start_task(prune(self._place.folder, self._folders.shadows), name="prune snapshots")
