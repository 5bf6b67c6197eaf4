"""What a PreToolUse hook adds to the process that it starts: the command `true`, bare and as a hook, in turns."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from agentcli.agent.configured_hooks import ConfiguredHooks
from agentcli.core.events import Event
from agentcli.core.ids import RandomIds, SystemClock
from agentcli.core.messages import ToolUseBlock
from agentcli.hooks.rules import HookRule
from agentcli.hooks.runner import HookPlace, HookRunner


async def hook_times(runs: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Milliseconds of each run: of the process alone, and as a hook."""
    environ = {"PATH": os.environ["PATH"]}
    place = HookPlace(Path.cwd(), environ)
    runner = HookRunner([HookRule("PreToolUse", "Bash", "true")], place, RandomIds(), SystemClock())

    async def emit(_event: Event) -> None: ...

    hooks = ConfiguredHooks(runner).reporting_to(emit)
    call = ToolUseBlock("id", "Bash", {"command": "make"})
    bare: list[float] = []
    hooked: list[float] = []
    for number in range(runs + 2):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "true", env=environ)
        await process.wait()
        between = time.perf_counter()
        await hooks.before_tool(call, call.input)
        ended = time.perf_counter()
        if number >= 2:
            bare.append((between - began) * 1000)
            hooked.append((ended - between) * 1000)
    return tuple(bare), tuple(hooked)
