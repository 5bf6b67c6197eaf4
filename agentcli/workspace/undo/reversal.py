"""The changes to reverse in one folder, file by file: the submission's own, without the user's.

The history of a file is a chain of states: before the submission, after each change that the user made while no call
ran, and at the end. The transitions in between are the submission's steps. Reads trees; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentcli.workspace.base import Snapshot
from agentcli.workspace.journal import EntryChange, UndoOutcome, UserChanges
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import ABSENT, Difference, TreeEntry


@dataclass(slots=True)
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
