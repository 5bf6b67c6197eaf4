"""The agent's changes in one folder, over several submissions, as one diff.

A submission's changes are the difference between the snapshots before and after it; changes that the user made between
submissions are in neither. A file that several submissions changed is compared once, from before the first to after the
last. If the user changed it in between, or while a submission ran, each period is compared separately, so that no
change of the user is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from agentcli.core.aio import in_thread
from agentcli.workspace.base import ChangeKind, FileChange, FolderDiff, Snapshot
from agentcli.workspace.journal import EntryChange, UserChanges
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import Difference, TreeEntry
from agentcli.workspace.uncovered import uncovered_changes, why_uncovered
from agentcli.workspace.undo.restore import parents
from agentcli.workspace.undo.reversal import agent_steps

SubmissionSpan = tuple[Snapshot, Snapshot, Sequence[UserChanges]]
"""A folder before and after a submission, and the user's changes meanwhile."""
Stretch = tuple[TreeEntry, TreeEntry]
DIFF_LIMIT = 32 * 1024 * 1024
"""Maximum bytes of a diff."""


async def agent_diff(shadow: Shadow, spans: Sequence[SubmissionSpan]) -> FolderDiff:
    """The diff of one folder over these submissions. Raises `SnapshotError`."""
    stretches: dict[str, list[Stretch]] = {}
    notes: dict[str, FileChange] = {}
    for before, after, users in spans:
        trees, own = _own(await shadow.compare(before.tree, after.tree), users)
        for path, steps in own.items():
            if not is_without_copy(path, before, after):
                for step in steps:
                    _extend(stretches.setdefault(path, []), step)
        for change in await changes_without_lines(shadow, before, after, trees):
            _merge(notes, change)
    parts: list[str] = []
    room = DIFF_LIMIT
    for layer in _layers(stretches):
        old, new = await _trees(shadow, layer)
        if room > 0:
            parts.append(await shadow.patch(old, new, room))
            room -= len(parts[-1].encode())
    return FolderDiff(str(shadow.root), "".join(parts), tuple(notes.values()), room <= 0)


async def agent_changes(shadow: Shadow, span: SubmissionSpan) -> list[FileChange]:
    """The changes of one submission, with numbers of lines. Raises `SnapshotError`."""
    before, after, users = span
    trees, own = _own(await shadow.compare(before.tree, after.tree, numbers=True), users)
    lines = {path: (one.added, one.removed) for path, one in trees.items()}
    mixed = {path: own[path] for path in trees if any(path in one.files for one in users)}
    lines |= dict.fromkeys(mixed, (0, 0))
    for layer in _layers(mixed):
        old, new = await _trees(shadow, layer)
        for path, one in (await shadow.compare(old, new, numbers=True)).items():
            added, removed = lines[path]
            lines[path] = _sum(added, one.added), _sum(removed, one.removed)
    found = {
        path: FileChange(str(shadow.root / path), one.kind, *lines[path])
        for path, one in trees.items()
        if not is_without_copy(path, before, after)
    }
    found |= {
        Path(one.path).relative_to(shadow.root).as_posix(): one
        for one in await changes_without_lines(shadow, before, after, trees)
    }
    return [change for _path, change in sorted(found.items())]


async def _trees(shadow: Shadow, layer: Mapping[str, Stretch]) -> tuple[str, str]:
    old = await shadow.tree_of({path: one for path, (one, _new) in layer.items() if one.exists})
    new = await shadow.tree_of({path: one for path, (_old, one) in layer.items() if one.exists})
    return old, new


def _sum(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two


def _own(
    trees: Mapping[str, Difference], users: Sequence[UserChanges]
) -> tuple[dict[str, Difference], dict[str, list[EntryChange]]]:
    """The files that the submission changed, and its own steps in each, without the user's."""
    steps = {
        path: agent_steps(one.before, one.after, [user.files[path] for user in users if path in user.files])
        for path, one in trees.items()
    }
    own = {path: found for path, found in steps.items() if found}
    return {path: one for path, one in trees.items() if path in own}, own


def is_without_copy(path: str, before: Snapshot, after: Snapshot) -> bool:
    """Whether a path belongs to a nested repository, or one of the snapshots has no copy of it."""
    return before.is_foreign(path) or path in before.uncovered or path in after.uncovered


async def changes_without_lines(
    shadow: Shadow, before: Snapshot, after: Snapshot, trees: Mapping[str, Difference]
) -> list[FileChange]:
    """Changed files without a copy."""
    root = shadow.root
    found = []
    for path, kind in (await in_thread(partial(uncovered_changes, root, before, after, trees))).items():
        note = why_uncovered((before.uncovered.get(path), after.uncovered.get(path)))
        found.append(FileChange(str(root / path), kind, None, None, note))
    return found


def _extend(stretches: list[Stretch], step: EntryChange) -> None:
    """Add a change of a path; join it with the previous one if it starts where that ended."""
    before, after = step
    if stretches and _same(stretches[-1][1], before):
        stretches[-1] = stretches[-1][0], after
    else:
        stretches.append((before, after))


def _same(one: TreeEntry, other: TreeEntry) -> bool:
    return one == other or not (one.exists or other.exists)


def _layers(stretches: Mapping[str, Sequence[Stretch]]) -> list[dict[str, Stretch]]:
    """Group periods into pairs of trees: each path once, and no file where another path has a folder."""
    layers: list[dict[str, Stretch]] = []
    folders: list[set[str]] = []
    for path, found in sorted(stretches.items()):
        above = set(parents(path))
        place = 0
        for stretch in found:
            if _same(*stretch):
                continue
            while place < len(layers) and (path in folders[place] or not above.isdisjoint(layers[place])):
                place += 1
            if place == len(layers):
                layers.append({})
                folders.append(set())
            layers[place][path] = stretch
            folders[place] |= above
            place += 1
    return layers


def _merge(notes: dict[str, FileChange], change: FileChange) -> None:
    known = notes.pop(change.path, None)
    kind: ChangeKind = change.kind
    if known is not None and known.kind == "added":
        if kind == "deleted":
            return
        kind = "added"
    notes[change.path] = FileChange(change.path, kind, None, None, change.note)
