"""What a turn leaves behind in memory: few objects, and nothing that only the garbage collector frees."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

from agentcli.assemble import build_engine
from agentcli.core.events import LoopContinued
from agentcli.providers.provider import MessagesProvider
from tests.bench.growth import LARGE_WINDOW, ReadingModel, options_for
from tests.bench.program import workshop

WARM_UP = 3
TURNS = 8
MAX_KEPT = 60
"""Blocks of memory that a turn of the engine with a Read keeps, which are 52."""


@contextmanager
def collected_garbage() -> Iterator[list[object]]:
    """All objects that only the garbage collector frees, found at the end."""
    found: list[object] = []
    while gc.collect():  # finalizers of what earlier tests left can leave more
        pass
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def _left_by_turns() -> Counter[str]:
    """Names of functions and kinds of objects that `TURNS` turns with a Read leave in reference cycles."""
    turns = 0
    with workshop() as place:
        model = ReadingModel(place.project, WARM_UP + TURNS + 1)
        options = options_for(place, LARGE_WINDOW, MessagesProvider(model))
        async with build_engine(options) as engine, aclosing(engine.submit("Read all of it")) as events:
            while turns < WARM_UP:
                turns += isinstance(await anext(events), LoopContinued)
            with collected_garbage() as garbage:
                while turns < WARM_UP + TURNS:
                    turns += isinstance(await anext(events), LoopContinued)
    return Counter(getattr(one, "__qualname__", type(one).__qualname__) for one in garbage)


def test_a_turn_leaves_no_reference_cycles() -> None:
    """The app looks for old garbage only while the user is away, and a turn refers to a whole request."""
    left = asyncio.run(_left_by_turns())

    assert not [name for name, count in left.items() if count >= TURNS], left.most_common(20)


async def _kept_by_turns(turns: int) -> float:
    """Blocks of memory that stay allocated for each turn with a Read, after a beginning that fills caches."""
    done, begin = 0, 20
    with workshop() as place:
        model = ReadingModel(place.project, begin + turns + 1)
        options = options_for(place, LARGE_WINDOW, MessagesProvider(model))
        async with build_engine(options) as engine, aclosing(engine.submit("Read all of it")) as events:
            while done < begin:
                done += isinstance(await anext(events), LoopContinued)
            gc.collect()
            before = sys.getallocatedblocks()
            while done < begin + turns:
                done += isinstance(await anext(events), LoopContinued)
            gc.collect()
            return (sys.getallocatedblocks() - before) / turns


def test_a_turn_keeps_few_objects() -> None:
    assert asyncio.run(_kept_by_turns(25)) <= MAX_KEPT
