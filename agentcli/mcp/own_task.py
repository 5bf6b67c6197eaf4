"""Run agentcli's code for the `mcp` library, which calls it within cancel scopes of anyio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentcli.core.aio import cancel_and_wait, start_task

T = TypeVar("T")


async def in_own_task(work: Coroutine[Any, Any, T]) -> T:
    """Await the work in a task outside of the caller's cancel scopes; a cancellation cancels it once and waits for it.

    A cancelled scope cancels its tasks again with every iteration of the event loop, until they have left it. That
    interrupts each step of a cleanup, and keeps the event loop busy while a task waits for a thread or a process.
    """
    import anyio

    task = start_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await cancel_and_wait([task])
        raise
