"""One undo or redo, folder by folder: compares what is there with what was left, and puts back what still fits.

A file is put back only while it is exactly as the submission left it. One that has changed since is the person's: it
is reported and stays. Redo is the same with the two states exchanged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from agentcli.workspace.base import Kept, Snapshot, SnapshotError, UndoReport
from agentcli.workspace.restore import Plan, Restoring, parents
from agentcli.workspace.shadow import Shadow, in_thread
from agentcli.workspace.trees import Difference, Entry
from agentcli.workspace.uncovered import disk_stamp, uncovered_changes, why_uncovered

_CHANGED = "it was changed since"
_IGNORED = "it is ignored, so whether it was there before is not known"


@dataclass(slots=True)
class Undoing:
    prompt_id: str
    restored: list[str] = field(default_factory=list)
    recreated: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    async def check(self, shadow: Shadow, *snapshots: Snapshot) -> None:
        """Raises `SnapshotError` where something that is needed is not there any more."""
        await in_thread(shadow.make_root)
        for snapshot in snapshots:
            if not await shadow.holds(snapshot.tree):
                raise SnapshotError(f"the copies of {shadow.root} are too old and were thrown away")

    async def folder(self, shadow: Shadow, left: Snapshot, wanted: Snapshot, before: Snapshot, seconds: float) -> None:
        """Take one folder from the state `left` to the state `wanted`, one of which is `before`.

        Raises `SnapshotError` before any change; `check` all folders first."""
        now = await shadow.take(seconds)
        since = await shadow.compare(left.tree, now.tree)
        kept: dict[str, str] = {}
        write: dict[str, Entry] = {}
        remove: list[str] = []
        ways = await shadow.compare(left.tree, wanted.tree)
        for path, one in ways.items():
            if before.is_foreign(path) or path in left.uncovered or path in wanted.uncovered:
                continue
            if path in since and (since[path].after == one.after):
                continue
            if path in since or path in now.uncovered:
                kept[path] = _CHANGED
            elif one.after.exists:
                write[path] = one.after
            else:
                remove.append(path)
        restoring = Restoring(shadow.root)
        unsure = await self._unsure(shadow, restoring, write, remove)
        kept |= dict.fromkeys(unsure, _IGNORED)
        remove = [path for path in remove if path not in unsure]
        await self._apply(shadow, restoring, left, wanted, write, remove)
        kept |= restoring.problems
        where = shadow.root
        self.restored += [str(where / path) for path in sorted(write) if path not in restoring.problems]
        self.deleted += [str(where / path) for path in sorted(remove) if path not in restoring.problems]
        self.recreated += [
            str(where / path)
            for path in sorted(write)
            if path not in restoring.problems and not ways[path].before.exists
        ]
        self.kept += [Kept(str(where / path), reason) for path, reason in sorted(kept.items())]
        self.kept += await self._without_copy(shadow, left, wanted, before, ways, since)

    async def _without_copy(
        self, shadow: Shadow, left: Snapshot, wanted: Snapshot, before: Snapshot, ways: Mapping[str, Difference],
        since: Mapping[str, Difference],
    ) -> list[Kept]:  # fmt: skip
        """What the submission did and nobody can take back, but for what is already as it is wanted."""
        root = shadow.root

        def found() -> list[Kept]:
            back = before is wanted
            done = {path: way.turned() for path, way in ways.items()} if back else ways
            kept = []
            for path, kind in uncovered_changes(root, before, left if back else wanted, done).items():
                way = ways.get(path)
                if path in wanted.uncovered:
                    as_wanted = disk_stamp(root / path) == wanted.uncovered[path]
                elif way is not None and way.after.exists:
                    as_wanted = path in since and since[path].after == way.after
                else:
                    as_wanted = not os.path.lexists(root / path)
                if not as_wanted:
                    reason = why_uncovered((left.uncovered.get(path), wanted.uncovered.get(path)))
                    kept.append(Kept(str(root / path), reason, kind))
            return kept

        return await in_thread(found)

    async def _unsure(
        self, shadow: Shadow, restoring: Restoring, write: dict[str, Entry], remove: list[str]
    ) -> set[str]:
        """Files to remove that the old ignore files leave out: no snapshot could see whether they were there before.

        To find out, the old ignore files are put back first."""
        rules = {path: entry for path, entry in write.items() if path.rpartition("/")[2] == ".gitignore"}
        if not rules or not remove:
            return set()
        async for files in shadow.old_files(rules):
            await in_thread(partial(restoring.write, files))
        return await shadow.ignored(remove)

    async def _apply(
        self, shadow: Shadow, restoring: Restoring, left: Snapshot, wanted: Snapshot, write: dict[str, Entry],
        remove: list[str],
    ) -> None:  # fmt: skip
        folders = set(await shadow.folders(wanted.tree)) | wanted.empty
        folders |= {parent for path in wanted.empty for parent in parents(path)}
        plan = Plan(
            remove=remove,
            folders_before=frozenset(folders),
            empty_gone=sorted(left.empty - folders),
            empty_back=sorted(wanted.empty - left.empty),
        )
        await in_thread(lambda: restoring.clear(plan))
        async for files in shadow.old_files(write):
            await in_thread(partial(restoring.write, files))
        await in_thread(lambda: restoring.make_folders(plan.empty_back))

    def report(self, missed: Sequence[str]) -> UndoReport:
        return UndoReport(
            done=True,
            text=" ".join(missed),
            prompt_id=self.prompt_id,
            restored=tuple(self.restored),
            recreated=tuple(self.recreated),
            deleted=tuple(self.deleted),
            kept=tuple(self.kept),
        )
