"""What has to be taken back in one folder, file by file: the submission's own changes, without the user's.

A file's past is a chain: as it was before the submission, what the user made of it while no call ran, as it was at the
end. The links between are the submission's steps. Reads trees; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentcli.workspace.base import Snapshot
from agentcli.workspace.journal import PutBack, Step, UserChanges
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import ABSENT, Difference, Entry


@dataclass(slots=True)
class Way:
    """How to take one folder from the state `left` to the state `wanted`. Paths are relative to the folder."""

    shadow: Shadow
    left: Snapshot
    wanted: Snapshot
    before: Snapshot
    """Which of the two was first."""
    differences: dict[str, Difference] = field(default_factory=dict)
    """From `left` to `wanted`."""
    steps: dict[str, list[Step]] = field(default_factory=dict)
    """Changes to take back, by path, the first one first."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """The same paths as they are in `left`."""
    user_made: frozenset[str] = frozenset()
    """Empty folders that the user made."""
    user_gone: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    """Files that may be the user's: they changed while a command ran."""


async def way_back(shadow: Shadow, was: Snapshot, became: Snapshot, users: Sequence[UserChanges]) -> Way:
    """For an undo. `users` are the user's changes meanwhile, in order."""
    way = Way(shadow, became, was, was, await shadow.compare(became.tree, was.tree))
    touched = list(dict.fromkeys(path for one in users for path in one.files))
    unchanged = await shadow.entries(was.tree, [path for path in touched if path not in way.differences])
    for path in (*way.differences, *(path for path in touched if path not in way.differences)):
        difference = way.differences.get(path)
        first = difference.after if difference else unchanged.get(path, ABSENT)
        last = difference.before if difference else first
        way.entries[path] = last
        steps = own_steps(first, last, [one.files[path] for one in users if path in one.files])
        if steps:
            way.steps[path] = steps
    way.user_made = frozenset(name for one in users for name in one.made)
    way.user_gone = frozenset(name for one in users for name in one.gone)
    way.doubtful = frozenset(path for one in users if one.doubtful for path in one.files)
    return way


def own_steps(first: Entry, last: Entry, users: Iterable[Step]) -> list[Step]:
    """What the submission did to a file between its first and its last state, around what the user did to it."""
    steps: list[Step] = []
    at = first
    for began, ended in users:
        if at != began:
            steps.append((at, began))
        at = ended
    if at != last:
        steps.append((at, last))
    return steps


async def way_again(shadow: Shadow, was: Snapshot, became: Snapshot, done: PutBack) -> Way:
    """For a redo: `done` is what the undo did besides putting everything back."""
    way = Way(shadow, was, became, was, await shadow.compare(was.tree, became.tree))
    others = [path for path in done.files if path not in way.differences]
    unchanged = await shadow.entries(was.tree, others)
    for path, difference in way.differences.items():
        if path not in done.untouched:
            way.entries[path] = difference.before
            way.steps[path] = [(difference.after, difference.before)]
    for path, step in done.files.items():
        found = way.differences.get(path)
        way.entries[path] = found.before if found else unchanged.get(path, ABSENT)
        way.steps[path] = [step]
    return way
