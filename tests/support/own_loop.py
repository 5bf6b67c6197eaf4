"""Run an asynchronous test in an event loop of its own, and fail it for what its callbacks raise."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

EAGER = bool(os.environ.get("EAGER_TASKS"))
"""Whether the tests' event loops start tasks eagerly: as that of Textual does on Python 3.12 or later, and as that of a
program that uses agentcli as a library may."""


def start_tasks_eagerly(loop: asyncio.AbstractEventLoop) -> None:
    """Run each new task at once, up to its first wait. Skips the test on Python 3.11, which cannot."""
    factory = getattr(asyncio, "eager_task_factory", None)
    if factory is None:
        pytest.skip("tasks cannot start eagerly before Python 3.12")
    loop.set_task_factory(factory)


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
        if EAGER:
            start_tasks_eagerly(loop)
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
