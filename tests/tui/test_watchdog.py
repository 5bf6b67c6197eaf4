"""Esc works while a callback blocks the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from agentcli.tui.terminal.watchdog import EscapeWatch, Stuck


def spin() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(30)


def swallow() -> None:
    for _ in range(2):
        try:
            spin()
        except Stuck:
            continue


@pytest.mark.parametrize("block", [spin, sleep, swallow])
def test_escape_interrupts_a_blocked_loop_and_the_loop_continues(block: Callable[[], None]) -> None:
    stacks: list[str] = []
    logged = threading.Event()

    def log(stack: str) -> None:
        stacks.append(stack)
        logged.set()

    async def stuck(presses: threading.Timer) -> None:
        await asyncio.sleep(0)
        # In here nothing answers the watch, however late the key comes.
        presses.start()
        block()

    async def main() -> str:
        watch = EscapeWatch(asyncio.get_running_loop(), log, limit=0.05)
        presses = threading.Timer(0.02, watch.pressed)
        try:
            task = asyncio.create_task(stuck(presses))
            outcome = "ended"
            try:
                await task
            except Stuck as error:
                outcome = str(error)
            await asyncio.sleep(0)
            return outcome
        finally:
            presses.join()
            watch.close()

    outcome = asyncio.run(main())
    assert outcome == "ended" if block is swallow else "stopped" in outcome
    assert logged.wait(5)
    assert f"in {block.__name__}" in stacks[0] or "in spin" in stacks[0]


def test_a_blocking_callback_of_the_loop_is_interrupted_too() -> None:
    async def main() -> list[Any]:
        loop, problems = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _loop, context: problems.append(context["exception"]))
        watch = EscapeWatch(loop, lambda stack: None, limit=0.05)
        watch_out = threading.Timer(0.02, watch.pressed)

        def block() -> None:
            watch_out.start()
            spin()

        loop.call_soon(block)
        await asyncio.sleep(0.01)
        watch_out.join()
        watch.close()
        return problems

    assert [type(problem) for problem in asyncio.run(main())] == [Stuck]


def test_escape_does_not_affect_a_responsive_loop() -> None:
    stacks: list[str] = []

    async def main() -> None:
        watch = EscapeWatch(asyncio.get_running_loop(), stacks.append, limit=0.02)
        for _ in range(5):
            await asyncio.to_thread(watch.pressed)
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        watch.close()

    asyncio.run(main())
    assert stacks == []


def test_an_idle_loop_is_never_interrupted() -> None:
    """The signal may come when the loop is just waiting: an exception there would end the loop."""

    async def main() -> str:
        loop = asyncio.get_running_loop()
        watch = EscapeWatch(loop, lambda stack: None, limit=0.01)
        held = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *arguments: None  # type: ignore[assignment]  # an answer that never comes
        watch.pressed()
        loop.call_soon_threadsafe = held  # type: ignore[method-assign]
        await asyncio.sleep(0.2)
        watch.close()
        return "fine"

    assert asyncio.run(main()) == "fine"
