from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.aio import (
    AbortController,
    Aborted,
    AbortReason,
    Merge,
    Outlet,
    cancel_and_wait,
    in_thread,
    start_task,
    wait_uncancelled,
)
from tests.support.own_loop import start_tasks_eagerly
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


@pytest.mark.parametrize("is_eager", [False, True])
async def test_a_task_runs_only_after_its_caller_has_stored_it(is_eager: bool) -> None:
    if is_eager:
        start_tasks_eagerly(asyncio.get_running_loop())
    tasks: list[asyncio.Task[list[object]]] = []

    async def look() -> list[object]:
        return [*tasks, asyncio.current_task()]

    tasks.append(start_task(look(), name="looking"))
    assert await tasks[0] == [tasks[0], tasks[0]]
    assert tasks[0].get_name() == "looking"


def test_items_of_several_producers_arrive_as_they_happen() -> None:
    async def main() -> list[str]:
        merge: Merge[str] = Merge()

        async def produce(name: str, gap: float) -> None:
            for n in range(3):
                await asyncio.sleep(gap)
                await merge.put(f"{name}{n}")

        merge.start(produce("a", 2))
        merge.start(produce("b", 3))
        return [item async for item in merge]

    assert run_virtual(main) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_slow_consumer_slows_the_producer() -> None:
    async def main() -> int:
        merge: Merge[int] = Merge(depth=4)
        produced = 0

        async def produce() -> None:
            nonlocal produced
            for n in range(1000):
                await merge.put(n)
                produced += 1

        merge.start(produce())
        await anext(merge)
        await asyncio.sleep(10)
        await merge.aclose()
        return produced

    assert run_virtual(main) <= 6


async def test_a_producer_that_raises_ends_the_merge_with_its_error() -> None:
    merge: Merge[int] = Merge()

    async def fail() -> None:
        raise ValueError("boom")

    merge.start(fail())
    with pytest.raises(ValueError, match="boom"):
        async for _item in merge:
            pass
    await merge.aclose()


def test_closing_cancels_producers_that_wait_for_room() -> None:
    async def main() -> list[str]:
        merge: Merge[int] = Merge(depth=1)
        ended: list[str] = []

        async def produce() -> None:
            try:
                while True:
                    await merge.put(1)
            finally:
                ended.append("ended")

        merge.start(produce())
        merge.start(produce())
        await anext(merge)
        await merge.aclose()
        return ended

    assert run_virtual(main) == ["ended", "ended"]


def test_cancel_and_wait_waits_for_slow_cleanup_even_when_cancelled() -> None:
    async def main() -> list[str]:
        done: list[str] = []

        async def stubborn() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(5)
                done.append("cleaned")

        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(1)
        waiter = asyncio.ensure_future(cancel_and_wait([task]))
        await asyncio.sleep(1)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        return done

    assert run_virtual(main) == ["cleaned"]


async def test_a_task_whose_time_limit_is_just_over_is_cancelled_soon() -> None:
    loop = asyncio.get_running_loop()

    async def work() -> None:
        try:
            async with asyncio.timeout_at(10):
                await asyncio.sleep(100)
        except TimeoutError:
            await asyncio.sleep(100)

    async def cancel() -> None:
        over = loop.create_future()
        loop.call_at(10, over.set_result, None)
        await over
        assert task.cancelling(), "by its time limit"
        await cancel_and_wait([task])

    cancelling = asyncio.create_task(cancel())
    task = asyncio.create_task(work())
    await cancelling
    assert task.cancelled()
    assert loop.time() < 11


@pytest.mark.parametrize("times", [1, 2])
def test_cancelled_work_in_a_thread_is_still_awaited(times: int) -> None:
    began, released, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        released.wait(60)
        ended.set()

    async def main() -> None:
        task = asyncio.ensure_future(in_thread(work))
        await asyncio.to_thread(began.wait, 60)
        for _time in range(times):
            task.cancel()
            for _turn in range(3):
                await asyncio.sleep(0)
        has_left = task.done()
        released.set()
        await asyncio.wait({task})
        assert not has_left
        assert task.cancelled()
        assert ended.is_set()

    asyncio.run(main())


@given(
    cancelled=st.sets(st.integers(1, 12)),
    ends=st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
def test_a_wait_ends_with_its_futures_however_often_it_is_cancelled(cancelled: set[int], ends: list[int]) -> None:
    """`cancelled`: turns of the event loop in which the wait is cancelled; `ends`: those in which a future is done. It
    ends at most two turns later: one until the callback of the last future, one until the task continues."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _end in ends]
        waiting = loop.create_task(wait_uncancelled(futures))
        was_cancelled = False
        for turn in range(20):
            for future, end in zip(futures, ends, strict=True):
                if end == turn:
                    future.set_result(None)
            if turn in cancelled:
                was_cancelled |= waiting.cancel()
            assert turn > max(ends) or not waiting.done()
            assert turn <= max(ends) + 2 or waiting.done()
            await asyncio.sleep(0)
        with suppress(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled() == was_cancelled

    run_virtual(main)


async def emit_numbers(outlet: Outlet[int], log: list[str]) -> None:
    try:
        for number in range(3):
            log.append(f"emits {number}")
            await outlet.emit(number)
            await asyncio.sleep(0)
    finally:
        await asyncio.sleep(0)
        await outlet.emit(99)
        log.append("ended")


@pytest.mark.parametrize("left_after", [0, 1, 2])
def test_the_work_of_an_outlet_never_runs_ahead_and_is_cancelled_with_its_consumer(left_after: int) -> None:
    async def main() -> None:
        outlet, log = Outlet[int](), list[str]()
        async with aclosing(outlet.deliver(emit_numbers(outlet, log))) as numbers:
            async for number in numbers:
                assert log == [f"emits {n}" for n in range(number + 1)]
                if number == left_after:
                    break
        assert log[-1] == "ended", "what it emits then goes nowhere"

    asyncio.run(main())


def test_an_outlet_passes_on_errors_cancellation_and_items_of_others() -> None:
    async def fail(outlet: Outlet[str]) -> None:
        outlet.emit_soon("before")
        await outlet.emit("it")
        raise ValueError("broken")

    async def wait(outlet: Outlet[str]) -> None:
        await outlet.emit("waits")
        await asyncio.sleep(3600)

    async def main() -> None:
        outlet, seen = Outlet[str](), list[str]()

        async def consume(work: Callable[[Outlet[str]], Coroutine[Any, Any, None]]) -> None:
            async for item in outlet.deliver(work(outlet)):
                seen.append(item)

        with pytest.raises(ValueError, match="broken"):
            await consume(fail)
        assert seen == ["before", "it"]
        task = asyncio.create_task(consume(wait))
        while "waits" not in seen:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_the_first_reason_stays() -> None:
    controller = AbortController()
    assert controller.signal.reason is None
    controller.abort(AbortReason.INTERRUPT)
    controller.abort(AbortReason.SHUTDOWN)
    assert controller.signal.reason is AbortReason.INTERRUPT


def test_callbacks_run_inside_the_call_that_aborts_and_only_once() -> None:
    controller = AbortController()
    heard: list[str] = []
    controller.signal.on_abort(lambda reason: heard.append(f"a {reason.value}"))
    unhook = controller.signal.on_abort(lambda reason: heard.append("b"))
    unhook()
    controller.abort(AbortReason.BUDGET)
    controller.abort()
    controller.signal.on_abort(lambda reason: heard.append(f"late {reason.value}"))
    assert heard == ["a budget", "late budget"]


def test_a_child_is_aborted_with_its_parent_but_not_the_reverse() -> None:
    parent = AbortController()
    with AbortController(parent.signal) as first, AbortController(parent.signal) as second:
        first.abort()
        assert not parent.signal.aborted
        assert not second.signal.aborted
        parent.abort(AbortReason.SHUTDOWN)
        assert first.signal.reason is AbortReason.USER_CANCEL
        assert second.signal.reason is AbortReason.SHUTDOWN


def test_a_closed_child_is_forgotten_by_its_parent() -> None:
    parent = AbortController()
    child = AbortController(parent.signal)
    child.close()
    parent.abort()
    assert not child.signal.aborted
    assert parent.signal._callbacks == {}


def test_a_child_of_an_aborted_parent_is_aborted_from_the_start() -> None:
    parent = AbortController()
    parent.abort(AbortReason.INTERRUPT)
    assert AbortController(parent.signal).signal.reason is AbortReason.INTERRUPT


def test_waiting_ends_with_the_reason() -> None:
    async def main() -> AbortReason:
        controller = AbortController()
        asyncio.get_running_loop().call_later(1, controller.abort, AbortReason.BUDGET)
        return await controller.signal.wait()

    assert run_virtual(main) is AbortReason.BUDGET


def test_run_returns_the_value_or_raises_and_leaves_nothing_running() -> None:
    ended: list[str] = []

    async def work(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
            return "value"
        finally:
            ended.append("ended")

    async def main() -> None:
        controller = AbortController()
        asyncio.get_running_loop().call_later(5, controller.abort, AbortReason.INTERRUPT)
        assert await controller.signal.run(work(1)) == "value"
        with pytest.raises(Aborted) as caught:
            await controller.signal.run(work(100))
        assert caught.value.reason is AbortReason.INTERRUPT
        assert asyncio.get_running_loop().time() == pytest.approx(5)

    run_virtual(main)
    assert ended == ["ended", "ended"]


def test_a_result_that_finishes_with_the_abort_is_kept() -> None:
    async def main() -> str:
        controller = AbortController()
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def both() -> None:
            future.set_result("done")
            controller.abort()

        asyncio.get_running_loop().call_later(1, both)

        return await controller.signal.run(future)

    assert run_virtual(main) == "done"


async def test_cancelling_the_caller_is_no_abort() -> None:
    controller = AbortController()
    task = asyncio.ensure_future(controller.signal.run(asyncio.sleep(100)))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not controller.signal.aborted


def test_a_sleep_is_cut_short_by_an_abort() -> None:
    async def main() -> tuple[bool, bool, float]:
        controller = AbortController()
        whole = await controller.signal.sleep(2)
        asyncio.get_running_loop().call_later(1, controller.abort)
        cut = await controller.signal.sleep(50)
        assert not await controller.signal.sleep(50)
        return whole, cut, asyncio.get_running_loop().time()

    whole, cut, time = run_virtual(main)
    assert whole
    assert not cut
    assert time == pytest.approx(3)


def test_an_abort_or_a_cancellation_at_any_point_holds_no_lock() -> None:
    async def main(step: int, cancels: bool) -> bool:
        lock, controller = asyncio.Lock(), AbortController()
        loop = asyncio.get_running_loop()
        task = loop.create_task(controller.signal.acquire(lock))
        for _ in range(step):
            await asyncio.sleep(0)
        if cancels:
            task.cancel()
        else:
            controller.abort()
        await asyncio.wait([task])
        acquired = not task.cancelled() and task.exception() is None
        assert lock.locked() == acquired
        return acquired

    outcomes = {run_virtual(lambda s=step, c=cancels: main(s, c)) for step in range(6) for cancels in (True, False)}  # type: ignore[misc]
    assert outcomes == {True, False}
