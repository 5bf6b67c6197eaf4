"""Run an asynchronous test in an event loop of its own, and fail it for what its callbacks raise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest


def eager_task_factory() -> Any:
    """asyncio's factory of tasks that run at once up to their first wait. Skips the test on Python 3.11, without it."""
    factory = getattr(asyncio, "eager_task_factory", None)
    if factory is None:
        pytest.skip("tasks cannot start eagerly before Python 3.12")
    return factory


def run_in_own_loop(test: Callable[..., Coroutine[Any, Any, None]], arguments: dict[str, Any]) -> None:
    raised: list[Exception] = []

    def remember(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            raised.append(error)
        else:
            loop.default_exception_handler(context)

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(remember)
        try:
            loop.run_until_complete(test(**arguments))
        except Exception as error:
            raised.append(error)
        # What is raised from here on is no fault of the test: it runs while the loop is closed.
        found = raised.copy()
    if len(found) == 1:
        raise found[0]
    if found:
        raise ExceptionGroup("callbacks or the test raised several errors", found)
