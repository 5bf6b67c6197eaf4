"""Journal of a session's submissions and their snapshots, on disk so that a later process can undo them.

One file of JSON lines per session, appended to as things happen. A line that cannot be read is skipped: at worst a
submission cannot be undone. Owns the file and its format; takes no snapshots.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from agentcli.core.files.access import parse_json, read_bounded
from agentcli.core.frozen import frozen, slotted
from agentcli.workspace.base import RestoreMark, Snapshot, UndoChoices, UndoNews, UndoReport
from agentcli.workspace.trees import TreeEntry

Roots = dict[str, Snapshot]
EntryChange = tuple[TreeEntry, TreeEntry]
_MAX_NAMED = 500


@slotted
class UserChanges:
    """The user's changes in one folder while a submission ran. Paths are relative to the folder."""

    files: dict[str, EntryChange] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    """Empty folders that appeared."""
    gone: list[str] = field(default_factory=list)
    """Empty folders that disappeared."""
    doubtful: bool = False
    """Whether a command that ran at the time may have made these changes instead."""
    command: str = ""
    """That command, if known."""

    def __bool__(self) -> bool:
        return bool(self.files or self.made or self.gone)

    def without(self, root: str, choices: UndoChoices) -> UserChanges:
        """The changes that are still the user's after their choices; "replace" drops doubtful ones."""
        if not self.doubtful:
            return self
        files = {path: step for path, step in self.files.items() if choices.get(f"{root}/{path}") != "replace"}
        if choices.otherwise == "replace":
            return UserChanges(files, doubtful=True)
        return replace(self, files=files)


@slotted
class UndoOutcome:
    """Effects of an undo in one folder beyond restoring the snapshot."""

    files: dict[str, EntryChange] = field(default_factory=dict)
    untouched: set[str] = field(default_factory=set)
    """Files that the undo skipped."""
    unresolved: set[str] = field(default_factory=set)
    """Those of `untouched` that a choice of the user can still resolve."""


@frozen
class StagedChanges:
    """Index entries of one folder that a submission changed, by path relative to the folder."""

    index: str
    """Absolute path of the index file, without links."""
    head: str
    """The commit checked out then; empty before the first commit."""
    files: Mapping[str, EntryChange]


@frozen
class CallSpan:
    """What one call changed. Of calls that overlapped, the last one stands for all."""

    call_id: str
    trees: Mapping[str, tuple[str, str]]
    """The trees before and after it, by folder."""


@slotted
class SubmissionRecord:
    """The folders before and after one prompt."""

    number: int
    prompt_id: str
    before: Roots = field(default_factory=dict)
    after: Roots | None = None
    missed: list[str] = field(default_factory=list)
    """Messages about changes that cannot be undone."""
    user_changes: list[tuple[str, UserChanges]] = field(default_factory=list)
    """The user's changes with their folder, in the order in which they happened."""
    staged: dict[str, StagedChanges] = field(default_factory=dict)
    """By folder, the entries of git's index that it changed."""
    calls: list[CallSpan] = field(default_factory=list)
    """The calls that changed files, in order."""
    heads: dict[str, str] = field(default_factory=dict)
    """By folder, what git had checked out before it, as `describe_head` says."""
    restored: RestoreMark | None = None
    """Set if this is a restoration of an earlier state by the user, and no submission."""
    taken: RestoreMark | None = None
    """Set if these changes were made elsewhere, and the user took them in place of those since `RestoreMark.since`."""
    undone: bool = False
    told: bool = False
    """The value of `undone` that was reported to the model. A restoration begins as if it were an undone one."""
    put_back: dict[str, UndoOutcome] = field(default_factory=dict)
    """Outcome of the last undo, by folder."""
    news: UndoNews | None = None
    """Report of the last undo or redo."""
    dropped: bool = False
    """Whether it was undone and then followed by other changes, so that it cannot be redone."""

    @property
    def changes_of(self) -> str:
        """Id of the prompt that made the changes; "" for a restoration."""
        return self.prompt_id if self.restored is None else ""

    @property
    def changed(self) -> bool:
        if self.after is None:
            return False
        return bool(self.staged) or any(self.after.get(root) != was for root, was in self.before.items())

    def user_changes_in(self, root: str) -> list[UserChanges]:
        return [changes for where, changes in self.user_changes if where == root]


_MAX_SIZE = 64 * 1024 * 1024
"""Maximum bytes of one session's journal: more than a million submissions."""


class UndoJournal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.submissions: list[SubmissionRecord] = []
        self.last: SubmissionRecord | None = None
        """The submission of the last undo or redo, until another one changes files."""

    def inherit(self, other: Path) -> None:
        """Start with a copy of another session's journal, unless this one exists."""
        with contextlib.suppress(OSError), self._path.open("xb") as stream:
            self._path.chmod(0o600)
            stream.write(read_bounded(other, _MAX_SIZE) or b"")

    def load(self) -> None:
        for line in (read_bounded(self._path, _MAX_SIZE) or b"").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                self._apply(parse_json(line))

    def begin(self, prompt_id: str) -> SubmissionRecord:
        number = self.submissions[-1].number + 1 if self.submissions else 1
        submission = SubmissionRecord(number, prompt_id)
        self.submissions.append(submission)
        return submission

    def note_before(
        self, submission: SubmissionRecord, roots: Mapping[str, Snapshot], heads: Mapping[str, str]
    ) -> None:
        fields = {"roots": _roots_to_json(roots), "heads": dict(heads)}
        self._keep(submission, "before", prompt=submission.prompt_id, **fields)

    def note_after(self, submission: SubmissionRecord, roots: Mapping[str, Snapshot]) -> None:
        self._keep(submission, "after", roots=_roots_to_json(roots))

    def note_staged(self, submission: SubmissionRecord, root: str, staged: StagedChanges) -> None:
        files = _steps_to_json(staged.files)
        self._keep(submission, "staged", root=root, index=staged.index, head=staged.head, files=files)

    def note_missed(self, submission: SubmissionRecord, text: str) -> None:
        if text not in submission.missed:
            self._keep(submission, "missed", text=text)

    def note_call(self, submission: SubmissionRecord, call_id: str, trees: Mapping[str, tuple[str, str]]) -> None:
        self._keep(submission, "call", call=call_id, trees={root: list(pair) for root, pair in trees.items()})

    def note_user_changes(self, submission: SubmissionRecord, root: str, changes: UserChanges) -> None:
        fields = {
            "files": _steps_to_json(changes.files),
            "made": changes.made,
            "gone": changes.gone,
            "doubtful": changes.doubtful,
        }
        self._keep(submission, "user", root=root, **fields, command=changes.command)

    def note_undone(
        self, submission: SubmissionRecord, undone: bool, report: UndoReport, put_back: Mapping[str, UndoOutcome]
    ) -> None:
        roots = {
            root: {
                "files": _steps_to_json(done.files),
                "untouched": sorted(done.untouched),
                "unresolved": sorted(done.unresolved),
            }
            for root, done in put_back.items()
        }
        self._keep(submission, "undone" if undone else "redone", roots=roots, news=_news_to_json(report))

    def note_restored(self, submission: SubmissionRecord, mark: RestoreMark, report: UndoReport) -> None:
        """Record that a submission is a restoration, or has taken the place of others. `note_before` and `note_after`
        have its snapshots."""
        fields = {"rewinds": mark.rewinds, "conversation": mark.with_conversation, "since": mark.since}
        self._keep(submission, "restored", **fields, news=_news_to_json(report))

    def mark_told(self, submission: SubmissionRecord) -> None:
        """Do not report the last undo or redo to the model."""
        self._keep(submission, "told", undone=submission.undone)

    def take_news(self) -> list[UndoNews]:
        """The net effect of undos and redos since the last call."""
        news: list[UndoNews] = []
        for one in self.submissions:
            if one.undone != one.told:
                self.mark_told(one)
                if one.news is not None and (one.news.restored or one.news.deleted):
                    news.append(one.news)
        return news

    def _keep(self, submission: SubmissionRecord, kind: str, **fields: Any) -> None:
        record = {"type": kind, "n": submission.number, **fields}
        self._apply(record)
        data = json.dumps(record).encode() + b"\n"
        # Without the file, undo still works in this process.
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)

    def _apply(self, record: dict[str, Any]) -> None:
        number = int(record["n"])
        submission = next((one for one in reversed(self.submissions) if one.number == number), None)
        if submission is None:
            submission = SubmissionRecord(number, str(record.get("prompt", "")))
            self.submissions.append(submission)
        match record["type"]:
            case "before":
                submission.before |= _roots_from_json(record["roots"])
                submission.heads = {**record.get("heads", {}), **submission.heads}
            case "after":
                submission.after = _roots_from_json(record["roots"])
                if submission.changed:
                    self.last = None
                    for earlier in self.submissions:
                        earlier.dropped = earlier.dropped or (earlier.undone and earlier is not submission)
            case "staged":
                changes = StagedChanges(str(record["index"]), str(record["head"]), _steps(record["files"]))
                submission.staged[str(record["root"])] = changes
            case "call":
                trees = {str(root): (str(before), str(after)) for root, (before, after) in record["trees"].items()}
                submission.calls.append(CallSpan(str(record["call"]), trees))
            case "missed":
                submission.missed.append(str(record["text"]))
            case "user":
                folders = list(record["made"]), list(record["gone"])
                doubt = bool(record["doubtful"]), str(record["command"])
                made = UserChanges(_steps(record["files"]), *folders, *doubt)
                submission.user_changes.append((str(record["root"]), made))
            case "undone" | "redone" as kind:
                self.last = submission
                submission.undone = kind == "undone"
                self._apply_put_back(submission, record)
            case "restored":
                with_conversation, since = bool(record["conversation"]), int(record.get("since", 0))
                mark = RestoreMark(submission.prompt_id, int(record["rewinds"]), with_conversation, since=since)
                if since:
                    submission.taken = mark
                    return
                submission.restored = mark
                submission.told = not with_conversation
                submission.news = _news(submission, record)
            case "told":
                submission.told = bool(record["undone"])

    def _apply_put_back(self, submission: SubmissionRecord, record: Mapping[str, Any]) -> None:
        submission.put_back = {
            root: UndoOutcome(_steps(one["files"]), set(one["untouched"]), set(one["unresolved"]))
            for root, one in record["roots"].items()
        }
        submission.news = _news(submission, record)

    # ------------------------------------------------------------------------------------------------- selection

    def open_ended(self) -> list[SubmissionRecord]:
        """Submissions without an end, because the process was killed."""
        return [one for one in self.submissions if one.before and one.after is None]

    def to_undo(self) -> list[SubmissionRecord]:
        """Submissions that can be undone, latest first."""
        return [one for one in reversed(self.submissions) if one.changed and not one.undone]

    def to_redo(self) -> list[SubmissionRecord]:
        """Submissions that can be redone, last undone first."""
        return [one for one in self.submissions if one.undone and not one.dropped]

    def unresolved(self, again: bool) -> SubmissionRecord | None:
        """The submission whose last undo (`again`: redo) skipped files that a choice can resolve."""
        last = self.last
        if last is None or last.undone == again or not any(one.unresolved for one in last.put_back.values()):
            return None
        return last


def _news(submission: SubmissionRecord, record: Mapping[str, Any]) -> UndoNews:
    named = {name: tuple(map(str, record["news"][name])) for name in ("restored", "deleted", "kept", "merged")}
    return UndoNews(submission.prompt_id, not submission.undone, **named, is_restore=submission.restored is not None)


def _news_to_json(report: UndoReport) -> dict[str, list[str]]:
    return {
        "restored": list(report.restored[:_MAX_NAMED]),
        "deleted": list(report.deleted[:_MAX_NAMED]),
        "kept": [kept.path for kept in report.kept[:_MAX_NAMED]],
        "merged": list(report.merged[:_MAX_NAMED]),
    }


def _steps(data: Mapping[str, Any]) -> dict[str, EntryChange]:
    return {str(path): (TreeEntry(str(a), str(b)), TreeEntry(str(c), str(d))) for path, (a, b, c, d) in data.items()}


def _steps_to_json(files: Mapping[str, EntryChange]) -> dict[str, list[str]]:
    return {path: [one.mode, one.oid, two.mode, two.oid] for path, (one, two) in files.items()}


def _roots_to_json(roots: Mapping[str, Snapshot]) -> dict[str, Any]:
    return {
        root: {
            "tree": snapshot.tree,
            "empty": sorted(snapshot.empty),
            "uncovered": dict(snapshot.uncovered),
            "nested": sorted(snapshot.nested),
        }
        for root, snapshot in roots.items()
    }


def _roots_from_json(data: Mapping[str, Any]) -> Roots:
    return {
        root: Snapshot(
            str(one["tree"]),
            frozenset(one["empty"]),
            dict(one["uncovered"]),
            frozenset(one["nested"]),
        )
        for root, one in data.items()
    }
