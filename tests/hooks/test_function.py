"""Hooks that are Python functions: on the loop or in a thread, with the limits of commands."""

from __future__ import annotations

import threading
import time

import pytest

from agentcli.core.messages import Json
from agentcli.hooks.runner import run_function

pytestmark = pytest.mark.anyio


async def test_an_async_function_runs_on_the_loop_and_others_in_a_thread() -> None:
    async def here(data: Json) -> str:
        return f"{data['a']} {threading.current_thread() is threading.main_thread()}"

    def there(data: Json) -> str:
        return f"{data['a']} {threading.current_thread() is threading.main_thread()}"

    assert (await run_function(here, {"a": 1}, 10)).returned == "1 True"
    assert (await run_function(there, {"a": 1}, 10)).returned == "1 False"


async def test_a_function_that_hangs_is_left_behind() -> None:
    released = threading.Event()

    def hangs(_data: Json) -> None:
        released.wait(30)

    began = time.monotonic()
    output = await run_function(hangs, {}, 0.1)
    assert (output.ending, time.monotonic() - began < 5) == ("timed_out", True)
    released.set()


async def test_a_bug_in_a_function_is_a_crash_of_the_hook() -> None:
    def broken(_data: Json) -> None:
        raise StopIteration("odd")

    def leaves(_data: Json) -> None:
        raise SystemExit(3)

    assert (await run_function(broken, {}, 5)).detail == "RuntimeError: StopIteration: odd"
    assert (await run_function(leaves, {}, 5)).ending == "crashed"
