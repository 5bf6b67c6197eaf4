"""Much output of a command through Bash: `python -m tests.bench.output 100 1000` for these megabytes.

For each kind of output and size: the time against a bare reader of the same pipe, the longest gap of the event loop,
the memory that the process has more than before, the time from Esc to the end of the call. Sizes are compared with the
smallest one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Self

from agentcli.core.abort import AbortController
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.shell.background import Shells
from agentcli.tools.shell.bash import Bash
from tests.bench.loop_gaps import LoopGaps, resident_megabytes
from tests.bench.measure import Measure, Report

SIZES = (20, 200)
MEGABYTE = 1024 * 1024
_LINE = "a line of output that is about as long as those of a compiler usually are, with some more words"
KINDS = {
    "short lines": "yes",
    "long lines": f"yes '{_LINE * 80}'",
    "no line break": "yes '' | tr '\\n' x",
    "colours": f"yes \"$(printf '\\033[32mok\\033[0m {_LINE}')\"",
    "binary": "cat /dev/zero",
}


def output(runs: int, sizes: Sequence[int] = SIZES, kinds: Sequence[str] = tuple(KINDS)) -> Report:
    """Each time as a ratio to the bare reader, so that sizes can be compared."""
    measures: list[Measure] = []
    for kind in kinds:
        for size in sizes:
            command = f"{KINDS[kind]} | head -c {size * MEGABYTE}"
            results = [asyncio.run(_collected(command)) for _run in range(runs)]
            label = f"{kind}, {size} MB: "
            first = f"{kind}, {sizes[0]} MB: " if size != sizes[0] else None
            for name, unit, budget in ROWS:
                values = tuple(result[name] for result in results)
                baseline = None if first is None or unit == "MB" else first + name
                measures.append(Measure(label + name, values, unit, budget, "median", baseline))
    return Report("output: a command that writes a lot", tuple(measures))


ROWS = (
    ("time", "× bare reader", None),
    ("in the background", "× bare reader", None),
    ("longest gap of the loop", "ms", 50.0),
    ("memory", "MB", 30.0),
    ("Esc to the end", "ms", 500.0),
)


async def _collected(command: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="agentcli-bench-") as folder:
        shells = Shells()
        place = Path(folder)
        context = ToolContext(
            cwd=place,
            working_dirs=(place,),
            environ={"PATH": "/usr/bin:/bin"},
            results_dir=place / "results",
            shells=shells,
        )
        bare = await asyncio.to_thread(_read_bare, command, place)
        try:
            before = resident_megabytes()
            with _Peak() as peak:
                async with LoopGaps() as gaps:
                    foreground = await _run(context, command)
                    background = await _run_in_background(context, shells, command)
            return {
                "time": foreground / bare,
                "in the background": background / bare,
                "longest gap of the loop": gaps.longest,
                "memory": max(0.0, peak.megabytes - before),
                "Esc to the end": await _stopped(context, command.partition(" | head")[0]),
            }
        finally:
            await shells.aclose()


def _read_bare(command: str, place: Path) -> float:
    began = time.perf_counter()
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, cwd=place, bufsize=0) as process:
        assert process.stdout is not None
        while process.stdout.read(65_536):
            pass
    return time.perf_counter() - began


async def _run(context: ToolContext, command: str) -> float:
    began = time.perf_counter()
    with AbortController() as controller:
        async with aclosing(Bash().run({"command": command}, context, controller.signal)) as events:
            results = [event async for event in events if isinstance(event, Output)]
    assert not results[0].is_error
    return time.perf_counter() - began


async def _run_in_background(context: ToolContext, shells: Shells, command: str) -> float:
    began = time.perf_counter()
    with AbortController() as controller:
        input = {"command": command, "run_in_background": True}
        async with aclosing(Bash().run(input, context, controller.signal)) as events:
            results = [event async for event in events if isinstance(event, Output)]
    shell = shells.get(results[0].structured["background_id"])
    assert shell is not None
    await shell.command.wait(600)
    await shell.command.output.take_unread()
    return time.perf_counter() - began


async def _stopped(context: ToolContext, command: str) -> float:
    """Milliseconds from Esc to the end of a call whose command would never end."""
    with AbortController() as controller:

        async def consume() -> None:
            async with aclosing(Bash().run({"command": command}, context, controller.signal)) as events:
                async for event in events:
                    if not isinstance(event, Output):
                        running.set()

        running = asyncio.Event()
        call = asyncio.get_running_loop().create_task(consume())
        shown = asyncio.get_running_loop().create_task(running.wait())
        await asyncio.wait({shown}, timeout=0.3)
        shown.cancel()
        began = time.perf_counter()
        controller.abort()
        await call
        return (time.perf_counter() - began) * 1000


class _Peak:
    """The most memory that the process has meanwhile."""

    def __init__(self) -> None:
        self.megabytes = resident_megabytes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.megabytes = max(self.megabytes, resident_megabytes())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()


if __name__ == "__main__":
    print(output(1, [int(size) for size in sys.argv[1:]] or SIZES))
