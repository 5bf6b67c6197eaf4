"""How long the event loop of this process is away, and how much memory the process has."""

from __future__ import annotations

import asyncio
import gc
import selectors
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

BEAT = 0.002
_PAGE_MEGABYTES = 4096 / 1024 / 1024


class LoopGaps:
    """Milliseconds between two turns of the loop beyond the time that it slept on purpose.

    Only time in which this process was running counts: what other processes take is not its fault.
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def longest(self) -> float:
        return max(self.values, default=0.0)

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._beat())
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        await asyncio.sleep(0)
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _beat(self) -> None:
        last, worked = time.perf_counter(), time.process_time()
        while True:
            await asyncio.sleep(BEAT)
            last_before, worked_before = last, worked
            last, worked = time.perf_counter(), time.process_time()
            self.values.append(max(0.0, min(last - last_before, worked - worked_before) - BEAT) * 1000)


class LongestHold(selectors.DefaultSelector):
    """A selector that finds the longest turn of its event loop, in milliseconds of processor time.

    Without collections of garbage, which the programs bound for themselves.
    """

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self._began = self._collecting = time.process_time()
        gc.callbacks.append(self._collected)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.longest = max(self.longest, (time.process_time() - self._began) * 1000)
        try:
            return super().select(timeout)
        finally:
            self._began = time.process_time()

    def close(self) -> None:
        gc.callbacks.remove(self._collected)
        super().close()

    def _collected(self, phase: str, _info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting = time.process_time()
        else:
            self._began += time.process_time() - self._collecting


def resident_megabytes() -> float:
    """What the process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MEGABYTES
