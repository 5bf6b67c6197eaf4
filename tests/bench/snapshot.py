"""What a snapshot costs: the first one in a tree, one where nothing changed, and one after a small change."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.workspace.base import SnapshotLocation
from agentcli.workspace.history import WorkspaceHistory
from tests.bench.measure import Measure, Report

PER_FOLDER = 50


def snapshot(runs: int, sizes: tuple[int, ...] = (5_000, 20_000)) -> Report:
    measures: list[Measure] = []
    for files in sizes:
        with TemporaryDirectory(prefix="agentcli-bench-") as folder:
            root = Path(os.path.realpath(folder)) / "project"
            _plant(root, files)
            first, same, changed = asyncio.run(_measure(root, runs))
        budget = 100.0 if files <= 5_000 else None
        measures += [
            Measure(f"{files:,} files: the first snapshot", (first,)),
            Measure(f"{files:,} files: nothing changed", tuple(same), budget=budget),
            Measure(f"{files:,} files: one file changed", tuple(changed), budget=budget),
        ]
    return Report("snapshot: a copy before every call that may write", tuple(measures))


def _plant(root: Path, files: int) -> None:
    rng = random.Random(7)
    for number in range(files):
        folder = root / f"part{number // PER_FOLDER % 20}" / f"folder{number // PER_FOLDER}"
        if number % PER_FOLDER == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number}.py").write_text(f"value = {number}\n" * rng.randrange(10, 200))


async def _measure(root: Path, runs: int) -> tuple[float, list[float], list[float]]:
    history = WorkspaceHistory(
        SnapshotLocation(root.parent / "state", "bench", os.environ["PATH"], snapshot_seconds=120)
    )
    same: list[float] = []
    changed: list[float] = []
    try:
        history.begin("prompt")
        first = await _timed(history, root)
        for number in range(runs):
            same.append(await _timed(history, root))
            (root / "part1" / "folder1" / f"file{PER_FOLDER}.py").write_text(f"changed = {number}\n")
            changed.append(await _timed(history, root))
        await history.end()
        assert history.take_notice() is None
    finally:
        await history.aclose()
    return first, same, changed


async def _timed(history: WorkspaceHistory, root: Path) -> float:
    began = time.perf_counter()
    await history.before_change({}, root, [root])
    return (time.perf_counter() - began) * 1000
