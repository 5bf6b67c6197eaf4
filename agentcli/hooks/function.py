"""Run the Python function of a hook with the timeout and the failure rules of a command."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

from agentcli.core.messages import Json
from agentcli.core.plaintext import plain_line
from agentcli.hooks.answers import HookOutput
from agentcli.hooks.rules import HookFunction


async def run_function(function: HookFunction, data: Json, seconds: float) -> HookOutput:
    """Never raises but for cancellation. A function in a thread cannot be stopped: it is left behind and ignored."""
    try:
        async with asyncio.timeout(seconds):
            if _is_async(function):
                value = await function(data)  # type: ignore[misc]
            else:
                value = await _in_daemon_thread(function, data)
                if inspect.isawaitable(value):
                    value = await value
    except TimeoutError:
        return HookOutput("timed_out", None, detail=f"it took longer than {seconds:g} s and was stopped")
    except Exception as error:  # noqa: BLE001 - a bug in a hook must not end the submission
        return HookOutput("crashed", None, detail=plain_line(f"{type(error).__name__}: {error}", 500))
    return HookOutput("exited", None, returned=value)


def _is_async(function: HookFunction) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def _in_daemon_thread(function: HookFunction, data: Json) -> Any:
    """A thread of its own: one from the event loop's pool would keep the program from ending while it hangs."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def finish(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def work() -> None:
        value: Any = None
        problem: Exception | None = None
        try:
            value = function(data)
        except StopIteration as error:  # a future cannot hold one
            problem = RuntimeError(str(error))
        except BaseException as error:  # noqa: BLE001 - reported where it is awaited
            problem = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, value, problem)

    threading.Thread(target=work, name="hook", daemon=True).start()
    return await future
