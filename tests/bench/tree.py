"""`@` completion and Glob in trees on the disk: `python -m tests.bench.tree 10000 1000000` for these sizes.

For each size: from the key to the first answer while nothing is listed yet, to the complete one, the longest gap of the
event loop meanwhile, the memory of the index. Without git, and in a repository whose ignore rules leave out a third.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentcli.core.abort import AbortController
from agentcli.interactive.completion.sources import IndexedFiles
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.search.file_index import FileIndex
from agentcli.tools.search.glob import Glob
from tests.bench.index import synthetic_paths
from tests.bench.loop_gaps import LoopGaps, resident_megabytes
from tests.bench.measure import Measure, Report

SIZES = (10_000, 100_000)
QUERY = "engine"
IGNORED = "agent/\ntool*/\n*.tsx\nbilling*\n"


def tree(runs: int, sizes: Sequence[int] = SIZES) -> Report:
    measures: list[Measure] = []
    for size in sizes:
        with disk_tree(size) as folder:
            for name in ("", ", ignore rules"):
                if name:
                    (folder / ".git").mkdir()
                    (folder / ".gitignore").write_text(IGNORED)
                label = f"{size:,} files{name}: "
                baseline = f"{sizes[0]:,} files{name}: " if size != sizes[0] else None
                measures += asyncio.run(_measured(runs, folder, label, baseline))
    return Report("tree: finding files on the disk", tuple(measures))


@contextmanager
def disk_tree(count: int) -> Iterator[Path]:
    """A folder with so many empty files in a tenth as many folders."""
    folder = Path(tempfile.mkdtemp(prefix="agentcli-bench-"))
    made: set[str] = set()
    try:
        for path in synthetic_paths(count):
            parent = path[: path.rindex("/")]
            if parent not in made:
                (folder / parent).mkdir(parents=True, exist_ok=True)
                made.add(parent)
            (folder / path).touch()
        yield folder
    finally:
        shutil.rmtree(folder)


async def _measured(runs: int, folder: Path, label: str, baseline: str | None) -> list[Measure]:
    context = ToolContext(cwd=folder, working_dirs=(folder,), environ={"PATH": "/usr/bin:/bin"})
    values: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        values.setdefault(name, []).append(value)

    for _run in range(runs):
        for name, value in (await _completed(context)).items():
            add(name, value)
        async with LoopGaps() as gaps:
            began = time.perf_counter()
            await _globbed(context)
            add("Glob **/*.py, ms", (time.perf_counter() - began) * 1000)
            add("Glob, Esc to its end, ms", await _stopped(context))
        add("Glob, longest gap of the loop, ms", gaps.longest)
    budgets = {
        "key to the first answer, ms": 100.0,
        "completion, longest gap of the loop, ms": 50.0,
        "Glob, longest gap of the loop, ms": 50.0,
        "Glob, Esc to its end, ms": 100.0,
    }
    measures = []
    for name, found in values.items():
        what, unit = name.rsplit(", ", 1)
        before = None if baseline is None else f"{baseline}{what}"
        measures.append(Measure(label + what, tuple(found), unit, budgets.get(name), "median", before))
    return measures


async def _completed(context: ToolContext) -> dict[str, float]:
    """An `@` with a name behind it, until all files were listed and searched."""
    index = FileIndex(context)
    source = IndexedFiles(lambda: index)
    before = resident_megabytes()
    async with LoopGaps() as gaps:
        began = time.perf_counter()
        found = await source.files(QUERY, 50)
        first = time.perf_counter() - began
        while not found.is_complete:
            await asyncio.sleep(0.05)
            found = await source.files(QUERY, 50)
        complete = time.perf_counter() - began
    await source.aclose()
    assert len(index)
    return {
        "key to the first answer, ms": first * 1000,
        "key to the complete answer, ms": complete * 1000,
        "completion, longest gap of the loop, ms": gaps.longest,
        "memory of the index, MB": max(0.0, resident_megabytes() - before),
        "paths, count": float(len(index)),
    }


async def _globbed(context: ToolContext) -> None:
    with AbortController() as controller:
        run = Glob().run({"pattern": "**/*.py"}, context, controller.signal)
        results = [each async for each in run if isinstance(each, Output)]
    assert not results[0].is_error


async def _stopped(context: ToolContext) -> float:
    """Milliseconds from Esc to the end of the tool."""
    with AbortController() as controller:

        async def consume() -> None:
            async for _each in Glob().run({"pattern": "**/*"}, context, controller.signal):
                pass

        running = asyncio.get_running_loop().create_task(consume())
        await asyncio.sleep(0.03)
        began = time.perf_counter()
        controller.abort()
        await running
        return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    print(tree(2, [int(size) for size in sys.argv[1:]] or SIZES))
