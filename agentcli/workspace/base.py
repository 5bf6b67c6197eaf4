"""The values of the workspace: what changed, and what an undo did. Owns no files and runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from agentcli.core.frozen import frozen

ChangeKind = Literal["added", "modified", "deleted"]
Choice = Literal["keep", "replace"]
"""For lines that both the user and the submission changed: keep them as they are now, or replace them."""
DiffScope = Literal["session", "prompt", "all"]
"""What the agent changed in this session, what the last prompt changed, or how the work tree differs from HEAD."""


@frozen
class FileChange:
    path: str
    """Absolute."""
    kind: ChangeKind
    added: int | None
    """Lines; None for what is not text."""
    removed: int | None
    note: str = ""
    """What there is to know of it instead of numbers: half a sentence for people."""
    certain: bool = True
    """False: no snapshot could see whether this happened, `note` says why."""


@frozen
class FolderDiff:
    """The changes in one folder as a unified diff that git wrote."""

    root: str
    """Absolute; the names in `text` are relative to it."""
    text: str
    notes: tuple[FileChange, ...] = ()
    """What is to know of files beyond their lines, above all of those that no copy is kept of."""
    cut: bool = False
    """Whether the diff was longer than what is read of one."""


@frozen
class WorkspaceDiff:
    folders: tuple[FolderDiff, ...] = ()
    problem: str = ""
    """Why there is no diff, as a sentence."""


@frozen
class Kept:
    """A file that was left alone, and why: half a sentence for people."""

    path: str
    reason: str
    kind: ChangeKind | None = None
    """What the submission did to a file of which no copy was kept: it stays done."""
    is_open: bool = False
    """A `Choice` would decide what becomes of it."""


@frozen
class LineClash:
    """Lines that both the user and the submission changed. Text is decoded, with replacement characters."""

    line: int
    """Number of the first one in the file as it is now; 0 if the whole file clashes."""
    now: str
    replaced: str
    """What `Choice` "replace" puts there."""


@frozen
class Conflict:
    """A file that cannot be put back without a choice."""

    path: str
    clashes: tuple[LineClash, ...]
    """Empty for what is not text: links and binary files."""
    exists: bool = True
    """Whether the file would be there after "replace"."""


@frozen
class UndoPlan:
    """What an undo or redo would ask about. `prompt_id` is the message that began the submission."""

    prompt_id: str = ""
    conflicts: tuple[Conflict, ...] = ()
    doubtful: tuple[str, ...] = ()
    """Files that changed while a command ran, by the command or by the user: absolute paths."""
    commands: tuple[str, ...] = ()
    """The commands that ran then, as far as they are known."""


@frozen
class Choices:
    """How to resolve conflicts: by absolute path, and for all other files. None: leave such a file alone."""

    by_path: Mapping[str, Choice] = field(default_factory=dict)
    otherwise: Choice | None = None

    def get(self, path: str) -> Choice | None:
        return self.by_path.get(path, self.otherwise)


@frozen
class UndoReport:
    """What became of an undo or redo. Paths are absolute."""

    done: bool
    """False: there was nothing to put back, or no way to; `text` says which."""
    text: str = ""
    prompt_id: str = ""
    """The message that began the submission."""
    restored: tuple[str, ...] = ()
    """Files with their old content again."""
    recreated: tuple[str, ...] = ()
    """Those of `restored` that were not there."""
    deleted: tuple[str, ...] = ()
    """Files that were not there before, and are gone again."""
    kept: tuple[Kept, ...] = ()
    merged: tuple[str, ...] = ()
    """Those of `restored` in which the user's own changes were kept."""

    @property
    def touched(self) -> tuple[str, ...]:
        return (*self.restored, *self.deleted)


@frozen
class UndoNews:
    """An undo or redo that the model has not been told about: the net effect on one submission."""

    prompt_id: str
    again: bool
    """True: the changes are there again."""
    restored: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@frozen
class Snapshot:
    """One folder at one moment. Paths are relative to it, as the file system spells them."""

    tree: str
    """The id of a tree in the shadow repository."""
    empty: frozenset[str] = frozenset()
    """Folders with nothing in them: a tree cannot hold those."""
    uncovered: Mapping[str, str] = field(default_factory=dict)
    """Files without a copy (too large, unreadable), with a stamp that changes when they do."""
    nested: frozenset[str] = frozenset()
    """Repositories inside, whose files are not part of this snapshot."""

    def is_foreign(self, path: str) -> bool:
        """Whether a path belongs to a repository inside."""
        return any(path == name or path.startswith(f"{name}/") for name in self.nested)


class SnapshotError(Exception):
    """A snapshot could not be taken or read; the text is a sentence for people."""


class TooManyFiles(SnapshotError):
    """A folder that is too much for snapshots."""
