"""Run the Python function of a hook with the timeout and the failure rules of a command."""

from __future__ import annotations

import asyncio
import inspect

from agentcli.core.aio import in_daemon_thread
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.hooks.answers import HookOutput
from agentcli.hooks.rules import HookFunction


async def run_function(function: HookFunction, data: Json, seconds: float) -> HookOutput:
    """Run a function. Raises only for cancellation. A function in a thread cannot be stopped: it continues and its
    result is ignored."""
    try:
        async with asyncio.timeout(seconds):
            if _is_async(function):
                value = await function(data)  # type: ignore[misc]
            else:
                value = await in_daemon_thread(function, data)
                if inspect.isawaitable(value):
                    value = await value
    except TimeoutError:
        return HookOutput("timed_out", None, detail=f"it took longer than {seconds:g} s and was stopped")
    except Exception as error:  # noqa: BLE001 - a bug in a hook must not end the submission
        return HookOutput("crashed", None, detail=plain_line(f"{type(error).__name__}: {error}", 500))
    return HookOutput("exited", None, returned=value)


def _is_async(function: HookFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
