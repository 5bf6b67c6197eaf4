"""A session that runs for days: what thousands of prompts leave behind in the process, by tenths of them."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent.engine import Engine
from agentcli.assemble import build_engine
from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.providers.provider import MessagesProvider
from agentcli.providers.transports.base import Transport
from tests.bench.growth import MOST_KILOBYTES, model_reply, options_for, resident_kilobytes, tenths, tokens_for
from tests.bench.measure import Measure, Report
from tests.bench.program import workshop
from tests.support.scripts import say

PROMPTS = 10_000
WARM_UP = 20
"""Prompts before those that count."""
MOST_MORE = {"handles": 0, "tasks": 0, "threads": 8, "children": 0, "temp_files": 0}
"""Of each at the end than after the first tenth; threads are those of asyncio's pool, which has a limit of its own."""


@dataclass(frozen=True)
class Held:
    """What the process holds at one moment."""

    kilobytes: int
    handles: int
    tasks: int
    threads: int
    children: int
    temp_files: int


def growth_prompts(runs: int, prompts: int = PROMPTS) -> Report:
    """Nothing but memory may grow, and that only by what a conversation needs."""
    times: list[list[float]] = []
    moments: list[Held] = []
    for _run in range(runs):
        with workshop() as place, _own_temp_folder(place.home):
            model = MessagesProvider(AnsweringModel())
            spent, moments = asyncio.run(_prompt_often(build_engine(options_for(place, {}, model)), prompts))
            times.append(spent)
    first, last = moments[0], moments[-1]
    each = (last.kilobytes - first.kilobytes) / (prompts * (len(moments) - 1) / len(moments))
    counts = [
        Measure(f"{name}: more at the end", (float(getattr(last, name) - getattr(first, name)),), "", most)
        for name, most in MOST_MORE.items()
    ]
    notes = [f"after tenth {number}: {held}" for number, held in enumerate(moments, 1)]
    return Report(
        f"growth-prompts: {prompts:,} prompts in one session",
        (*tenths("processor time", times), Measure("resident, each prompt", (each,), "KB", MOST_KILOBYTES), *counts),
        tuple(notes),
    )


async def _prompt_often(engine: Engine, prompts: int) -> tuple[list[float], list[Held]]:
    """Milliseconds of processor time of each prompt, and what is held after each tenth."""
    times: list[float] = []
    moments: list[Held] = []
    async with engine:
        for number in range(-WARM_UP, prompts):
            began = time.process_time()
            async with aclosing(engine.submit(f"And what about part {number}?")) as events:
                async for _event in events:
                    pass
            if number >= 0:
                times.append((time.process_time() - began) * 1000)
            if number >= 0 and (number + 1) % max(1, prompts // 10) == 0:
                moments.append(_held())
    return times, moments


@contextmanager
def _own_temp_folder(home: Path) -> Iterator[None]:
    before, tempfile.tempdir = tempfile.tempdir, str(home)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _held() -> Held:
    gc.collect()
    me = Path("/proc/self")
    children = ((thread / "children").read_text().split() for thread in (me / "task").iterdir())
    return Held(
        kilobytes=resident_kilobytes(),
        handles=len(list((me / "fd").iterdir())),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        children=sum(map(len, children)),
        temp_files=len(list(Path(tempfile.gettempdir()).iterdir())),
    )


class AnsweringModel(Transport):
    """Answers every request with a sentence. Keeps no request."""

    name = "answering"

    def __init__(self) -> None:
        self._requests = 0

    async def events(self, body: Json, _betas: tuple[str, ...], _signal: AbortSignal) -> AsyncGenerator[Json, None]:
        self._requests += 1
        await asyncio.sleep(0)
        for event in model_reply(say("That part is as it should be."), tokens_for(body), self._requests):
            yield event
