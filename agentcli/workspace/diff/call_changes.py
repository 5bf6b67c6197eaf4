"""What single commands changed, compared in the background: no call waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from agentcli.core.aio import cancel_and_wait, in_thread, start_task
from agentcli.core.text.unified_diff import parse_files
from agentcli.workspace.base import CallChanges, Snapshot, SnapshotError
from agentcli.workspace.shadow import Shadow
from agentcli.workspace.trees import TreeEntry

SHOWN_CHARACTERS = 64 * 1024
"""Characters of a diff that are kept."""
_COMPARED_BYTES = 1024 * 1024
"""Bytes of a diff that are read, for the numbers of lines."""

Find = Callable[[Path], Awaitable[Shadow]]


class CallComparisons:
    """Compares folders before and after a command. `find` returns the shadow repository of a folder."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: list[CallChanges] = []

    def compare(self, call_id: str, before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]) -> bool:
        """Start comparing all files; returns at once whether any has changed."""
        changed = [root for root in before.keys() & after.keys() if before[root].tree != after[root].tree]
        if changed:
            self._start(self._diffs(call_id, {root: (before[root].tree, after[root].tree) for root in sorted(changed)}))
        return bool(changed)

    def compare_written(
        self, call_id: str, before: Mapping[str, Snapshot], written: Mapping[str, Mapping[str, TreeEntry]]
    ) -> bool:
        """Start comparing the files that a command has written; returns at once whether there are any."""
        if any(written.values()):
            self._start(self._written(call_id, before, written))
        return any(written.values())

    def take(self) -> list[CallChanges]:
        """Take the changes that are ready, each once."""
        ready, self._ready = self._ready, []
        return ready

    async def finish(self, seconds: float) -> None:
        """Wait for the comparisons; those that take longer are dropped."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            await self.aclose()

    async def aclose(self) -> None:
        await cancel_and_wait(list(self._tasks))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_task(work, name="compare a command's files")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _written(
        self, call_id: str, before: Mapping[str, Snapshot], written: Mapping[str, Mapping[str, TreeEntry]]
    ) -> None:
        trees = {}
        try:
            for root, entries in written.items():
                shadow = await self._find(Path(root))
                old = await shadow.entries(before[root].tree, sorted(entries))
                changed = {path: entry for path, entry in entries.items() if old.get(path) != entry}
                kept = {path: entry for path, entry in old.items() if path in changed}
                trees[root] = (await shadow.tree_of(kept), await shadow.tree_of(changed))
        except (SnapshotError, OSError):
            return
        await self._diffs(call_id, trees)

    async def _diffs(self, call_id: str, trees: Mapping[str, tuple[str, str]]) -> None:
        parts = []
        try:
            for root, (old, new) in trees.items():
                if old != new:
                    parts.append(await (await self._find(Path(root))).patch(old, new, _COMPARED_BYTES))
        except (SnapshotError, OSError):
            return
        if changes := await in_thread(lambda: _counted(call_id, "".join(parts))):
            self._ready.append(changes)


def _counted(call_id: str, diff: str) -> CallChanges | None:
    files = [file for file in parse_files(diff) if file.path]
    if not files:
        return None
    end = diff.rfind("\n", 0, SHOWN_CHARACTERS) + 1 if len(diff) > SHOWN_CHARACTERS else len(diff)
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    return CallChanges(call_id, len(files), added, removed, diff[:end], len(diff) > end)
