"""An event loop whose clock jumps: whatever waits is due at once, in the right order, and nothing really waits.

For tests without real I/O: with nothing ready and no timer left it fails instead of hanging for ever. Threads and
child processes are real I/O: do not use them on this loop.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

from agentcli.permissions.policy import EVALUATORS
from tests.support.own_loop import EAGER, start_tasks_eagerly

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Nothing will ever happen again on this loop."""


class _JumpingSelector(selectors.SelectSelector):
    """Instead of blocking for `timeout` seconds it moves the loop's clock on by as much."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise DeadlockError("every task waits for something that cannot come")
        self.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`steps` counts iterations; `act_at` runs something between two of them: that is at every point where anything
    can be awaiting."""

    def __init__(self) -> None:
        self.steps = 0
        self.act_at: dict[int, Callable[[], object]] = {}
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # Timers within the resolution of the clock count as due: without this a rounding error could spin.
        self._clock_resolution = 1e-9
        if EAGER:
            start_tasks_eagerly(self)

    def time(self) -> float:
        return self._jumping.now

    def _run_once(self) -> None:
        self.steps += 1
        if (action := self.act_at.pop(self.steps, None)) is not None:
            action()
        super()._run_once()  # type: ignore[misc]


def run_virtual(main: Callable[[], Coroutine[Any, Any, T]] | Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time; fails if it leaves a task behind."""
    # An engine imports this in a thread, which virtual time does not wait for.
    import_module(EVALUATORS)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:

        async def whole() -> T:
            result = await (main if asyncio.iscoroutine(main) else main())  # type: ignore[operator, misc]
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert not left, f"tasks left behind: {left}"
            return result  # type: ignore[no-any-return]

        return runner.run(whole())
