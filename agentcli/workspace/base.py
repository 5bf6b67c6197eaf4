"""The workspace of a session as the loop sees it, and its data: file changes, diffs, undo plans and reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json

if TYPE_CHECKING:
    from agentcli.workspace.history import WorkspaceHistory
    from agentcli.workspace.journal import SubmissionRecord

ChangeKind = Literal["added", "modified", "deleted"]
ConflictChoice = Literal["keep", "replace"]
"""For lines that both the user and the submission changed: keep the current ones, or replace them."""
DiffScope = Literal["session", "prompt", "all"]
"""Changes of the agent in this session, changes of the last prompt, or the work tree compared with HEAD."""


@frozen
class FileChange:
    path: str
    """Absolute path."""
    kind: ChangeKind
    note: str = ""
    """Why there is no copy of it, as half a sentence."""


@frozen
class FolderDiff:
    """The changes in one folder as a unified diff made by git."""

    root: str
    """Absolute path of the folder; the names in `text` are relative to it."""
    text: str
    notes: tuple[FileChange, ...] = ()
    """Files that the diff cannot show, mainly those without a stored copy."""
    cut: bool = False
    """Whether the diff was cut at the size limit."""


@frozen
class WorkspaceDiff:
    folders: tuple[FolderDiff, ...] = ()
    problem: str = ""
    """Why there is no diff, as a sentence; empty if there is one."""


@frozen
class Kept:
    """A file that undo left unchanged, with the reason as half a sentence."""

    path: str
    reason: str
    kind: ChangeKind | None = None
    """What the submission did to a file without a stored copy; undo cannot reverse it."""
    is_open: bool = False
    """Whether a `ConflictChoice` of the user can resolve it."""


@frozen
class LineClash:
    """Lines that both the user and the submission changed. Text is decoded, with replacement characters."""

    line: int
    """Number of the first line in the current file; 0 if the whole file clashes."""
    now: str
    replaced: str
    """The lines that `ConflictChoice` "replace" would restore."""


@frozen
class Conflict:
    """A file that cannot be restored without a choice by the user."""

    path: str
    clashes: tuple[LineClash, ...]
    """Empty for links and binary files."""
    exists: bool = True
    """Whether the file would exist after "replace"."""


@frozen
class UndoPlan:
    """The questions that an undo or redo has. `prompt_id` is the message that began the submission."""

    prompt_id: str = ""
    conflicts: tuple[Conflict, ...] = ()
    doubtful: tuple[str, ...] = ()
    """Absolute paths of files that changed while a command ran, either by the command or by the user."""
    commands: tuple[str, ...] = ()
    """The commands that ran at that time, if known."""


@frozen
class UndoChoices:
    """How to resolve conflicts: by absolute path, and for all other files. None: do not touch such a file."""

    by_path: Mapping[str, ConflictChoice] = field(default_factory=dict)
    otherwise: ConflictChoice | None = None
    prompt_id: str = ""
    """The submission that the user was asked about; the answers are for no other one."""

    def get(self, path: str) -> ConflictChoice | None:
        return self.by_path.get(path, self.otherwise)


@frozen
class UndoReport:
    """The result of an undo or redo. Paths are absolute."""

    done: bool
    """Whether anything was restored; if not, `text` explains why."""
    text: str = ""
    prompt_id: str = ""
    """Id of the message that began the submission."""
    restored: tuple[str, ...] = ()
    """Files whose old content was restored."""
    recreated: tuple[str, ...] = ()
    """Those of `restored` that did not exist."""
    deleted: tuple[str, ...] = ()
    """Files created by the submission and now deleted."""
    kept: tuple[Kept, ...] = ()
    merged: tuple[str, ...] = ()
    """Those of `restored` in which the user's own changes were kept."""
    index: tuple[str, ...] = ()
    """Files whose entry in git's index was restored."""

    @property
    def touched(self) -> tuple[str, ...]:
        return (*self.restored, *self.deleted)


@frozen
class RestorePlan:
    """What restoring an earlier state of the files would do now."""

    diff: WorkspaceDiff = field(default_factory=WorkspaceDiff)
    """From the files as they are now to what they would become. `problem`: why nothing can be restored."""
    questions: UndoPlan = field(default_factory=UndoPlan)
    merged: tuple[str, ...] = ()
    """Absolute paths of files that would change, and in which the user's own changes would stay."""
    kept: tuple[Kept, ...] = ()
    """Files that would be left as they are whatever the user chooses."""
    notes: tuple[str, ...] = ()
    """Sentences about what is not restored, mainly in git."""
    changes_folders: bool = False
    """Whether empty folders would be created or removed."""

    @property
    def is_empty(self) -> bool:
        questions = self.questions.conflicts or self.questions.doubtful
        return not (self.diff.folders or self.diff.problem or questions or self.kept or self.changes_folders)


@frozen
class RestoreMark:
    """What a restoration of files belongs to, so that both can be undone together."""

    prompt_id: str
    """The last prompt sent before it."""
    rewinds: int
    """Number of rewinds of the conversation that were not taken back, with the one that belongs to it."""
    with_conversation: bool
    """Whether the conversation went back too. Then the model need not be told about the files."""
    instead: SubmissionRecord | None = None
    """Changes made elsewhere that are to take the place of the reverted ones, with both states exchanged."""
    since: int = 0
    """Of changes that took the place of others: number of the first submission that was reverted for that."""


@frozen
class UndoNews:
    """An undo or redo not yet reported to the model: the net effect on one submission."""

    prompt_id: str
    again: bool
    """Whether it is a redo."""
    restored: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Those of `restored` in which the user's own changes were kept."""
    is_restore: bool = False
    """Whether it restored an earlier state of the files, instead of undoing one submission."""


@frozen
class CallChanges:
    """Files that changed while one command ran."""

    call_id: str
    files: int
    added: int
    """Lines added."""
    removed: int
    diff: str
    """The beginning of the unified diff."""
    is_cut: bool = False


@frozen
class Snapshot:
    """One folder at one moment. Paths are relative to it, spelled as in the file system."""

    tree: str
    """The id of a tree in the shadow repository."""
    empty: frozenset[str] = frozenset()
    """Empty folders, which a git tree cannot contain."""
    uncovered: Mapping[str, str] = field(default_factory=dict)
    """Files without a copy (too large, unreadable), with a stamp that changes when they do."""
    nested: frozenset[str] = frozenset()
    """Nested repositories, whose files are not part of this snapshot."""

    def is_foreign(self, path: str) -> bool:
        return any(path == name or path.startswith(f"{name}/") for name in self.nested)


class SnapshotError(Exception):
    """A snapshot could not be taken or read; the text is shown to the user."""


class TooManyFiles(SnapshotError):
    """The folder has too many files for snapshots."""


SNAPSHOT_SECONDS = 10.0


@frozen
class SnapshotLocation:
    """Where the snapshots of a session are stored."""

    state_dir: Path
    session_id: str
    search_path: str | None = None
    snapshot_seconds: float = SNAPSHOT_SECONDS
    """Maximum seconds that a call waits for its snapshot."""
    forked_from: str = ""
    """Id of the session that this one was forked from."""

    @property
    def folder(self) -> Path:
        return self.state_dir / "snapshots"

    @property
    def journal(self) -> Path:
        return self.folder / "sessions" / f"{self.session_id}.jsonl"


class Workspace:
    """Keeps the contents of files before calls that may change them, so that they can be undone.

    Most conversations change no files: the history, which does the work, is created before the first call that may.
    """

    def __init__(
        self,
        reason: str = "No copies of files are kept here, so nothing can be undone.",
        place: SnapshotLocation | None = None,
        may_warm: Callable[[], bool] = lambda: False,
    ) -> None:
        """`place`: where the copies are; None: none are kept, and `reason` says why."""
        self._reason = reason
        self._place = place
        self._may_warm = may_warm
        self._history: WorkspaceHistory | None = None
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

    def _open(self) -> WorkspaceHistory | None:
        if self._history is None and self._place is not None:
            from agentcli.workspace.history import WorkspaceHistory

            self._history = WorkspaceHistory(self._place)
            if self._prompt_id is not None:
                self._history.begin(self._prompt_id)
        return self._history

    @property
    def place(self) -> SnapshotLocation | None:
        """Where the copies of files are; None: none are kept."""
        return self._place

    def begin(self, prompt_id: str) -> None:
        """Call when a submission begins."""
        self._prompt_id = self._last_prompt = prompt_id
        self._end_is_due = False
        if self._history is not None:
            self._history.begin(prompt_id)

    async def warm(self, working_dirs: Sequence[Path]) -> None:
        """Prepare the first snapshot in advance, if that is allowed."""
        if self._may_warm() and (history := self._open()) is not None:
            await history.warm(working_dirs)

    async def find_gap(self, working_dirs: Sequence[Path], paths: Sequence[str]) -> str:
        """Why changes in these folders, or to one of these paths, could not be undone, as half a sentence; empty if
        they could, or if the user has switched undo off. Must not raise."""
        history = self._open()
        return "" if history is None else await history.find_gap(working_dirs, paths)

    def uncovered(self) -> tuple[Path, ...]:
        """Paths in the working directories that undo does not cover, without those that a tool can rebuild."""
        return self._history.uncovered() if self._history is not None else ()

    async def before_change(self, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        """Call right before a call that is not safe starts. Must be quick and must not raise."""
        if (history := self._open()) is None:
            return
        if self._prompt_id is None and not self._running and not self._end_is_due:
            # A background agent continues after the prompt that started it.
            history.begin(self._last_prompt)
            self._end_is_due = True
        self._running += 1
        try:
            await history.before_change(input, cwd, working_dirs)
        except BaseException:
            self._running -= 1
            raise

    async def after_change(
        self, only: Sequence[str] | None = None, background: bool = False, call_id: str = "", *, reports: bool = False
    ) -> bool:
        """Call when such a call has ended. Must not raise.

        It may have changed the paths in `only` and everything below them; None: any file. `background`: commands of the
        agent continue in the background. Changes until the next call are the user's. `reports`: `take_call_changes`
        returns what the call changed later. Returns whether there will be anything.

        Changes of overlapping calls are attributed together, when the last one has ended, and are not reported for a
        single call.
        """
        if self._history is None:
            return False
        self._running -= 1
        self._overlap |= bool(self._running)
        self._only = None if only is None or self._only is None else {*self._only, *only}
        if self._running:
            return False
        changed, self._only = self._only, set()
        overlap, self._overlap = self._overlap, False
        only = None if changed is None else sorted(changed)
        has_changes = await self._history.after_change(only, background, call_id, reports=reports and not overlap)
        if self._end_is_due and not self._running:
            self._end_is_due = False
            await self._history.end()
        return has_changes

    def take_call_changes(self) -> list[CallChanges]:
        """The changes of reported calls that are compared by now, each once."""
        return self._history.take_call_changes() if self._history is not None else []

    def before_user_command(self, command: str, only: Sequence[str] | None) -> None:
        """Call when the user runs a command of their own, possibly during a call.

        It may change the paths in `only`; None: any file.
        """
        if self._history is not None:
            self._history.before_user_command(command, only)

    def after_user_command(self) -> None:
        """Call when the user's command has ended."""
        if self._history is not None:
            self._history.after_user_command()

    async def end(self, hurry: bool = False) -> None:
        """Call when the submission is over; later changes are the user's. `hurry`: finish within a second, because the
        program is about to exit."""
        self._prompt_id = None
        if self._running and not hurry:
            self._end_is_due = True
        elif self._history is not None:
            await self._history.end(hurry)

    def take_notice(self) -> str | None:
        """The next message about changes that cannot be undone; each is returned once."""
        return self._history.take_notice() if self._history is not None else None

    async def changes(self) -> list[FileChange]:
        """Changes of the last submission that was not undone."""
        history = self._open()
        return [] if history is None else await history.changes()

    async def diff(self, scope: DiffScope, working_dirs: Sequence[Path]) -> WorkspaceDiff:
        """Changes as unified diffs. I/O errors are reported in `problem`, not raised."""
        if (history := self._open()) is None:
            return WorkspaceDiff(problem="No copies of files are kept here, so there is nothing to compare with.")
        return await history.diff(scope, working_dirs)

    async def undo(self, choices: UndoChoices | None = None) -> UndoReport:
        history = self._open()
        return UndoReport(False, self._reason) if history is None else await history.put_back(False, choices)

    async def redo(self, choices: UndoChoices | None = None) -> UndoReport:
        history = self._open()
        return UndoReport(False, self._reason) if history is None else await history.put_back(True, choices)

    async def plan(self, again: bool, choices: UndoChoices | None = None) -> UndoPlan:
        """The questions that an undo (`again`: a redo) would have beyond `choices`. Changes nothing."""
        history = self._open()
        return UndoPlan() if history is None else await history.plan(again, choices)

    async def submissions(self) -> Sequence[SubmissionRecord]:
        """All submissions that changed files, and restorations, in order."""
        history = self._open()
        return [] if history is None else await history.submissions()

    async def diff_trees(self, trees: Mapping[str, tuple[str, str]]) -> WorkspaceDiff:
        """The difference between two trees of each folder, as a call has left them."""
        history = self._open()
        return WorkspaceDiff(problem=self._reason) if history is None else await history.diff_trees(trees)

    async def diff_submissions(self, numbers: Collection[int]) -> WorkspaceDiff:
        """What the submissions with these numbers changed, without the user's changes."""
        history = self._open()
        return WorkspaceDiff(problem=self._reason) if history is None else await history.diff_submissions(numbers)

    async def restore_plan(
        self, since: int, choices: UndoChoices | None = None, instead: SubmissionRecord | None = None
    ) -> RestorePlan:
        """What restoring the files as they were before submission number `since` would do now. Changes nothing.
        `instead`: as in `RestoreMark`."""
        history = self._open()
        if history is None:
            return RestorePlan(WorkspaceDiff(problem=self._reason))
        return await history.restore_plan(since, choices or UndoChoices(), instead)

    async def restore(self, since: int, choices: UndoChoices, mark: RestoreMark) -> UndoReport:
        """Restore the files as they were before submission number `since`. The next `undo` reverts it."""
        history = self._open()
        return UndoReport(False, self._reason) if history is None else await history.restore(since, choices, mark)

    async def take_undo_news(self) -> list[UndoNews]:
        """The net effect of the undos and redos since the last call, which may have been made by an earlier process."""
        # Check the disk first: a session without changes has no journal.
        if self._place is None or (self._history is None and not self._place.journal.exists()):
            return []
        history = self._open()
        return [] if history is None else await history.take_undo_news()

    async def skip_undo_news(self) -> None:
        """Do not report the last undo to the model."""
        if (history := self._open()) is not None:
            await history.skip_undo_news()

    async def aclose(self) -> None:
        if self._history is not None:
            await self._history.aclose()
