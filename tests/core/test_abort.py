from __future__ import annotations

import asyncio

import pytest

from agentcli.core.abort import AbortController, Aborted, AbortReason
from tests.support.virtual import run_virtual

pytestmark = pytest.mark.virtual


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
